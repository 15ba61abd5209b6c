"""`linmed warm-up`: what it covers, what it says, and how it fails."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from linmed.kernels import cache, sampling
from linmed.policies import ALL
from linmed.policies.paths import SHAPES, variants
from linmed.warm_up import Part, parts, run, warm_up


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


def test_processes_share_the_work_and_the_second_run_has_none(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    todo = [Part(f"part {i}", compiles_something_small) for i in range(4)]
    compiled, failures = warm_up(todo, workers=2)
    assert (compiled > 0, failures) == (True, [])
    assert warm_up(todo, workers=2) == (0, [])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_part_that_fails_is_named_and_the_others_are_done(workers):
    compiled, failures = warm_up([Part("bad", fails), Part("good", compiles_something_small)], workers)
    assert failures == ["bad: out of paper"]


def test_a_process_that_is_killed_is_reported():
    _, failures = warm_up([Part("bad", dies), Part("good", compiles_something_small)], workers=2)
    assert failures == ["a process was ended, perhaps for want of memory: try --workers 1"]


def test_the_command_says_what_it_did_and_where_it_is(monkeypatch, capsys):
    todo = [Part("good", compiles_something_small)]
    compiles_something_small()
    monkeypatch.setattr("linmed.warm_up.parts", lambda: todo)
    assert run(arguments(workers=1)) == 0
    out = capsys.readouterr().out
    assert out.startswith("everything was there")
    assert out.rstrip().endswith(f"kept in {cache.folder()}")
    todo.append(Part("bad", fails))
    assert run(arguments(workers=1)) == 1
    assert "linmed warm-up: bad: out of paper" in capsys.readouterr().err


def test_without_a_folder_it_says_what_to_set(monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: None)
    with pytest.raises(ValueError, match="NUMBA_CACHE_DIR"):
        run(arguments(workers=1))
    with pytest.raises(ValueError, match="workers"):
        run(arguments(workers=0))


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
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip() == "interrupted; what was finished is kept"
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def arguments(workers):
    from argparse import Namespace

    return Namespace(workers=workers)
