"""The example of a policy of one's own: it runs, and passes the contract suite like ours do."""

import contextlib
import dataclasses
import inspect
import io
import runpy
from pathlib import Path

import numpy as np
import pytest

from linmed import Agent, LinMED, simulate
from linmed.environments import FixedArms
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


class Last(LinMED):
    """A built-in policy with another law: the last arm."""

    def log_probabilities(self, state, arms):
        log_p = np.full((max(len(state.count), len(arms)), arms.shape[1]), -np.inf)
        log_p[:, -1] = 0.0
        return log_p


class Deaf(LinMED):
    """A built-in policy that takes no reward in."""

    def learn(self, state, features, rewards, replicas):
        pass


def test_a_subclass_with_another_law_or_another_way_to_learn_is_asked_everywhere():
    agent = Agent(Last(), dim=2, seed=0)
    assert {agent.decide(np.eye(2)).arm for _ in range(9)} == {1}
    assert agent.decide(np.eye(2)).probability == 1.0
    problem = FixedArms(np.eye(2), [0.0, 1.0])
    results = simulate([Last(), Deaf()], problem, horizon=30, trials=3, progress=False)
    assert (results.regret("Last") == 0.0).all()
    policy, played = Deaf(), np.empty((30, 2), dtype=np.int64)
    state = policy.start(2, 2)
    policy.play(state, np.eye(2)[None, None], np.ones((30, 2, 2)), np.full((30, 2, 1), 0.5), played)
    assert not state.count.any()
    assert policy.learns_in_core is policy.compiled_rounds is False
