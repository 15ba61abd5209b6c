"""More trials go to claims that are open, the cheapest first, and never past the deadline."""

import dataclasses
import time

import numpy as np

from linmed.paper import EXPERIMENTS, run
from linmed.paper.experiment import Size
from linmed.paper.ledger import claims
from linmed.paper.output import Output
from linmed.paper.sequential import look_again
from linmed.report.progress import Bar

EXPERIMENT = EXPERIMENTS["large-gap"]


def first_look(tmp_path, trials=4, looks=4):
    plan = EXPERIMENT.plan("quick", "text", horizon=300, trials=trials)
    output = Output(tmp_path / "out")
    with Bar(False, "rounds") as bar:
        found = EXPERIMENT.run(dataclasses.replace(plan, most_looks=looks), output, None, bar)
    return found, output


def further(found, output, deadline=None):
    asked = []

    def play(now, cells):
        asked.append(cells)
        with Bar(False, "rounds") as bar:
            return EXPERIMENT.look_again(now, cells, output, None, bar)

    def missing(now, cell):
        return EXPERIMENT.missing(now, cell, output)

    return look_again([found], play, missing, 1, deadline)[0], asked


def test_only_what_open_claims_depend_on_is_played_again(tmp_path):
    found, output = first_look(tmp_path)
    after, asked = further(found, output)
    assert asked
    played = {cell: after.played(cell) for cells in asked for cell in cells}
    assert set(played.values()) <= {8, 16, 32}
    others = {(s.key, p.name) for s in found.settings for p in s.policies} - set(played)
    assert others
    assert all(after.played(cell) == 4 for cell in others)
    for claim in claims(after):
        assert claim.wanting(after) == frozenset()  # decided, or looked at as often as is allowed


def test_after_the_deadline_nothing_is_played_but_what_was_left_by_earlier_runs_is_used(tmp_path):
    found, output = first_look(tmp_path)
    late, asked = further(found, output, deadline=time.monotonic() - 1.0)
    assert asked == []
    assert "Time was up" in late.notes[-1]
    whole, _ = further(found, output)
    again, _ = further(found, output, deadline=time.monotonic() - 1.0)
    assert again.notes == whole.notes
    for key, results in whole.results.items():
        for name in results.names:
            np.testing.assert_array_equal(again.results[key].final(name), results.final(name))


def test_a_run_takes_further_looks_and_tells_how_many_trials_are_behind_a_verdict(tmp_path, monkeypatch):
    monkeypatch.setattr(type(EXPERIMENT), "quick", Size(300, 4, 3))
    report = run(["large-gap"], out=tmp_path / "report", workers=1, progress=False)
    found = report.findings[0]
    assert found.most_trials > found.trials
    assert {row.trials for row in report.ledger} <= {4, 8, 16}
