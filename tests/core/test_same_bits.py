"""The core gives the same bits on every processor, whichever compiler built it.

`make test` compares the core that is installed with digests that stand below, so each machine that runs it is
compared with all others: every function of functions.hpp, rounds of some rules, designs. Their inputs are
made from whole numbers, and nothing but the core computes.

`make identity` also builds the core for older processors and, where the package ziglang is installed, with
clang, and compares the states and probabilities of every policy, in a process for each of them.

After a change of numbers that is meant: `python -m tests.core.test_same_bits` prints the new digests.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
OTHERS = (
    sorted(Path(os.environ["LINMED_CORES"]).resolve().rglob("_core*.so"))
    if "LINMED_CORES" in os.environ
    else []
)


def uniform(seed: int, *shape: int) -> np.ndarray:
    """Numbers in [0, 1) by splitmix64: the same everywhere, whatever NumPy's generators become."""
    n = int(np.prod(shape))
    z = (np.arange(1, n + 1, dtype=np.uint64) + np.uint64(seed << 32)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(shape)


def digest(*arrays: np.ndarray) -> str:
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes())
    return sha.hexdigest()[:16]


def values_of_functions() -> dict[str, str]:
    """Digests of 40,000 values of each function."""
    from linmed.core import core

    n = 20_000
    ranges = {
        "exp": ((-745.0, 709.0), (-1.0, 1.0)),
        "exp2": ((-1074.0, 1023.0), (-1.0, 1.0)),
        "expm1": ((-40.0, 700.0), (-1.0, 1.0)),
        "log": ((0.0, 4.0), (0.0, 1e300)),
        "log1p": ((-1.0, 1.0), (0.0, 1e6)),
        "log2": ((0.0, 4.0), (0.0, 1e300)),
        "tanh": ((-20.0, 20.0), (-1.0, 1.0)),
        "lgamma": ((0.0, 10.0), (0.0, 1e6)),
        "erfc": ((-6.0, 27.0), (-1.0, 1.0)),
        "sin": ((-7.0, 7.0), (-1e5, 1e5)),
        "cos": ((-7.0, 7.0), (-1e5, 1e5)),
        "exp_lanes": ((-708.0, 0.0), (-1.0, 0.0)),
        "log_lanes": ((2.0**-60, 4.0), (2.0**-60, 1e300)),
    }
    found, out = {}, np.empty(2 * n)
    for seed, (name, parts) in enumerate(ranges.items()):
        u = uniform(seed, 2, n)
        x = np.concatenate([low + (high - low) * u[i] for i, (low, high) in enumerate(parts)])
        getattr(core.functions, name)(x, out)
        assert not np.isnan(out).any()
        found[name] = digest(out)
    y, x = 2.0 * uniform(98, 2 * n) - 1.0, 2.0 * uniform(99, 2 * n) - 1.0
    core.functions.atan2(y, x, out)
    found["atan2"] = digest(out)
    return found


def rounds() -> dict[str, str]:
    """Digests of states, arms and probabilities after rounds of some rules."""
    from linmed.core import core

    T, R, K, d = 80, 2, 13, 5
    rules = {
        "MED": core.MedRule(0.5, 0.25, 0, False, True, False),
        "MED, few arms kept": core.MedRule(0.5, 0.25, 1, False, True, False),
        "MED, optimal design": core.MedRule(0.25, 0.5, 0, True, False, False),
        "MED, one trial": core.OneTrialRule(0.5, 0.25, 0, False, False, True),
        "OFUL": core.OfulRule(0.01),
        "IMED": core.ImedRule(1, 30.0, 7.0, 0.01),
        "greedy": core.GreedyRule(0.125),
        "Thompson": core.ThompsonRule(0, 0.5, 100.0, 3.0, 1.0, 0.01),
        "SquareCB": core.SquareRule(False, False, 8.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0),
    }
    found = {}
    for name, rule in rules.items():
        square, line, zero = np.tile(np.eye(d), (R, 1, 1)), np.zeros((R, d)), np.zeros(R)
        state = [line, np.zeros(R, np.int64), square, 0.0 * square, square, line, line, zero, zero, zero]
        state = [array.copy() for array in state]
        confidence_set = core.RidgeSet(0, 0.5, 3.0, 1.0, 1.0, 1.0, False)
        arms, means = 2.0 * uniform(1, T, R, K, d) - 1.0, uniform(2, T, R, K)
        errors, noise = uniform(3, T, R) - 0.5, uniform(4, T, R, 4 * d)
        played, log_p = np.empty((T, R), np.int64), np.empty((T, R, K))
        core.play(core.Ridge(*state), confidence_set, rule, arms, means, errors, noise, played, log_p)
        found[name] = digest(*state, played, log_p)
    arms, weights = 2.0 * uniform(5, 60, 7) - 1.0, np.empty(60)
    log_scale = -3.0 * uniform(6, 60)
    core.approx_design(arms, log_scale, weights)
    found["approx design"] = digest(weights)
    core.optimal_design(arms, log_scale, 1e-6, weights)
    found["optimal design"] = digest(weights)
    return found


