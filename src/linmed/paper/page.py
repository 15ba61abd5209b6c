"""Write the report: one page that needs nothing but itself, with a summary and the ledger first."""

import os
import platform
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import metadata, resources

from linmed import __version__
from linmed.paper.claims import Row
from linmed.paper.drawing import Drawing, drawings, figure_name
from linmed.paper.experiment import Findings, duration
from linmed.paper.ledger import decided_first, side_by_side
from linmed.paper.output import Output
from linmed.paper.provenance import Origin, words
from linmed.paper.roster import Variant
from linmed.paper.statistics import Verdict
from linmed.report.figures import stylesheet
from linmed.report.html import Markup, document, joined, table, tag

SIGN: dict[Verdict, str] = {"holds": "✓", "fails": "✗", "undecided": "?"}
MEANING: dict[Verdict, str] = {"holds": "hold", "fails": "do not", "undecided": "undecided"}
SHORT: dict[Variant, str] = {"text": "text", "as-run": "as run"}
NAMED: dict[Variant, str] = {"text": "As the text has it", "as-run": "As the public code runs it"}
DESCRIBED: dict[Variant, str] = {
    "text": "as the paper's text describes the experiments",
    "as-run": "as the authors' public code (December 2024) runs them",
}
HOW = (
    "Each claim with its place, what was taken for it and whose border that is, what was measured (with its "
    "95\u00a0% interval over trials, policies compared on the same random numbers) and the verdict. A claim "
    "holds or fails only if the interval leaves no doubt about it; where a claim has parts, all must hold (✗ "
    "and ? mark the parts that do not)."
)
KNOWN = (
    "What was known when the rules were written, and how they were changed, is in linmed's manual: "
    "docs/reproduction.md for the paper's claims, and beside the rules in linmed.paper.rules for our own."
)
ClaimIds = Mapping[tuple[str, str], str]
"""(experiment, claim) → the anchor of its line in the ledger."""


def write_page(
    output: Output, findings: Sequence[Findings], rows: Sequence[Row], wall: Mapping[str, float],
    command: str, runs: Sequence[Origin],
) -> None:  # fmt: skip
    """Write figures as PNG and SVG files, and `report.html` with the same figures inside."""
    own = findings[0].experiment.ours
    drawn = [(found, drawings(found)) for found in findings]
    every = [drawing for _, some in drawn for drawing in some]
    for drawing in every:
        output.write(f"figures/{drawing.name}.png", drawing.png())
        output.write(f"figures/{drawing.name}.svg", drawing.svg)
    experiments: dict[str, list[tuple[Findings, list[Drawing]]]] = {}
    for found, some in drawn:
        experiments.setdefault(found.experiment.name, []).append((found, some))
    title = findings[0].experiment.title
    heading = title if own else "The experiments of the LinMED paper, run again"
    style = stylesheet() + (resources.files("linmed.paper") / "report.css").read_text(encoding="utf-8")
    whole = document(
        f"LinMED: {title.lower()}" if own else "LinMED: the experiments, run again",
        style,
        _head(heading, findings, rows, own),
        _ledger(rows, findings, {drawing.name for drawing in every}, runs, own),
        [_experiment(ran) for ran in experiments.values()],
        _colophon(findings, rows, wall, command, runs, own),
    )
    output.write(output.report.name, whole)


def badge(verdict: Verdict) -> Markup:
    """Show a verdict in its colour."""
    return tag("span", f"{SIGN[verdict]}\u00a0{verdict}", class_=f"verdict {verdict}")


def anchors(rows: Sequence[Row]) -> ClaimIds:
    """Name the claims' lines, in the order of the rules."""
    groups = enumerate(side_by_side(rows), start=1)
    return {(group[0].experiment, group[0].claim): f"claim-{number}" for number, group in groups}


def _variants(findings: Sequence[Findings]) -> list[Variant]:
    return list(dict.fromkeys(found.variant for found in findings))


# ---- the top: how many claims hold, and which, at a glance


