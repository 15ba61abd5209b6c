"""The store: nothing computed twice, nothing half-written, nothing damaged believed."""

import functools
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest

import linmed.simulation.store as store_module
from linmed.environments import Delayed, FixedArms, LargeGap, MovieLens, UnitBall
from linmed.policies import LinMED, LinMEDNoDesign, LinTS
from linmed.simulation import Store, StoreError, StoreWarning, simulate

POLICIES = [LinMED(delta=0.05), LinMEDNoDesign()]


def run(store, policies=POLICIES, environment=None, horizon=60, trials=6, **more):
    settings = {"batch": 2, "progress": False, **more}
    return simulate(policies, environment or UnitBall(), horizon, trials, store=store, **settings)


def files(path):
    return sorted((path / "trials").iterdir())


def stamps(path):
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in files(path)}


def assert_same(one, other):
    for name in one.names:
        np.testing.assert_array_equal(one.regret(name), other.regret(name))
        np.testing.assert_array_equal(one.pulls(name), other.pulls(name))


@pytest.mark.identity
def test_a_rerun_computes_nothing_and_gives_the_same_numbers(tmp_path):
    first = run(tmp_path / "s")
    before = stamps(tmp_path / "s")
    assert len(before) == 6
    again = run(tmp_path / "s")
    assert stamps(tmp_path / "s") == before
    assert_same(first, again)
    assert_same(first, run(None))
    assert again.seconds("LinMED") == pytest.approx(first.seconds("LinMED"))


@pytest.mark.identity
def test_more_trials_or_other_batches_compute_only_what_is_missing(tmp_path):
    run(tmp_path / "s", trials=3)
    before = stamps(tmp_path / "s")
    longer = run(tmp_path / "s", trials=8, batch=5)
    after = stamps(tmp_path / "s")
    assert before.items() <= after.items()
    assert len(after) == len(before) + 2  # one batch of five more trials per policy
    assert_same(longer, run(None, trials=8))
    np.testing.assert_array_equal(longer.run("LinMED").trials, np.arange(8))


@pytest.mark.parametrize(
    "change",
    [
        {"horizon": 61},
        {"seed": 1},
        {"points": 10},
        {"policies": [LinMED(delta=0.06)]},
        {"environment": UnitBall(sigma=0.5)},
        {"environment": Delayed(UnitBall(), rounds=1)},
        {"environment": MovieLens(arms=3)},
    ],
)
def test_another_configuration_is_another_result(tmp_path, change):
    run(tmp_path / "s", trials=2)
    before = len(files(tmp_path / "s"))
    run(tmp_path / "s", trials=2, **change)
    assert len(files(tmp_path / "s")) == before + len(change.get("policies", POLICIES))


def test_other_checkpoints_are_other_numbers_even_where_there_are_as_many(tmp_path):
    first, second = (
        run(tmp_path / "s", LinMED(), horizon=10, trials=3, points=points) for points in (12, 18)
    )
    assert len(first.checkpoints) == len(second.checkpoints)
    assert not np.array_equal(first.checkpoints, second.checkpoints)
    assert_same(second, run(None, LinMED(), horizon=10, trials=3, points=18))