FUNCTIONS: dict[str, str] = {
    "exp": "c276ebcebc70c0f1",
    "exp2": "6c50f48b8bb2a75f",
    "expm1": "c22da0678300c4ef",
    "log": "f9d98e381b767f3e",
    "log1p": "1bd4df34be98e2ef",
    "log2": "37c8e39bd27d7b88",
    "tanh": "4bbf57a224088d48",
    "lgamma": "b7bc49084997041b",
    "erfc": "4adb7fa4ec3ac15e",
    "sin": "431dc764b666b907",
    "cos": "e1d5cc9017913d1b",
    "exp_lanes": "2c8bf887fa30f6b6",
    "log_lanes": "e774195c73586865",
    "atan2": "26978c8cdd63ba91",
}

ROUNDS: dict[str, str] = {
    "MED": "580822b206a7dd9d",
    "MED, few arms kept": "6a67df2e4f16fba5",
    "MED, optimal design": "e1a22f9a7d5ea8d6",
    "MED, one trial": "868b6de21b1ef8b8",
    "OFUL": "6117c599a64c5854",
    "IMED": "fde0601f090bdc4f",
    "greedy": "7c16bfbe47a3daba",
    "Thompson": "2f50f779b2281f6d",
    "SquareCB": "9598c9392bbc4a61",
    "approx design": "39d01a850b5f37de",
    "optimal design": "72e540abee821f0e",
}


def test_functions_have_the_bits_that_they_have_elsewhere():
    assert values_of_functions() == FUNCTIONS


def test_rounds_have_the_bits_that_they_have_elsewhere():
    assert rounds() == ROUNDS


def of_policies() -> dict[str, str]:
    """Digests of every policy, and of the above."""
    from tests.policies.test_processors import digests

    return {**digests(), **values_of_functions(), **rounds()}


@pytest.mark.identity
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other processors have one level")
@pytest.mark.parametrize(
    "path", OTHERS or [None], ids=lambda path: f"{path.parent.name}-{path.name}" if path else "none"
)
def test_policies_have_the_bits_of_other_builds(path):
    if path is None:
        pytest.skip("LINMED_CORES names no directory of other builds: see `make identity`")
    from linmed._level import level

    from tests.core.builds import level_of

    if level_of(path) > level:
        pytest.skip("this processor cannot run it")
    program = (
        "import json, pathlib, sys; from tests.core.builds import load; load(pathlib.Path(sys.argv[1])); "
        "from tests.core.test_same_bits import of_policies; print(json.dumps(of_policies()))"
    )
    other = subprocess.run(
        [sys.executable, "-c", program, str(path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert other.returncode == 0, other.stderr
    assert json.loads(other.stdout.splitlines()[-1]) == of_policies()


if __name__ == "__main__":
    for name, digests in (("FUNCTIONS", values_of_functions()), ("ROUNDS", rounds())):
        print(f"{name}: dict[str, str] = {{")
        for key, value in digests.items():
            print(f'    "{key}": "{value}",')
        print("}\n")
