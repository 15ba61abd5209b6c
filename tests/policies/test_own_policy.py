"""The example of a policy of one's own: it runs, and passes the contract suite like ours do."""

import contextlib
import inspect
import io
import itertools
import runpy
from pathlib import Path

import numpy as np
import pytest

from tests.policies import test_contract as contract
from tests.policies import test_shapes as shapes
from tests.policies.configurations import BEYOND, SHAPES

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_policy.py"


@pytest.fixture(scope="module")
def example():
    """The names the example leaves behind, run once, and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        names = runpy.run_path(str(EXAMPLE), run_name="__main__")
    return {**names, "printed": printed.getvalue()}


def contract_cases():
    """Every function of the contract suites with every combination of its parameters but the policy."""
    cases = []
    for name, function in [*vars(contract).items(), *vars(shapes).items()]:
        if name.startswith("test_") and "policy" in inspect.signature(function).parameters:
            marks = [mark.args for mark in function.pytestmark if mark.name == "parametrize"]
            choices = {keys: values for keys, values in marks if "policy" not in keys}
            if "shape" in inspect.signature(function).parameters:
                choices["shape"] = [*SHAPES, BEYOND]
            for place, values in enumerate(itertools.product(*choices.values())):
                keywords = dict(zip(choices, values, strict=True))
                cases.append(pytest.param(function, keywords, id=f"{name}-{place}"))
    return cases


@pytest.mark.parametrize(("check", "keywords"), contract_cases())
def test_it_satisfies_the_contract(example, check, keywords, tmp_path):
    if "tmp_path" in inspect.signature(check).parameters:
        keywords = {**keywords, "tmp_path": tmp_path}
    check(policy=example["Boltzmann"](), **keywords)


def test_the_example_runs_and_its_policy_learns(example):
    Boltzmann = example["Boltzmann"]
    assert "chosen with probability 0.5" in example["printed"]
    assert Boltzmann().name == "Boltzmann"
    # Playing at random loses about 0.75 a round on this problem.
    assert example["results"].regret("Boltzmann")[:, -1].mean() < 0.3 * 1000
    with pytest.raises(ValueError, match="heat"):
        Boltzmann(heat=np.nan)
