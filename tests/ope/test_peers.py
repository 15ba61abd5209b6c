"""The same numbers as other packages, where those are installed (pip install 'linmed[peers]')."""

import numpy as np
import pytest

from linmed.ope import DecisionLog, DRos, SwitchDR, evaluate


@pytest.fixture(scope="module")
def arrays():
    """Weights so small that running means of w·r stay below 1, where both confidence sequences coincide."""
    rng = np.random.default_rng(0)
    n, arms = 400, 3
    p = 0.7 * rng.dirichlet(np.ones(arms) * 5, size=n) + 0.3 / arms
    arm = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=arms - 1)
    rows = np.arange(n)
    target = 0.5 * rng.dirichlet(np.ones(arms), size=n) + 0.5 * p
    reward = (rng.random(n) < 0.3 + 0.1 * arm).astype(float)
    return p, arm, target, reward, p[rows, arm], target[rows, arm]


def log(arrays) -> DecisionLog:
    p, arm, target, reward, played, _ = arrays
    return DecisionLog.from_table(
        {"arm": arm, "probability": played, "reward": reward, "probabilities": p, "target": target}
    )


def test_ips_snips_and_the_confidence_sequence_of_vw_estimators(arrays):
    bandits = pytest.importorskip("estimators.bandits", reason="vw-estimators is not installed")
    from estimators.bandits import cs, ips, snips

    assert bandits is not None
    _, _, _, reward, p, pi = arrays
    theirs = ips.Estimator(), snips.Estimator(), cs.Interval()
    for one in theirs:
        for p_log, r, p_pred in zip(p.tolist(), reward.tolist(), pi.tolist(), strict=True):
            one.add_example(p_log, r, p_pred)
    rows = evaluate(
        log(arrays), "column:target", ["ipw", "snipw"], interval="mixture", reward_range=(0, 1), drift=True
    ).to_pylist()
    assert rows[0]["estimate"] == pytest.approx(theirs[0].get(), abs=1e-10)
    assert rows[1]["estimate"] == pytest.approx(theirs[1].get(), abs=1e-10)
    # Their root finder stops at 2e-12 absolute, 8.9e-16 relative.
    assert (rows[0]["lower"], rows[0]["upper"]) == pytest.approx(theirs[2].get(0.05), abs=1e-9)


def test_the_estimators_of_the_open_bandit_pipeline(arrays):
    obp = pytest.importorskip("obp.ope", reason="obp is not installed", exc_type=ImportError)
    _, arm, target, reward, p, _ = arrays
    n, arms = target.shape
    # The model of our evaluation, given to theirs: each arm's shrunk mean over the past.
    model, sums, counts = np.zeros((n, arms)), np.zeros(arms), np.zeros(arms)
    for t in range(n):
        model[t] = sums / (counts + 1)
        sums[arm[t]] += reward[t]
        counts[arm[t]] += 1
    given = {
        "reward": reward,
        "action": arm,
        "pscore": p,
        "action_dist": target[:, :, None],
        "estimated_rewards_by_reg_model": model[:, :, None],
        "position": np.zeros(n, dtype=int),
    }
    theirs = {
        "ipw": obp.InverseProbabilityWeighting(),
        "snipw": obp.SelfNormalizedInverseProbabilityWeighting(),
        "dm": obp.DirectMethod(),
        "dr": obp.DoublyRobust(),
        "sndr": obp.SelfNormalizedDoublyRobust(),
        "switch": obp.SwitchDoublyRobust(tau=1.2),
        "dros": obp.DoublyRobustWithShrinkage(lambda_=2.0),
    }
    ours = ["ipw", "snipw", "dm", "dr", "sndr", SwitchDR(threshold=1.2), DRos(shrinkage=2.0)]
    rows = evaluate(log(arrays), "column:target", ours, interval="none").to_pylist()
    for row in rows:
        estimate = theirs[row["estimator"]].estimate_policy_value(**given)
        assert row["estimate"] == pytest.approx(estimate, abs=1e-10), row["estimator"]


def test_obps_dictionary_is_understood_by_obp(arrays):
    obp = pytest.importorskip("obp.ope", reason="obp is not installed", exc_type=ImportError)
    feedback = log(arrays).to_obp()
    estimate = obp.InverseProbabilityWeighting().estimate_policy_value(
        reward=feedback["reward"],
        action=feedback["action"],
        pscore=feedback["pscore"],
        action_dist=np.full((400, 3, 1), 1 / 3),
        position=np.zeros(400, dtype=int),
    )
    table = evaluate(log(arrays), "uniform", "ipw", interval="none")
    assert table["estimate"][0].as_py() == pytest.approx(estimate, abs=1e-10)


def test_scikit_learn_regressors_serve_as_reward_models(small):
    linear = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    table = evaluate(small.log, "uniform", ["dm", "dr"], interval="none", regressor=linear.Ridge())
    truth = small.value(np.full((500, 4), 0.25))
    assert table["estimate"].to_pylist() == pytest.approx([truth, truth], abs=0.12)
