"""Tables of final regret: means, medians, and how many trials are stuck."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from linmed.paper.experiment import Findings, Numbers, Setting, duration, with_error
from linmed.paper.statistics import Share, mean
from linmed.validation import Floats


def tables(found: Findings) -> Iterator[Numbers]:
    """A row per policy, a column per setting; the lowest of a column is marked."""
    drawn = [setting for setting in found.settings if setting.drawn]
    yield _table(
        found, "Final regret ± standard error", drawn, lambda final: float(final.mean()),
        lambda name, s: with_error(mean(found.final(name, *s.key))), timed=True,
    )  # fmt: skip
    yield _table(
        found, "Median final regret", drawn, lambda final: float(np.median(final)),
        lambda name, s: _rounded(float(np.median(found.final(name, *s.key)))),
        note="Of a heavy-tailed regret the median tells what is typical, the mean what it costs.",
    )  # fmt: skip
    known = [setting for setting in drawn if setting.gap is not None]
    if known:
        yield _table(
            found, "Share of stuck trials (95 % interval of Clopper and Pearson)", known, None,
            lambda name, s: _share(found, name, s), note=_what_stuck_means(found),
        )  # fmt: skip


def _table(
    found: Findings, heading: str, settings: Sequence[Setting], rank: Callable[[Floats], float] | None,
    cell: Callable[[str, Setting], str], note: str = "", timed: bool = False,
) -> Numbers:  # fmt: skip
    names = list(dict.fromkeys(name for setting in settings for name in found.names(*setting.key)))
    best = set()
    for column, setting in enumerate(settings, start=1):
        if rank is not None:
            ranks = {name: rank(found.final(name, *setting.key)) for name in found.names(*setting.key)}
            best |= {
                (names.index(name), column) for name, value in ranks.items() if value == min(ranks.values())
            }
    rows = [
        [name, *(cell(name, s) if name in found.names(*s.key) else "—" for s in settings)] for name in names
    ]
    columns = ["policy", *(found.experiment.heading(setting.key, found) for setting in settings)]
    if timed:
        columns.append("time in the loop")
        for row in rows:
            played = [s.key for s in settings if row[0] in found.names(*s.key)]
            row.append(duration(sum(found.results[key].seconds(row[0]) for key in played)))
    return Numbers(heading, columns, rows, frozenset(best), note)


def _share(found: Findings, name: str, setting: Setting) -> str:
    stuck = found.stuck(name, *setting.key)
    return str(Share(int(stuck.sum()), len(stuck))).replace(" ", "\u00a0")


def _what_stuck_means(found: Findings) -> str:
    words = (
        "A trial is stuck if in the second half of its rounds it loses at least half of what playing the "
        "second-best arm throughout would."
    )
    early = " After so few rounds that is everyone who still explores." if found.shortened else ""
    return words + early


def _rounded(value: float) -> str:
    return f"{value:,.{0 if value >= 1000 else 1 if value >= 10 else 2}f}"
