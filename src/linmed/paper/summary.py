"""The top of the report: how many claims hold, and which, at a glance."""

from collections import Counter
from collections.abc import Mapping, Sequence

from linmed.paper.claims import Row
from linmed.paper.experiment import Findings
from linmed.paper.ledger import decided_first
from linmed.paper.lineup import Variant
from linmed.paper.markup import DESCRIBED, SHORT, SIGN, attribute, text
from linmed.paper.statistics import Verdict

MEANING: dict[Verdict, str] = {"holds": "hold", "fails": "do not", "undecided": "undecided"}

ClaimIds = Mapping[tuple[str, str], str]
"""(experiment, claim) → the anchor of its line in the ledger."""


def head(findings: Sequence[Findings], rows: Sequence[Row], ids: ClaimIds) -> str:
    """Counts as large numbers and a bar for each variant; then a line for each experiment."""
    variants = list(dict.fromkeys(found.variant for found in findings))
    described = " and ".join(f"<b>{SHORT[variant]}</b>, {DESCRIBED[variant]}" for variant in variants)
    titles = {found.experiment.name: found.experiment.title for found in findings}
    counts = "".join(
        _count([row for row in rows if row.variant == v], v if len(variants) > 1 else None) for v in variants
    )
    lines = "".join(
        _experiment(name, title, [row for row in rows if row.experiment == name], variants, ids)
        for name, title in titles.items()
    )
    return (
        "<header><h1>The experiments of the LinMED paper, run again</h1>"
        f"<p>Scale <b>{findings[0].scale}</b>; {described}. A square is a claim of the paper: follow it to "
        "what was measured.</p>"
        f'<div class="counts">{counts}</div><ul class="overview">{lines}</ul>'
        '<p class="jump"><a href="#ledger">The ledger: every claim</a> · '
        '<a href="#made">How this was made</a></p></header>'
    )


def _count(rows: Sequence[Row], variant: Variant | None) -> str:
    count = Counter(row.verdict for row in rows)
    named = f'<p class="which">{SHORT[variant]}</p>' if variant else ""
    large = "".join(
        f'<div class="large {verdict}"><b>{count[verdict]}</b><span>{meaning}</span></div>'
        for verdict, meaning in MEANING.items()
    )
    bar = "".join(
        f'<i class="{verdict}" style="flex:{count[verdict]}"></i>' for verdict in MEANING if count[verdict]
    )
    return f'<div class="count">{named}<div class="larges">{large}</div><div class="bar">{bar}</div></div>'


def _experiment(
    name: str, title: str, rows: Sequence[Row], variants: Sequence[Variant], ids: ClaimIds
) -> str:
    strips = []
    for variant in variants:
        own = [row for row in rows if row.variant == variant]
        squares = "".join(_square(row, ids) for row in decided_first(own))
        label = f"<small>{SHORT[variant]}</small>" if len(variants) > 1 else ""
        strips.append(f'<div class="strip">{label}{squares}</div>')
    nothing = "nothing decided at this scale" if rows else "no claims"
    first = [row for row in rows if row.variant == variants[0]]
    said = "".join(_example(first, verdict) for verdict in MEANING if verdict != "undecided")
    return (
        f'<li><a class="name" href="#{name}">{text(title)}</a><div class="strips">{"".join(strips)}</div>'
        f'<div class="said">{said or nothing}</div></li>'
    )


def _square(row: Row, ids: ClaimIds) -> str:
    words = attribute(f"{row.verdict}: {row.claim}")
    return (
        f'<a class="square {row.verdict}" href="#{ids[row.experiment, row.claim]}" title="{words}" '
        f'aria-label="{words}">{SIGN[row.verdict]}</a>'
    )


def _example(rows: Sequence[Row], verdict: Verdict) -> str:
    """One claim with this verdict in words, and how many more there are."""
    claims = [row.claim for row in rows if row.verdict == verdict]
    whole = [claim for claim in claims if not claim.startswith("…")] or claims
    if not whole:
        return ""
    more = f" <small>and {len(claims) - 1} more</small>" if len(claims) > 1 else ""
    return f'<p><span class="sign {verdict}">{SIGN[verdict]}</span> {text(whole[0])}{more}</p>'
