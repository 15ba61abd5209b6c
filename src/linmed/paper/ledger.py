"""Judge every claim: the ledger, as records and as a table that can be read anywhere."""

import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict

import numpy as np

from linmed.paper import rules
from linmed.paper.claims import Claim, Row
from linmed.paper.end_of_optimism import EndOfOptimismAppendix
from linmed.paper.experiment import Findings
from linmed.paper.provenance import Origin, words

FORMAT = 4
AGAIN = EndOfOptimismAppendix.name
"""Claims that are made once and read twice."""


def claims(found: Findings) -> list[Claim]:
    """State what is claimed of what this scale plays; only the sizes and settings are looked at."""
    maker = rules.MAKERS.get(found.experiment.name)
    there = {(setting.key, policy.name) for setting in found.settings for policy in setting.policies}
    return [claim for claim in maker(found) if claim.cells <= there] if maker else []


def ledger(findings: Iterable[Findings]) -> list[Row]:
    """Judge every claim about these experiments.

    >>> from linmed.paper import run
    >>> ledger([])  # nothing was played, nothing is judged
    []
    >>> report = run("large-gap", trials=20, out="report")  # doctest: +SKIP
    >>> ledger(report.findings) == report.ledger  # doctest: +SKIP
    True
    """
    return [claim.judge(found) for found in findings for claim in claims(found)]


def finals(findings: Iterable[Findings]) -> bytes:
    """Keep what the claims were judged by, as a compressed .npz: a number for each trial.

    Arrays are named variant|experiment|setting|policy and hold final regrets, or variant|experiment|score. In
    single precision, which keeps seven digits.
    """
    arrays = {}
    for found in findings:
        name = f"{found.variant}|{found.experiment.name}"
        for key, results in found.results.items():
            for policy in results.names:
                arrays[f"{name}|{', '.join(map(str, key))}|{policy}"] = results.final(policy)
        arrays |= {f"{name}|{column}": scores for column, scores in found.scores.items()}
    file = io.BytesIO()
    np.savez_compressed(file, **{name: array.astype(np.float32) for name, array in arrays.items()})  # type: ignore[arg-type]
    return file.getvalue()


def decided_first(rows: Iterable[Row]) -> list[Row]:
    """Put the ones that hold or fail before those that are undecided, otherwise in their order."""
    return sorted(rows, key=lambda row: row.verdict == "undecided")


def records(rows: Sequence[Row], runs: Sequence[Origin], command: str) -> str:
    """Write JSON: the rows, and where they come from."""
    document = {
        "format": FORMAT,
        "command": command,
        "runs": [asdict(run) for run in runs],
        "claims": [row._asdict() for row in rows],
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def tally(rows: Sequence[Row]) -> str:
    """Count as in "77 claims: 40 hold, 33 do not, 4 are undecided"; a second reading and our own apart."""
    own = [row for row in rows if row.ours]
    again = [row for row in rows if row.experiment == AGAIN and not row.ours]
    first = [row for row in rows if row.experiment != AGAIN and not row.ours]
    said = [f"{len(first)} claims: {_counted(first)}"] if first or not rows else []
    said += [f"{len(again)} read with σ*² = 0.1: {_counted(again)}"] if again else []
    said += [f"{len(own)} of our own: {_counted(own)}"] if own else []
    return "; ".join(said)


def _counted(rows: Sequence[Row]) -> str:
    count = Counter(row.verdict for row in rows)
    held, failed, open_ = (count[verdict] for verdict in ("holds", "fails", "undecided"))
    return f"{held} hold, {failed} do not, {open_} are undecided"


def markdown(rows: Sequence[Row], runs: Sequence[Origin], command: str, own: bool = False) -> str:
    """Write a section per experiment; text and as run side by side where there are both."""
    variants = list(dict.fromkeys(row.variant for row in rows))
    whose = "Our own" if own else "The paper's"
    blocks = [
        f"# {whose} claims, judged",
        f"    {command}",
        *(f"{_named(v)}: {tally([r for r in rows if r.variant == v])}." for v in variants),
    ]
    blocks.append(words(list(runs)))
    for name in dict.fromkeys(row.experiment for row in rows):
        some = [row for row in rows if row.experiment == name]
        blocks.append(f"## {name}")
        blocks += dict.fromkeys(row.notes for row in some if row.notes)
        blocks.append(_table(some, variants))
    return "\n\n".join(blocks) + "\n"


def side_by_side(rows: Sequence[Row]) -> list[list[Row]]:
    """Group rows of the same claim, in the order of their first."""
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
