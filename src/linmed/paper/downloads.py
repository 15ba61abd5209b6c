"""What a figure is drawn from, as files inside the page: the report stays one file that can be sent."""

import base64
import csv
import io
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from linmed.paper.experiment import Findings
from linmed.paper.statistics import deviation, mean
from linmed.validation import Floats

POINTS = 25
"""Rounds of a curve at most, the last among them; the complete curves are in the report's directory."""
REGRET = (
    "variant", "setting", "policy", "sigma", "round", "trials", "mean_regret", "standard_error", "median",
    "lowest", "highest",
)  # fmt: skip
SCORE = ("variant", "column", "trials", "mean", "standard_error", "standard_deviation", "median")


def numbers_csv(findings: Sequence[Findings]) -> str:
    """One experiment's numbers, all variants: curves of regret, or scores."""
    rows = [row for found in findings for row in (_scores(found) if found.scores else _regrets(found))]
    return _csv(SCORE if findings[0].scores else REGRET, rows)


def _regrets(found: Findings) -> Iterator[list[str | int]]:
    for setting in found.settings:
        rounds = found.rounds(*setting.key)
        kept = np.unique(np.linspace(0, len(rounds) - 1, min(POINTS, len(rounds))).round().astype(int))
        for name in found.names(*setting.key):
            curves = found.curves(name, *setting.key)
            for place in kept:
                estimate = mean(curves[:, place])
                where = [found.variant, " ".join(map(str, setting.key)), name, f"{setting.sigma:.6g}"]
                yield [
                    *where, int(rounds[place]), estimate.trials, *_short(estimate.value, estimate.error),
                    *_short(*_spread(curves[:, place])),
                ]  # fmt: skip


def _scores(found: Findings) -> Iterator[list[str | int]]:
    for column, scores in found.scores.items():
        estimate = mean(scores)
        numbers = (estimate.value, estimate.error, deviation(scores).value, float(np.median(scores)))
        yield [found.variant, column, estimate.trials, *_short(*numbers)]


def _spread(values: Floats) -> tuple[float, float, float]:
    return float(np.median(values)), float(values.min()), float(values.max())


def _short(*values: float) -> list[str]:
    return [f"{value:.6g}" for value in values]


def _csv(head: Sequence[str], rows: Iterable[Sequence[str | int]]) -> str:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return sink.getvalue()


def link(content: str, name: str, kind: str, words: str) -> str:
    """A link that saves this content under a name."""
    data = base64.b64encode(content.encode()).decode()
    return f'<a download="{name}" href="data:{kind};charset=utf-8;base64,{data}">{words}</a>'
