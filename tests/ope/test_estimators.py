"""Every estimator against arithmetic done by hand or written out again in plain loops."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linmed.ope import (
    DM,
    DR,
    IPW,
    SNDR,
    SNIPW,
    ClippedIPW,
    DecisionLog,
    DRos,
    Refitted,
    Ridge,
    Sample,
    SwitchDR,
    evaluate,
    ipw,
)
from linmed.ope.intervals import Moments

# Four decisions with weights 2, 1/2, 1, 4 and rewards 1, 2, 0, 3.
SAMPLE = Sample(
    weight=np.array([2.0, 0.5, 1.0, 4.0]),
    reward=np.array([1.0, 2.0, 0.0, 3.0]),
    model_played=np.array([0.5, 1.0, 1.0, 2.0]),
    model_value=np.array([1.0, 1.0, 0.5, 1.5]),
)


@pytest.mark.parametrize(
    ("estimator", "by_hand"),
    [
        (IPW(), (2 + 1 + 0 + 12) / 4),
        (ClippedIPW(limit=3.0), (2 + 1 + 0 + 9) / 4),
        (SNIPW(), 15 / 7.5),
        (DM(), 4 / 4),
        (DR(), (4 + (1 + 0.5 - 1 + 4)) / 4),
        (SNDR(), 4 / 4 + 4.5 / 7.5),
        (SwitchDR(threshold=3.0), (4 + (1 + 0.5 - 1)) / 4),
        (DRos(shrinkage=4.0), (4 + (8 / 8 * 0.5 + 2 / 4.25 * 1 - 4 / 5 * 1 + 16 / 20 * 1)) / 4),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_estimates_equal_hand_computation(estimator, by_hand):
    assert estimator(SAMPLE) == pytest.approx(by_hand, abs=1e-10)


def test_ipw_on_arrays_equals_hand_computation_for_many_logs_at_once():
    reward = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    probability = np.array([[0.5, 0.25, 1.0], [0.5, 0.5, 0.2]])
    np.testing.assert_allclose(ipw(reward, probability, 0.5), [(1 + 0.5) / 3, 2.5 / 3], atol=1e-12)


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.5, np.nan])
def test_impossible_probabilities_are_named(wrong):
    with pytest.raises(ValueError, match=r"probability must lie in \(0, 1\].*entry \(1,\).*1 such"):
        ipw([1.0, 1.0], [0.5, wrong], 0.5)
    with pytest.raises(ValueError, match=r"target must lie in \[0, 1\].*\(0,\)"):
        ipw([1.0], [0.5], [1.5])


def test_evaluate_equals_plain_loops_on_a_tiny_log():
    """All estimators through the log, with the ridge model refitted from scratch before each decision."""
    rng = np.random.default_rng(3)
    n, K, d = 12, 3, 2
    arms = rng.normal(size=(n, K, d))
    p = rng.dirichlet(np.ones(K), size=n)
    arm = rng.integers(K, size=n)
    reward = rng.random(n)
    log = DecisionLog.from_table(
        {"arm": arm, "probability": p[np.arange(n), arm], "reward": reward, "probabilities": p, "arms": arms}
    )

    def target(x):
        scores = np.exp(x[:, 0])
        return scores / scores.sum()

    weight, played, value = [], [], []
    for t in range(n):
        pi = target(arms[t])
        X = np.hstack([arms[np.arange(t), arm[:t]], np.ones((t, 1))])
        theta = np.linalg.solve(np.eye(d + 1) + X.T @ X, X.T @ reward[:t])
        q = np.hstack([arms[t], np.ones((K, 1))]) @ theta
        weight.append(pi[arm[t]] / p[t, arm[t]])
        played.append(q[arm[t]])
        value.append(pi @ q)
    sample = Sample(*map(np.array, (weight, reward, played, value)))
    estimators = [IPW(), ClippedIPW(1.0), SNIPW(), DM(), DR(), SNDR(), SwitchDR(1.0), DRos(2.0)]
    table = evaluate(log, target, estimators, interval="none")
    np.testing.assert_allclose(table["estimate"], [e(sample) for e in estimators], atol=1e-10)
    w = sample.weight
    expected = [w.sum() ** 2 / (w**2).sum()] * 8
    expected[3] = n
    np.testing.assert_allclose(table["effective_n"], expected, rtol=1e-10)


def test_without_features_the_model_is_each_arms_shrunk_mean():
    log = DecisionLog.from_table(
        {"arm": [0, 0, 1, 0], "probability": [0.5] * 4, "reward": [1.0, 0.0, 1.0, 1.0], "arm_count": [2] * 4}
    )
    # q̂ before each decision: (0, 0), (1/2, 0), (1/3, 0), (1/3, 1/2)
    table = evaluate(log, "uniform", "dm", interval="none")
    assert table["estimate"][0].as_py() == pytest.approx((0 + 1 / 4 + 1 / 6 + 5 / 12) / 4, abs=1e-12)


class LeastSquares:
    """A scikit-learn-style regressor that remembers how many rows it was fitted on."""

    def fit(self, X, y):
        self.coef = np.linalg.lstsq(X, y, rcond=None)[0]
        self.rows = len(y)
        return self

    def predict(self, X):
        return X @ self.coef


def test_any_regressor_is_fitted_on_the_past_only(small):
    arms, arm = small.columns["arms"], small.columns["arm"]
    reward = small.columns["reward"]
    bounds = [0, 32, 48, 72, 108, 162, 243, 364, 500]
    value = np.zeros(500)
    for start, stop in itertools.pairwise(bounds[1:]):
        past = np.arange(start)
        model = LeastSquares().fit(arms[past, arm[past]], reward[past])
        value[start:stop] = model.predict(arms[start:stop].reshape(-1, 3)).reshape(-1, 4).mean(axis=1)
    for batch in (500, 37):
        table = evaluate(small.log, "uniform", "dm", interval="none", regressor=LeastSquares(), batch=batch)
        assert table["estimate"][0].as_py() == pytest.approx(value.mean(), abs=1e-10)


def test_regressors_without_fit_or_predict_are_refused():
    with pytest.raises(TypeError, match="fit"):
        Refitted(object())
    with pytest.raises(ValueError, match="penalty"):
        Ridge(penalty=0)


@pytest.mark.parametrize("make", [lambda: ClippedIPW(0), lambda: SwitchDR(-1), lambda: DRos(np.nan)])
def test_estimator_parameters_must_be_positive(make):
    with pytest.raises(ValueError, match=r"limit|threshold|shrinkage"):
        make()


def test_weighted_estimators_are_unbiased_on_average(small):
    """8 logs of 500 decisions: each mean within 4 standard errors (false alarm 6e-5 each, fixed seeds)."""
    from tests.ope.conftest import synthetic

    errors = {name: [] for name in ("ipw", "dr")}
    for seed in range(8):
        one = synthetic(500, seed=seed)
        truth = one.value(np.full((500, 4), 0.25))
        table = evaluate(one.log, "uniform", list(errors), interval="none")
        for name, estimate in zip(errors, table["estimate"].to_pylist(), strict=True):
            errors[name].append(estimate - truth)
    for name, error in errors.items():
        error = np.array(error)
        assert abs(error.mean()) < 4 * error.std(ddof=1) / np.sqrt(8), name


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
def test_moments_merge_to_what_one_pass_gives(sizes, seed):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(loc=1e3, size=(3, size)) for size in sizes]
    merged, whole = Moments(), Moments()
    for part in parts:
        one = Moments()
        one.add(*part)
        merged.merge(one)
    everything = np.concatenate(parts, axis=1)
    whole.add(*everything)
    assert merged.n == whole.n == everything.shape[1]
    np.testing.assert_allclose(merged.mean, everything.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(merged.scatter, whole.scatter, rtol=1e-6, atol=1e-6)


def test_estimates_do_not_depend_on_the_batch_size(small):
    names = ["ipw", "clipped", "snipw", "dm", "dr", "sndr", "switch", "dros"]
    whole, pieces = (
        evaluate(small.log, "uniform", names, interval="betting", reward_range=(0, 1), batch=size)
        for size in (500, 7)
    )
    for column in ("estimate", "lower", "upper", "effective_n"):
        np.testing.assert_allclose(whole[column], pieces[column], rtol=1e-9, atol=1e-9)


def test_varying_numbers_of_arms_are_evaluated_decision_by_decision():
    log = DecisionLog.from_table(
        pa.table(
            {
                "arm": [0, 2, 1],
                "probability": [0.5, 0.2, 0.9],
                "reward": [1.0, 1.0, 0.0],
                "probabilities": [[0.5, 0.5], [0.3, 0.5, 0.2], [0.1, 0.9]],
                "arms": [[[1.0], [2.0]], [[0.0], [1.0], [3.0]], [[1.0], [1.0]]],
            }
        )
    )
    table = evaluate(log, ["uniform", "logged"], ["ipw", "dm"], interval="none")
    q2 = np.linalg.solve(np.eye(2) + np.ones((2, 2)), [1, 1])  # after arm (1,) with reward 1
    seen = np.eye(2) + np.ones((2, 2)) + np.outer([3, 1], [3, 1])
    q3 = np.linalg.solve(seen, [1 + 3, 2])
    predicted = [0.0, np.mean([q2 @ [a, 1] for a in (0, 1, 3)]), q3 @ [1, 1]]
    assert table["estimate"].to_pylist()[:2] == pytest.approx(
        [(1 + 5 / 3) / 3, np.mean(predicted)], abs=1e-12
    )
    logged = [0.0, 0.3 * q2 @ [0, 1] + 0.5 * q2 @ [1, 1] + 0.2 * q2 @ [3, 1], q3 @ [1, 1]]
    assert table["estimate"].to_pylist()[2:] == pytest.approx([2 / 3, np.mean(logged)], abs=1e-12)
