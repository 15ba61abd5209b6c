"""The same numbers as other packages' own code.

tests/ope/peers holds small logs with what the Open Bandit Pipeline, vw-estimators and Vowpal Wabbit computed
from them, written by `python benchmarks/ope_peers.py`. Where these packages are installed, or
LINMED_OBP_PYTHON and LINMED_VW_PYTHON name interpreters that have them, they are asked again.
"""

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from linmed.ope import ESTIMATORS, evaluate

ROOT = Path(__file__).parents[2]
FILES = sorted((Path(__file__).parent / "peers").glob("*.json"))
_spec = importlib.util.spec_from_file_location("cases", ROOT / "benchmarks" / "peers" / "cases.py")
assert _spec is not None
assert _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


def apart(case) -> list[str]:
    """Every number that is further from theirs than the tolerance."""
    found = cases.comparisons(case, cases.ours(case))
    assert found
    return [
        f"{target}, {estimator}: theirs {theirs}, ours {own}"
        for target, estimator, theirs, own, distance in found
        if not distance <= cases.tolerance(estimator)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_log_gives_the_numbers_that_the_other_package_computed(path):
    assert apart(cases.load(path)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_was_exported_is_still_exported_the_same(path):
    case = cases.load(path)
    if case.get("exported"):
        assert cases.export(cases.read(case), case["format"]) == case["log"]


def test_every_estimator_that_both_have_is_compared():
    compared = [
        estimator
        for path in FILES
        for case in [cases.load(path)]
        for theirs in case["numbers"].values()
        for estimator in theirs
    ]
    assert {*ESTIMATORS, "normal", "replay", "ipw, vw"} <= set(compared)


def test_a_wrong_number_is_noticed():
    case = cases.load(next(path for path in FILES if path.stem == "linmed-to-dsjson"))
    case["numbers"]["uniform"]["snipw"] += 1e-9
    case["numbers"]["arm:0"]["normal"][1] = float("nan")
    assert [line.partition(":")[0] for line in apart(case)] == ["uniform, snipw", "arm"]


def interpreter(variable: str, packages: dict[str, tuple[int, ...]]) -> str:
    """The one that is named, or this one if it has the packages in these versions or newer."""
    if variable in os.environ:
        return os.environ[variable]
    for package, oldest in packages.items():
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            version = "0"
        if tuple(map(int, version.split(".")[: len(oldest)])) < oldest:
            pytest.skip(f"{package} is not installed and {variable} names no interpreter that has it")
    return sys.executable


def asked_again(only: str, python: str, folder: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "ope_peers.py"), "--only", only, "--rows", "200"]
    command += [f"--{only}-python", python, "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    written = sorted(folder.glob("*.json"))
    assert len(written) == 3
    for path in written:
        assert apart(cases.load(path)) == []


def test_the_open_bandit_pipeline_itself_gives_the_same_numbers(tmp_path):
    asked_again("obp", interpreter("LINMED_OBP_PYTHON", {"obp": (0, 5)}), tmp_path)


def test_vowpal_wabbit_and_vw_estimators_themselves_give_the_same_numbers(tmp_path):
    packages = {"vowpalwabbit": (9,), "vw-estimators": (0, 2)}
    asked_again("vw", interpreter("LINMED_VW_PYTHON", packages), tmp_path)


def test_scikit_learn_regressors_serve_as_reward_models(small):
    linear = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    table = evaluate(small.log, "uniform", ["dm", "dr"], interval="none", regressor=linear.Ridge())
    truth = small.value(np.full((500, 4), 0.25))
    assert table["estimate"].to_pylist() == pytest.approx([truth, truth], abs=0.12)