def _head(heading: str, findings: Sequence[Findings], rows: Sequence[Row], own: bool) -> Markup:
    variants, ids = _variants(findings), anchors(rows)
    titles = {found.experiment.name: found.experiment.title for found in findings}
    about = [joined(tag("b", SHORT[v]), f", {DESCRIBED[v]}") for v in variants]
    said = joined(about[0], [joined(" and ", one) for one in about[1:]], ". A square is a claim of the paper")
    if own:
        said = joined(
            "this is no experiment of the paper's, and no rule here judges the paper. A square is a claim"
        )
    counts = [
        _count([row for row in rows if row.variant == v], v if len(variants) > 1 else None) for v in variants
    ]
    overview = [
        _overview(name, title, [row for row in rows if row.experiment == name], variants, ids)
        for name, title in titles.items()
    ]
    jump = tag("a", "The ledger: every claim", href="#ledger"), tag("a", "How this was made", href="#made")
    return tag(
        "header",
        tag("h1", heading),
        tag("p", "Scale ", tag("b", findings[0].scale), "; ", said, ": follow it to what was measured."),
        tag("div", counts, class_="counts"),
        tag("ul", overview, class_="overview"),
        tag("p", jump[0], " · ", jump[1], class_="jump"),
    )


def _count(rows: Sequence[Row], variant: Variant | None) -> Markup:
    """Counts as large numbers and a bar."""
    count = Counter(row.verdict for row in rows)
    large = [
        tag("div", tag("b", count[verdict]), tag("span", meaning), class_=f"large {verdict}")
        for verdict, meaning in MEANING.items()
    ]
    bar = [tag("i", class_=verdict, style=f"flex:{count[verdict]}") for verdict in MEANING if count[verdict]]
    named = tag("p", SHORT[variant], class_="which") if variant else None
    return tag(
        "div", named, tag("div", large, class_="larges"), tag("div", bar, class_="bar"), class_="count"
    )


def _overview(
    name: str, title: str, rows: Sequence[Row], variants: Sequence[Variant], ids: ClaimIds
) -> Markup:
    strips = []
    for variant in variants:
        squares = []
        for row in decided_first([row for row in rows if row.variant == variant]):
            said, anchor = f"{row.verdict}: {row.claim}", ids[row.experiment, row.claim]
            look = {"class_": f"square {row.verdict}", "title": said, "aria_label": said}
            squares.append(tag("a", SIGN[row.verdict], href=f"#{anchor}", **look))
        label = tag("small", SHORT[variant]) if len(variants) > 1 else None
        strips.append(tag("div", label, squares, class_="strip"))
    first = [row for row in rows if row.variant == variants[0]]
    said_of = [one for verdict in MEANING if verdict != "undecided" for one in _example(first, verdict)]
    nothing = "nothing decided at this scale" if rows else "no claims"
    return tag(
        "li",
        tag("a", title, class_="name", href=f"#{name}"),
        tag("div", strips, class_="strips"),
        tag("div", said_of or nothing, class_="said"),
    )


def _example(rows: Sequence[Row], verdict: Verdict) -> Iterator[Markup]:
    """One claim with this verdict in words, and how many more there are."""
    claims = [row.claim for row in rows if row.verdict == verdict]
    whole = [claim for claim in claims if not claim.startswith("…")] or claims
    if whole:
        more = [" ", tag("small", f"and {len(claims) - 1} more")] if len(claims) > 1 else None
        yield tag("p", tag("span", SIGN[verdict], class_=f"sign {verdict}"), " ", whole[0], more)


# ---- the ledger: decided claims first, both variants side by side


def _ledger(
    rows: Sequence[Row], findings: Sequence[Findings], figures: Collection[str], runs: Sequence[Origin],
    own: bool,
) -> Markup:  # fmt: skip
    groups = side_by_side(decided_first(rows))
    decided = [group for group in groups if any(row.verdict != "undecided" for row in group)]
    parts = []
    for heading, some in (
        ("Decided", decided),
        ("Undecided at this scale", [group for group in groups if group not in decided]),
    ):
        if some:
            parts.append(tag("h3", f"{heading} ({len(some)})"))
            parts.append(_claims(some, findings, figures, anchors(rows)))
    known = tag("a", "What was known when the rules were written", href="#made")
    return tag(
        "section",
        tag("h2", "Which of our claims hold" if own else "Which claims hold"),
        tag("p", HOW),
        tag("p", tag("small", words(list(runs)), " ", known)),
        parts,
        id="ledger",
    )


def _claims(
    groups: Sequence[list[Row]], findings: Sequence[Findings], figures: Collection[str], ids: ClaimIds
) -> Markup:
    variants = _variants(findings)
    several = len(variants) > 1
    heads = ["claim", "taken for it", *([SHORT[v] for v in variants] if several else ["measured"])]
    lines = []
    for name, title in {found.experiment.name: found.experiment.title for found in findings}.items():
        mine = [group for group in groups if group[0].experiment == name]
        if mine:
            there = tag("th", tag("a", title, href=f"#{name}"), colspan=len(heads), scope="rowgroup")
            lines.append(tag("tr", there, class_="group"))
        for group in mine:
            first, by = group[0], {row.variant: row for row in group}
            cells = [
                _verdict(by[v], figures, SHORT[v] if several else None)
                if v in by
                else tag("td", "—", class_="none")
                for v in variants
            ]
            claim = tag("td", first.claim, " ", tag("small", first.place))
            border = tag("td", first.predicate, " ", tag("small", f"border: {first.threshold}"))
            lines.append(tag("tr", claim, border, cells, id=ids[first.experiment, first.claim]))
    head = tag("thead", tag("tr", [tag("th", cell) for cell in heads]))
    return tag("table", head, tag("tbody", lines), class_="ledger both" if several else "ledger")


