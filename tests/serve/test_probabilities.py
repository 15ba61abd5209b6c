"""The probabilities of all arms as the log has them: a law, though the arms not played are rounded."""

import numpy as np
import pytest

from linmed.serve.decisions import log_probabilities

from .serving import application, create, decide, reward

ITEMS = 40


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 300.0])
def test_rounded_probabilities_sum_to_one_and_leave_the_played_arm_as_it_was(spread: float) -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        exact = rng.normal(size=ITEMS) * spread
        exact -= np.logaddexp.reduce(exact)
        arm = int(rng.integers(ITEMS))
        row = {"arm": arm, "arm_count": ITEMS, "log_probability": float(exact[arm])}
        row["log_probabilities"] = exact.astype("<f4").tobytes()
        found = log_probabilities(row)
        assert found is not None
        assert found[arm] == exact[arm]
        assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-14)
        # float32 has 24 bits: a logarithm of up to 3000 is off by at most 3000 · 2⁻²⁴, and so is the sum's.
        np.testing.assert_allclose(found, exact, rtol=2.0**-23, atol=np.abs(exact).max() * 2.0**-22 + 1e-12)


@pytest.mark.parametrize("log_probability", [0.0, -1e-300, -1e-17])
def test_where_the_arm_played_is_certain_the_others_stay_as_they_are(log_probability: float) -> None:
    exact = np.array([log_probability, -60.0, -np.inf])
    row = {"arm": 0, "arm_count": 3, "log_probability": log_probability}
    found = log_probabilities({**row, "log_probabilities": exact.astype("<f4").tobytes()})
    assert found is not None
    assert not np.isnan(found).any()
    assert found[0] == log_probability
    assert np.exp(found).sum() == 1.0


def test_what_the_log_earned_is_within_its_own_bounds(sqlite: str) -> None:
    features = np.random.default_rng(2).normal(size=(ITEMS, 2))
    catalogue = {"ids": [f"i{i}" for i in range(ITEMS)], "features": features.round(3).tolist()}
    with application(sqlite) as app:
        create(app, catalogue=catalogue, reward_range=[0.0, 1.0])
        for _ in range(30):
            reward(app, decide(app, key=None), 1.0)
        body = {"targets": ["logged"], "estimators": ["ipw"], "interval": "betting"}
        answer = app.post("/v1/bandits/b/evaluate", json=body)
        assert answer.status_code == 200, answer.text
        for line in answer.json()["results"]:
            assert line["lower"] <= line["estimate"] <= line["upper"] + 1e-14, line  # was above it by 1e-9
