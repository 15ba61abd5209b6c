"""The ledger: every claim judged, as records and as a table that can be read anywhere."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from linmed.experiments.claims import Row
from linmed.experiments.experiment import Findings
from linmed.experiments.provenance import Origin, words
from linmed.experiments.rules import claims

FORMAT = 3


def ledger(findings: Iterable[Findings]) -> list[Row]:
    """Every claim about these experiments.

    >>> from linmed.experiments import EXPERIMENTS, run
    >>> ledger([EXPERIMENTS["assumptions"].plan("quick", "text")])  # of which the paper claims nothing
    []
    >>> report = run("large-gap", trials=20, out="report")  # doctest: +SKIP
    >>> ledger(report.findings) == report.ledger  # doctest: +SKIP
    True
    """
    return [claim.judge(found) for found in findings for claim in claims(found)]


def decided_first(rows: Iterable[Row]) -> list[Row]:
    """The ones that hold or fail before those that are undecided, otherwise in their order."""
    return sorted(rows, key=lambda row: row.verdict == "undecided")


def records(rows: Sequence[Row], runs: Sequence[Origin], command: str) -> str:
    """JSON: the rows, and where they come from."""
    document = {
        "format": FORMAT,
        "command": command,
        "runs": [asdict(run) for run in runs],
        "claims": [row._asdict() for row in rows],
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def tally(rows: Sequence[Row]) -> str:
    """As in "77 claims: 40 hold, 33 do not, 4 are undecided"."""
    count = Counter(row.verdict for row in rows)
    held, failed, open_ = (count[verdict] for verdict in ("holds", "fails", "undecided"))
    return f"{len(rows)} claims: {held} hold, {failed} do not, {open_} are undecided"


def markdown(rows: Sequence[Row], runs: Sequence[Origin], command: str) -> str:
    """A section per experiment; text and as run side by side where there are both."""
    variants = list(dict.fromkeys(row.variant for row in rows))
    blocks = [
        "# The paper's claims, judged",
        f"    {command}",
        *(f"{_named(v)}: {tally([r for r in rows if r.variant == v])}." for v in variants),
    ]
    blocks.append(words(list(runs)))
    for name in dict.fromkeys(row.experiment for row in rows):
        blocks.append(f"## {name}")
        blocks.append(_table([row for row in rows if row.experiment == name], variants))
    return "\n\n".join(blocks) + "\n"


def side_by_side(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows of the same claim together, in the order of their first."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.experiment, row.claim), []).append(row)
    return list(groups.values())


def _table(rows: Sequence[Row], variants: Sequence[str]) -> str:
    heads = ["claim (place)", "taken for it (whose border)"]
    heads += (
        [f"{_named(variant)}: verdict, measured" for variant in variants]
        if len(variants) > 1
        else ["verdict", "measured"]
    )
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for group in side_by_side(rows):
        first = group[0]
        cells = [f"{first.claim} ({first.place})", f"{first.predicate} ({first.threshold})"]
        if len(variants) == 1:
            cells += [first.verdict, f"{first.measured} [{first.trials:,} trials]"]
        else:
            by = {row.variant: row for row in group}
            cells += [
                f"**{by[v].verdict}**: {by[v].measured} [{by[v].trials:,} trials]" if v in by else "—"
                for v in variants
            ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _named(variant: str) -> str:
    return {"text": "as the text has it", "as-run": "as the public code runs it"}[variant]
