"""The example of a confidence set of one's own: it runs, and LinMED's and OFUL's compiled rules use it."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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
    from linmed.kernels.confidence import FixedSet
    from linmed.kernels.med import MedRule
    from linmed.kernels.ridge import Ridge
    from linmed.kernels.rounds import rounds
    from linmed.policies import LinUCB

    policy = LinUCB()
    state = learned(policy)
    arms = np.random.default_rng(2).standard_normal((1, 1, 6, 4)) / 4
    log_p, played = np.empty((1, 3, 6)), np.empty((1, 3), dtype=np.int64)
    play = rounds(Ridge, FixedSet, MedRule)
    rule = tuple(MedRule(0.7, 0.0, 0, False, False))
    nothing, none = np.empty((0, 0, 0)), np.empty((0, 0))
    play(tuple(state), (math.inf,), rule, arms, nothing, none, np.zeros((1, 3, 1)), played, log_p)
    np.testing.assert_allclose(np.sort(np.exp(log_p[0]), axis=1)[:, :5], 0.05, rtol=1e-12)
    assert np.isfinite(log_p).all()


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


def test_a_set_whose_formula_has_changed_is_compiled_again(tmp_path):
    """numba's cache knows the kernel's file, not that of the set: it must not answer with the old formula."""
    module = tmp_path / "my_set.py"
    program = (
        "import numpy as np, my_set\n"
        "from linmed.kernels import confidence, ridge\n"
        "out = np.empty(1)\n"
        "confidence.radii(my_set.Mine)(tuple(ridge.start(1, 2, 1.0)), (9.0,), out)\n"
        "print(out[0])"
    )
    seen = []
    for formula in ("self.beta", "4.0 * self.beta", "self.beta"):
        module.write_text(
            "from typing import NamedTuple\n\n\nclass Mine(NamedTuple):\n    beta: float\n\n"
            f"    def squared_radius(self, belief, r):\n        return {formula}\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        seen.append(float(done.stdout))
    assert seen == [3.0, 6.0, 3.0]
