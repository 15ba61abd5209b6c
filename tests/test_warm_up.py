"""`linmed warm-up`: what it covers, what it says, and how it fails."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np
import pytest

from linmed.kernels import cache, sampling
from linmed.policies import ALL
from linmed.policies.paths import SHAPES, variants
from linmed.warm_up import Part, Record, parts, run, warm_up


def compiles_something_small() -> None:
    sampling.take_logs(np.full((1, 2), 0.5), 0.0)


def fails() -> None:
    raise RuntimeError("out of paper")


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_every_policy_is_covered_with_each_of_its_choices():
    names = [part.name for part in parts()]
    assert len(set(names)) == len(names)
    for kind in ALL:
        for policy in variants(kind):
            assert f"{policy.name}, all shapes" in names
        assert f"{kind().name}, simulated" in names


def test_choices_are_found_in_the_signature():
    from linmed import LinMED, LinTS

    changed = {policy.describe() for policy in variants(LinMED)}
    assert {" (version=1)", " (design=optimal)", " (explore=False)"} <= changed
    assert {policy.propensity for policy in variants(LinTS)} == {"exact", "none", 2}
    assert 0.1 in {policy.floor for policy in variants(LinTS)}


def test_shapes_reach_from_one_arm_to_more_than_a_cache_holds():
    sizes = [shape.arms * shape.dim for shape in SHAPES]
    assert sizes == sorted(sizes)
    assert SHAPES[0].arms == 1
    assert 8 * sizes[-1] > 2**21
    assert any(shape.rank < min(shape.arms, shape.dim) for shape in SHAPES)


def test_a_part_that_fails_is_named_and_the_others_are_done():
    done = []
    _, failures = warm_up([Part("bad", fails), Part("good", lambda: done.append(1))], workers=1)
    assert (failures, done) == (["bad: out of paper"], [1])


@pytest.mark.unix
def test_a_process_that_is_killed_is_reported():
    _, failures = warm_up([Part("bad", dies), Part("good", compiles_something_small)], workers=2)
    assert failures == ["a process was ended from outside, perhaps for want of memory: try --workers 1"]


def test_processes_share_the_work_and_the_second_run_has_none(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    todo = [Part(f"part {i}", compiles_something_small) for i in range(4)]
    monkeypatch.setattr("linmed.warm_up.parts", lambda: todo)
    assert run(arguments(workers=2)) == 0
    out = capsys.readouterr().out
    assert out.startswith("compiled ")
    assert out.rstrip().endswith(f"kept in {cache.folder()}")
    assert warm_up(todo[:2], workers=2) == (0, [])
    monkeypatch.setattr("linmed.warm_up.warm_up", None)  # the record alone tells that nothing is left to do
    assert run(arguments(workers=2)) == 0
    assert capsys.readouterr().out.startswith("everything is there")


def test_a_file_that_is_lost_or_another_part_makes_the_record_incomplete(tmp_path):
    for name in ("a.nbc", "b.nbc"):
        (tmp_path / name).touch()
    record = Record(tmp_path, ["one part"])
    assert not record.complete()
    record.write()
    assert record.complete()
    assert not Record(tmp_path, ["another part"]).complete()
    (tmp_path / "a.nbc").unlink()
    assert not record.complete()


def test_a_failure_is_the_exit_status(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("linmed.warm_up.parts", lambda: [Part("bad", fails)])
    assert run(arguments(workers=1)) == 1
    assert "linmed warm-up: bad: out of paper" in capsys.readouterr().err
    assert not list(tmp_path.rglob("warm-up.json"))


def test_without_a_folder_it_says_what_to_set(monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: None)
    with pytest.raises(ValueError, match="NUMBA_CACHE_DIR"):
        run(arguments(workers=1))
    with pytest.raises(ValueError, match="workers"):
        run(arguments(workers=0))


@pytest.mark.unix
def test_an_interrupt_ends_every_process(tmp_path: Path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "linmed.cli", "warm-up", "--workers", "2"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not list(tmp_path.rglob("*.lock")):  # something is being compiled
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)  # what is being compiled is finished first, on a busy machine
    assert process.returncode in (130, -signal.SIGINT)  # for a shell they are the same
    assert err.strip() == "interrupted; what was finished is kept"
    with contextlib.suppress(ProcessLookupError):
        while True:  # until none is left of those that it had started
            os.killpg(process.pid, 0)
            time.sleep(0.05)


def arguments(workers):
    from argparse import Namespace

    return Namespace(workers=workers)
