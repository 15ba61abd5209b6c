"""The example of a policy of one's own: it runs, and passes the contract suite like ours do."""

import contextlib
import dataclasses
import inspect
import io
import runpy
from pathlib import Path

import numpy as np
import pytest

from linmed import Agent
from linmed.policies import RidgePolicy
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


CHECKS = [
    check
    for name, check in [*vars(contract).items(), *vars(shapes).items()]
    if name.startswith("test_") and "policy" in inspect.signature(check).parameters
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_satisfies_the_contract(example, check, tmp_path):
    names = inspect.signature(check).parameters
    given = {"tmp_path": tmp_path} if "tmp_path" in names else {}
    for shape in [*SHAPES, BEYOND] if "shape" in names else [None]:
        check(policy=example["Boltzmann"](), **given, **({"shape": shape} if shape else {}))


def test_the_example_runs_and_its_policy_learns(example):
    Boltzmann = example["Boltzmann"]
    assert "chosen with probability 0.5" in example["printed"]
    assert Boltzmann().name == "Boltzmann"
    # Playing at random loses about 0.75 a round on this problem.
    assert example["results"].regret("Boltzmann")[:, -1].mean() < 0.3 * 1000
    with pytest.raises(ValueError, match="heat"):
        Boltzmann(heat=np.nan)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda K: np.full((1, K), 1.0 / K), "sums to 5.13"),  # forgot the logarithm
        (lambda K: np.full((1, K), np.nan), "sums to nan"),
        (lambda K: np.full((1, K), -np.inf), "sums to 0"),
        (lambda K: np.full((1, K), np.log(0.01)), "sums to 0.04"),
        (lambda K: np.full((1, K - 1), -np.log(K - 1)), r"shape \(1, 3\)"),
        (lambda K: np.full(K, -np.log(K)), r"shape \(4,\)"),
        (lambda K: [[-np.log(K)] * K], "got list"),
    ],
)
def test_a_rule_that_states_no_distribution_is_refused(wrong, message):
    @dataclasses.dataclass(frozen=True)
    class Wrong(RidgePolicy):
        def log_probabilities(self, state, arms):
            return wrong(arms.shape[1])

    agent = Agent(Wrong(), dim=4, seed=0)
    with pytest.raises(ValueError, match=message):
        agent.decide(np.eye(4))
    assert not agent.pending
