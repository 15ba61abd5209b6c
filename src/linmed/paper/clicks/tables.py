"""The numbers behind the figures, as tables of the report."""

from collections.abc import Iterator

import numpy as np

from linmed.paper.clicks.measures import ClickFindings
from linmed.paper.clicks.problems import FAMILY, LINEAR, LOW, PROBLEMS, WRONG, told
from linmed.paper.clicks.watching import LIMIT, deviations, worst
from linmed.paper.experiment import Findings, Key, Numbers, with_error
from linmed.paper.statistics import mean


def tables(found: Findings) -> Iterator[Numbers]:
    """All of them."""
    assert isinstance(found, ClickFindings)
    yield _regrets(found)
    yield _norms(found)
    for setting in found.settings:
        if len(setting.key) == 1 and setting.key[0] not in PROBLEMS:
            yield _clicks(found, setting.key)
    yield _calibration(found)
    yield _times(found)
    if found.replayed:
        yield Numbers(
            "Open Bandit's uniform log, replayed: clicks per decision (95 % interval)",
            ["policy", "click rate; behind it"],
            [list(row) for row in found.replayed],
            note="Of every 34 decisions one is accepted: so few clicks cannot tell policies apart.",
        )


def _regrets(found: ClickFindings) -> Numbers:
    first = next(iter(PROBLEMS))
    rows = [
        [name, *(with_error(mean(found.final(name, problem))) for problem in PROBLEMS)]
        for name in found.names(first)
    ]
    columns = [
        [mean(found.final(name, problem)).value for name in found.names(first)] for problem in PROBLEMS
    ]
    best = frozenset((int(np.argmin(column)), place + 1) for place, column in enumerate(columns))
    possible = [f"{found.best[problem,].mean():,.0f}" for problem in PROBLEMS]
    return Numbers(
        f"Regret in clicks ± standard error, n = {found.setting(first).horizon:,}, {found.trials} trials",
        ["policy", *PROBLEMS],
        [*rows, ["clicks of the best arms", *possible]],
        best,
        note="Clicks are the last row less the regret. Vowpal Wabbit has at most 20 trials.",
    )


def _norms(found: ClickFindings) -> Numbers:
    rows = [
        [rule, *(with_error(mean(found.final(told(rule, word), p, "norm"))) for p in LOW for word in WRONG)]
        for rule in FAMILY
    ]
    return Numbers(
        "Regret in clicks ± standard error by the norm of θ* that was told",
        ["rule", *(f"{problem}: {word}" for problem in LOW for word in WRONG)],
        rows,
    )


def _clicks(found: ClickFindings, key: Key) -> Numbers:
    rows = [(mean(found.clicks(name, *key)), name, found.played((key, name))) for name in found.names(*key)]
    rows.sort(key=lambda row: (-row[2], -row[0].value))
    possible = found.best[key]
    return Numbers(
        f"Expected clicks ± standard error: {key[0]}, n = {found.setting(*key).horizon:,}; the best arms "
        f"would earn {possible.mean():,.0f}",
        ["policy", "clicks", "% of possible", "trials"],
        [
            [name, with_error(clicks), f"{100.0 * clicks.value / possible[:trials].mean():.1f}", str(trials)]
            for clicks, name, trials in rows
        ],
    )


def _calibration(found: ClickFindings) -> Numbers:
    rows = []
    for name, counted in found.watched.items():
        scores = deviations(counted)
        decisions = int(counted["played"].sum())
        rows.append([name, f"{worst(counted):.2f}", str(int(np.isfinite(scores).sum())), f"{decisions:,}"])
    return Numbers(
        f"Calibration of propensities: {LOW[0]}",
        ["policy", "worst bin, standard deviations", "bins judged", "decisions"],
        rows,
        note=f"Beyond {LIMIT:.2f} the stated probabilities would be called false, at a level of 1 %.",
    )


def _times(found: ClickFindings) -> Numbers:
    rows = [
        [name, f"{taken:.1f}", f"{taken / found.micros[LINEAR]:.2f}"] for name, taken in found.micros.items()
    ]
    return Numbers(
        f"Time of a live decision with its reward, {LOW[0]} (K = 10, d = 6)",
        ["policy", "µs of processor time", f"relative to {LINEAR}"],
        rows,
        note="Of this run and this machine; Vowpal Wabbit's is in docs/performance.md.",
    )
