"""Policies and confidence sets of one's own: the examples run, satisfy the contract, mistakes are named."""

import contextlib
import dataclasses
import inspect
import io
import math
import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from linmed import OFUL, Agent, Forgetful, LinMED, simulate
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


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def confidence(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import own_confidence

    return own_confidence


def learned(policy):
    rng = np.random.default_rng(0)
    state = policy.start(3, 4)
    policy.learn(state, rng.standard_normal((60, 4)), rng.standard_normal(60), np.arange(60) % 3)
    return state


def test_the_radius_is_the_formula_of_the_example_and_never_larger_than_the_papers(confidence):
    for cls in (confidence.MixtureLinMED, confidence.MixtureOFUL):
        policy = cls(sigma=0.5, norm_bound=2.0)
        state = learned(policy)
        expected = [
            math.sqrt(policy.lam * 4.0 + 0.25 * (state.logdet[r] + 2.0 * math.log(state.count[r] + 1.0)))
            for r in range(3)
        ]
        np.testing.assert_allclose(policy.radius(state), expected, rtol=1e-14)
        papers = cls.__bases__[1](sigma=0.5, norm_bound=2.0)
        assert (policy.radius(state) < papers.radius(state)).all()


def test_a_set_that_knows_nothing_leaves_q_alone():
    @dataclass(frozen=True)
    class Ignorant(LinMED):
        def squared_radius(self, state):
            return np.full(len(state.count), np.inf)

    policy = Ignorant(alpha_emp=0.7, alpha_opt=0.0, explore=False)
    state = learned(policy)
    log_p = policy.log_probabilities(state, np.random.default_rng(2).standard_normal((1, 6, 4)) / 4)
    np.testing.assert_allclose(np.sort(np.exp(log_p), axis=1)[:, :5], 0.05, rtol=1e-12)
    assert np.isfinite(log_p).all()


def test_the_set_is_asked_once_a_round_for_all_replicas():
    asked = []

    @dataclass(frozen=True)
    class Watched(OFUL):
        def squared_radius(self, state):
            asked.append(state.count.copy())
            return np.ones(len(state.count))

    policy, rng, played = Watched(), np.random.default_rng(0), np.empty((20, 3), dtype=np.int64)
    policy.play(
        policy.start(3, 2),
        rng.normal(size=(1, 1, 4, 2)),
        rng.normal(size=(20, 3, 4)),
        np.zeros((20, 3, 1)),
        played,
    )
    np.testing.assert_array_equal(asked, np.repeat(np.arange(20)[:, None], 3, axis=1))


@pytest.mark.parametrize(
    ("beta", "message"), [([1.0], "every replica"), ([-1.0] * 3, "not negative"), ("no", "could")]
)
def test_a_set_that_answers_nonsense_is_told_so(beta, message):
    @dataclass(frozen=True)
    class Wrong(LinMED):
        def squared_radius(self, state):
            return beta

    policy = Wrong()
    with pytest.raises((ValueError, TypeError, IndexError), match=message):
        policy.log_probabilities(policy.start(3, 2), np.eye(2)[None])


def test_a_set_of_your_own_needs_a_ridge_that_is_a_number(confidence):
    with pytest.raises(ValueError, match="squared_radius"):
        confidence.MixtureLinMED(ridge="learned")
    with pytest.raises(ValueError, match="squared_radius"):
        Forgetful(confidence.MixtureLinMED())


def test_the_example_runs_as_a_script():
    done = subprocess.run(
        [sys.executable, EXAMPLES / "own_confidence.py"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "OFUL, mixture" in done.stdout
    assert not done.stderr