def test_another_version_of_the_package_computes_again(tmp_path, monkeypatch):
    run(tmp_path / "s", trials=2)
    monkeypatch.setattr(store_module, "__version__", "999.0")
    run(tmp_path / "s", trials=2)
    assert len(files(tmp_path / "s")) == 4


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_damaged_file_is_named_set_aside_and_computed_again(tmp_path, damage):
    first = run(tmp_path / "s")
    victim = files(tmp_path / "s")[1]
    content = bytearray(victim.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    victim.write_bytes({"flip": content, "truncate": content[:-9], "empty": b""}[damage])
    with pytest.warns(StoreWarning, match=victim.name):
        again = run(tmp_path / "s")
    assert_same(first, again)
    assert (tmp_path / "s" / f"_{victim.stem}.damaged").exists()
    assert_same(first, run(tmp_path / "s"))  # and no warning any more


def test_pandas_and_polars_open_it_with_parameters_as_columns(tmp_path):
    results = run(tmp_path / "s")
    run(tmp_path / "s", environment=Delayed(LargeGap(sigma=0.7), rounds=4, mode="batch"), trials=2)
    run(tmp_path / "s", environment=FixedArms(np.eye(2), [1, 0]), trials=2)
    frame = pd.read_parquet(tmp_path / "s" / "trials")
    assert len(frame) == 2 * (6 + 2 + 2)
    assert len(pd.read_parquet(tmp_path / "s")) == len(frame)
    assert len(pl.read_parquet(tmp_path / "s" / "trials")) == len(frame)
    assert Store(tmp_path / "s").table().num_rows == len(frame)
    mine = frame[(frame["policy.class"] == "LinMED") & (frame["environment.class"] == "UnitBall")]
    assert (mine["policy.delta"] == 0.05).all()
    assert (mine["environment.dim"] == 5).all()
    np.testing.assert_array_equal(np.stack(mine.sort_values("trial")["regret"]), results.regret("LinMED"))
    late = frame[frame["environment.class"] == "Delayed(LargeGap)"]
    assert set(zip(late["environment.sigma"], late["environment.rounds"], strict=True)) == {(0.7, 4)}
    assert json.loads(mine["configuration"].iloc[0])["horizon"] == 60
    long = pl.read_parquet(tmp_path / "s" / "trials").explode("round", "regret")
    assert long["round"].max() == 60


def test_a_directory_of_something_else_is_left_untouched(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(StoreError, match="not a store of linmed and is left untouched"):
        run(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(StoreError, match="is a file"):
        run(tmp_path / "thesis.txt")


def test_a_store_of_another_format_says_how_to_proceed(tmp_path):
    Store(tmp_path / "s")
    marker = tmp_path / "s" / store_module.MARKER
    for other in (1, 7):
        marker.write_text(f'{{"format": {other}, "linmed": "3.1"}}')
        with pytest.raises(
            StoreError, match=rf"format {other}, written by linmed 3\.1.*Give a new directory"
        ):
            Store(tmp_path / "s")
    marker.write_text("{")
    with pytest.raises(StoreError, match="is damaged"):
        Store(tmp_path / "s")


def test_half_written_files_of_killed_runs_are_swept_away_when_old(tmp_path):
    Store(tmp_path / "s")
    old, new = tmp_path / "s" / ".old.part", tmp_path / "s" / ".new.part"
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (1, 1))
    Store(tmp_path / "s")
    assert not old.exists()
    assert new.exists()


def test_a_delay_rule_without_a_name_cannot_be_stored(tmp_path):
    with pytest.raises(ValueError, match="define the function at the top of a module"):
        run(tmp_path / "s", environment=Delayed(LargeGap(), 1, lambda rng, t, rounds: t * 0))


class Rule:
    def __init__(self, delay):
        self.delay = delay

    def late(self, rng, t, rounds):
        return np.full(len(t), self.delay)


def test_a_method_as_a_delay_rule_cannot_be_stored(tmp_path):
    """Its name is the same for every object, its delays are not."""
    for rule in (Rule(1).late, functools.partial(Rule.late, Rule(1)), Rule.late):
        with pytest.raises(ValueError, match="define the function at the top of a module"):
            run(tmp_path / "s", environment=Delayed(LargeGap(), 1, rule))


def test_a_file_under_the_name_of_another_configuration_is_set_aside(tmp_path):
    right = run(tmp_path / "s", POLICIES[:1], batch=6)
    (written,) = (tmp_path / "s" / "trials").iterdir()
    run(tmp_path / "other", POLICIES[:1], environment=LargeGap(sigma=3.0), batch=6)
    (other,) = (tmp_path / "other" / "trials").iterdir()
    key, first, last, _ = written.stem.split("-")
    written.unlink()
    other.rename(written.with_name(f"{key}-{first}-{last}-{other.stem.split('-')[-1]}.parquet"))
    with pytest.warns(StoreWarning, match="not under its own name"):
        assert_same(right, run(tmp_path / "s", POLICIES[:1], batch=6))


def test_parameters_that_no_column_can_hold_lose_no_result(tmp_path):
    found = run(tmp_path / "s", [LinTS(horizon=2**70)])
    assert_same(found, run(tmp_path / "s", [LinTS(horizon=2**70)]))
    assert found.table()["policy.horizon"].null_count == found.table().num_rows


def test_a_class_whose_annotations_cannot_be_read_harms_no_other(tmp_path):
    program = (
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from linmed.policies import LinMED\n"
        "from linmed.environments import LargeGap\n"
        "from linmed.simulation import simulate\n"
        "@dataclass(frozen=True)\n"
        "class Odd(LinMED):\n"
        "    path: Nowhere | None = None\n"
        "results = simulate([LinMED(), Odd(label='odd')], LargeGap(), 5, 2, store='s', progress=False)\n"
        "assert set(results.table()['policy.sigma'].to_pylist()) == {1.0}\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


PROGRAM = """
import sys
from linmed.environments import UnitBall
from linmed.policies import LinMED
from linmed.simulation import simulate
simulate(LinMED(delta=0.05), UnitBall(), 4000, 60, store=sys.argv[1], batch=3, workers=1, progress=False)
"""


def wait_for(condition, seconds=180):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the other process did not get going"
        time.sleep(0.005)


@pytest.mark.unix
def test_kill_9_loses_at_most_the_batches_in_flight(tmp_path):
    path = tmp_path / "s"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)])
    wait_for(lambda: len(list(path.glob("trials/*.parquet"))) >= 3)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = stamps(path)
    assert 3 <= len(before) < 20, "it had finished before it could be killed"
    resumed = simulate(
        LinMED(delta=0.05), UnitBall(), 4000, 60, store=path, batch=3, workers=1, progress=False
    )
    after = stamps(path)
    assert before.items() <= after.items()
    assert len(after) == 20
    assert_same(resumed, simulate(LinMED(delta=0.05), UnitBall(), 4000, 60, progress=False))


INTERRUPTED = """
import sys
from linmed.environments import UnitBall
from linmed.policies import LinMED
from linmed.simulation import SimulationInterrupted, simulate
try:
    simulate(LinMED(delta=0.05), UnitBall(), 4000, 60, store=sys.argv[1], batch=3, workers=1, progress=False)
except SimulationInterrupted as stop:
    print(stop.results.regret("LinMED").shape[0])
"""


@pytest.mark.unix
def test_ctrl_c_keeps_what_is_done(tmp_path):
    path = tmp_path / "s"
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(path)], stdout=subprocess.PIPE, text=True
    )
    wait_for(lambda: len(list(path.glob("trials/*.parquet"))) >= 2)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0
    assert int(output) == 3 * len(files(path))
    assert 6 <= int(output) < 60
