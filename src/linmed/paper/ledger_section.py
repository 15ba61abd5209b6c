"""The ledger as a part of the page: decided claims first, both variants side by side."""

from collections.abc import Collection, Mapping, Sequence

from linmed.paper import rules
from linmed.paper.claims import Row
from linmed.paper.drawing import figure_name
from linmed.paper.ledger import decided_first, side_by_side
from linmed.paper.lineup import Variant
from linmed.paper.markup import SHORT, badge, text
from linmed.paper.provenance import Origin, words
from linmed.paper.summary import ClaimIds

HOW = (
    "Each claim of the paper with its place, what was taken for it and whose border that is, what was "
    "measured (with its 95&nbsp;% interval over trials, policies compared on the same random numbers) and "
    "the verdict. A claim holds or fails only if the interval leaves no doubt about it; where a claim has "
    "parts, all must hold (✗ and ? mark the parts that do not)."
)


def claim_ids(rows: Sequence[Row]) -> ClaimIds:
    """Anchors, in the order of the rules."""
    return {
        (group[0].experiment, group[0].claim): f"claim-{number}"
        for number, group in enumerate(side_by_side(rows), start=1)
    }


def known_beforehand() -> str:
    """What the rules say of themselves: what was known when they were written, and all that follows it."""
    whole = rules.__doc__ or ""
    return " ".join(whole[whole.find("What was known") :].split())


def section(
    rows: Sequence[Row], titles: Mapping[str, str], variants: Sequence[Variant], figures: Collection[str],
    runs: Sequence[Origin],
) -> str:  # fmt: skip
    """The claims that hold or fail, then those that are undecided."""
    ids, groups = claim_ids(rows), side_by_side(decided_first(rows))
    decided = [group for group in groups if any(row.verdict != "undecided" for row in group)]
    open_ = [group for group in groups if group not in decided]
    parts = [
        f'<section id="ledger"><h2>Which claims hold</h2><p>{HOW}</p>',
        f'<p><small>{text(words(list(runs)))} <a href="#made">What was known when the rules were '
        "written</a></small></p>",
    ]
    for heading, some in (("Decided", decided), ("Undecided at this scale", open_)):
        if some:
            parts.append(f"<h3>{heading} ({len(some)})</h3>{_table(some, titles, variants, figures, ids)}")
    return "".join([*parts, "</section>"])


def _table(
    groups: Sequence[list[Row]], titles: Mapping[str, str], variants: Sequence[Variant],
    figures: Collection[str], ids: ClaimIds,
) -> str:  # fmt: skip
    several = len(variants) > 1
    heads = ["claim", "taken for it", *([SHORT[v] for v in variants] if several else ["measured"])]
    lines = []
    for name, title in titles.items():
        own = [group for group in groups if group[0].experiment == name]
        if own:
            lines.append(
                f'<tr class="group"><th colspan="{len(heads)}" scope="rowgroup"><a href="#{name}">'
                f"{text(title)}</a></th></tr>"
            )
        lines += [_line(group, variants, figures, ids) for group in own]
    head = "".join(f"<th>{cell}</th>" for cell in heads)
    kind = "ledger both" if several else "ledger"
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def _line(group: Sequence[Row], variants: Sequence[Variant], figures: Collection[str], ids: ClaimIds) -> str:
    first = group[0]
    by = {row.variant: row for row in group}
    verdicts = "".join(
        _verdict(by[v], figures, v if len(variants) > 1 else None) if v in by else '<td class="none">—</td>'
        for v in variants
    )
    return (
        f'<tr id="{ids[first.experiment, first.claim]}">'
        f"<td>{text(first.claim)} <small>{text(first.place)}</small></td>"
        f"<td>{text(first.predicate)} <small>border: {text(first.threshold)}</small></td>{verdicts}</tr>"
    )


def _verdict(row: Row, figures: Collection[str], named: Variant | None) -> str:
    variant: Variant = "as-run" if row.variant == "as-run" else "text"
    figure = figure_name(row.figure, variant)
    target = f"figure-{figure}" if figure in figures else row.experiment
    which = f'<span class="which">{SHORT[named]}</span> ' if named else ""
    parts = "".join(f'<span class="part">{text(part)}</span>' for part in row.measured.split("; "))
    return (
        f'<td class="measured">{which}{badge(row.verdict)} {parts}'
        f'<small>{row.trials:,} trials · <a href="#{target}">figure</a></small></td>'
    )