def _verdict(row: Row, figures: Collection[str], named: str | None) -> Markup:
    figure = figure_name(row.figure, "as-run" if row.variant == "as-run" else "text")
    shown = tag("a", "figure", href=f"#figure-{figure}" if figure in figures else f"#{row.experiment}")
    which = [tag("span", named, class_="which"), " "] if named else None
    parts = [tag("span", part, class_="part") for part in row.measured.split("; ")]
    trials = tag("small", f"{row.trials:,} trials · ", shown)
    return tag("td", which, badge(row.verdict), " ", parts, trials, class_="measured")


# ---- an experiment: what it is, its figures, its numbers, for each variant


def _experiment(ran: Sequence[tuple[Findings, Sequence[Drawing]]]) -> Markup:
    experiment = ran[0][0].experiment
    return tag(
        "section",
        tag("h2", experiment.title),
        tag("p", experiment.about, " ", tag("small", f"({experiment.place})")),
        [_variant(found, drawn) for found, drawn in ran],
        id=experiment.name,
    )


def _variant(found: Findings, drawn: Sequence[Drawing]) -> Iterator[Markup]:
    many = found.most_trials
    more = f", up to {many:,} where claims needed them" if many > found.trials else ""
    if not found.experiment.ours:
        yield tag("h3", NAMED[found.variant])
    yield tag("p", f"{found.horizon:,} rounds × {found.trials:,} trials{more}, seed {found.seed}.")
    for note in found.notes:
        yield tag("p", note, class_="note")
    if found.experiment.differences:
        intro = "The public code differs:" if found.variant == "text" else "Unlike the text:"
        items = tag("ul", [tag("li", item) for item in found.experiment.differences])
        yield tag("details", tag("summary", intro), items)
    for drawing in drawn:
        shown = tag("div", Markup(drawing.inline()), class_="scroll")
        yield tag("figure", shown, tag("figcaption", drawing.caption), id=f"figure-{drawing.name}")
    for heading, numbers, note in found.experiment.numbers(found):
        yield tag("h4", heading)
        rows = [list(row.values()) for row in numbers.to_pylist()]
        yield tag("div", table(numbers.column_names, rows), class_="scroll")
        if note:
            yield tag("p", tag("small", note))


# ---- how it was made


def _colophon(
    findings: Sequence[Findings], rows: Sequence[Row], wall: Mapping[str, float], command: str,
    runs: Sequence[Origin], own: bool,
) -> Markup:  # fmt: skip
    lines = []
    for f in findings:
        counts = f"{f.horizon:,}", f"{f.trials:,}", f"{f.most_trials:,}"
        times = duration(f.seconds), duration(wall[f.experiment.name])
        lines.append([f.experiment.name, SHORT[f.variant], *counts, *times])
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "pyarrow"))
    heads = (
        "experiment", "variant", "rounds", "trials", "at most", "time in the loops, all trials",
        "this run, all variants",
    )  # fmt: skip
    return tag(
        "section",
        tag("h2", "How this was made"),
        tag("pre", tag("code", command)),
        tag("p", words(list(runs))),
        tag("p", KNOWN),
        tag(
            "p",
            f"linmed {__version__}, Python {platform.python_version()}, {packages}; {platform.system()} "
            f"{platform.machine()}, {os.cpu_count()} processors. Seed {findings[0].seed}: trial i has the "
            "random stream (seed, i) whatever the machine, so the same command gives the same numbers.",
        ),
        tag("div", table(heads, lines), class_="scroll"),
        tag(
            "p", "Beside this page: every trial in ", tag("code", "results/"), " and ",
            tag("code", "offline/"), " (Parquet; running the command again computes only what is missing), "
            "final regrets in ", tag("code", "finals.npz"), ", figures in ", tag("code", "figures/"),
            ", the ledger in ", tag("code", "ledger.json"), " and ", tag("code", "ledger.md"), ".",
        ),
        id="made",
    )  # fmt: skip
