"""A confidence set written in Python: LinMED's and OFUL's rules use it, and the example runs."""

import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from linmed import OFUL, Forgetful, LinMED

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import own_confidence

    return own_confidence


def learned(policy):
    rng = np.random.default_rng(0)
    state = policy.start(3, 4)
    policy.learn(state, rng.standard_normal((60, 4)), rng.standard_normal(60), np.arange(60) % 3)
    return state


def test_the_radius_is_the_formula_of_the_example_and_never_larger_than_the_papers(example):
    for cls in (example.MixtureLinMED, example.MixtureOFUL):
        policy = cls(sigma=0.5, norm_bound=2.0)
        state = learned(policy)
        expected = [
            math.sqrt(policy.lam * 4.0 + 0.25 * (state.logdet[r] + 2.0 * math.log(state.count[r] + 1.0)))
            for r in range(3)
        ]
        np.testing.assert_allclose(policy.radius(state), expected, rtol=1e-14)
        papers = cls.__bases__[1](sigma=0.5, norm_bound=2.0)
        assert (policy.radius(state) < papers.radius(state)).all()


def test_linmed_with_the_set_is_linmed_with_its_beta(example):
    """log f = −Δ̂²/(β‖â − a‖²): without a design and a half-step p follows from f alone."""
    arms = np.random.default_rng(1).standard_normal((1, 5, 4)) / 4
    policy = example.MixtureLinMED(alpha_opt=0.0, explore=False)
    state = learned(policy)
    log_p = policy.log_probabilities(state, arms)
    for r in range(3):
        means = arms[0] @ state.theta[r]
        best = int(means.argmax())
        log_f = np.array(
            [
                -((means[best] - means[i]) ** 2) / (policy.radius(state)[r] ** 2 * (d @ state.inverse[r] @ d))
                if i != best
                else 0.0
                for i, d in enumerate(arms[0, best] - arms[0])
            ]
        )
        weight = (0.1 / 5 + 0.9 * (np.arange(5) == best)) * np.exp(log_f)
        np.testing.assert_allclose(np.exp(log_p[r]), weight / weight.sum(), rtol=1e-9)


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


def test_a_set_of_your_own_needs_a_ridge_that_is_a_number(example):
    with pytest.raises(ValueError, match="squared_radius"):
        example.MixtureLinMED(ridge="learned")
    with pytest.raises(ValueError, match="squared_radius"):
        Forgetful(example.MixtureLinMED())


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
