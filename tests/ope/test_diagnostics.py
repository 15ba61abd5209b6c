"""Diagnostics, the plot and replay."""

import numpy as np
import pytest

from linmed.ope import DecisionLog, Replay, calibration, diagnose, plot_sequences, sequence
from linmed.ope.intervals import Bootstrap
from linmed.policies import LinMED, Uniform


def test_diagnosis_equals_hand_computation():
    log = DecisionLog.from_table(
        {
            "arm": [0, 1, 1],
            "probability": [0.5, 0.25, 1.0],
            "reward": [1.0, 0.0, 1.0],
            "probabilities": [[0.5, 0.5], [0.75, 0.25], [0.0, 1.0]],
        }
    )
    found = diagnose(log, "uniform")
    weight = np.array([1.0, 2.0, 0.5])
    assert found.n == 3
    assert found.effective_n == pytest.approx(3.5**2 / 5.25)
    assert found.largest_weight == 2.0
    assert found.smallest_probability == 0.25
    assert found.mean_weight == pytest.approx(3.5 / 3)
    assert found.mean_weight_error == pytest.approx(weight.std(ddof=1) / np.sqrt(3))
    assert found.no_overlap == pytest.approx(0.5 / 3)
    assert any("16.67% of the target's mass" in text for text in found.warnings)
    assert any("worth only 2.3" in text for text in found.warnings)


def test_impossible_propensities_are_an_error_with_the_rows():
    columns = {"arm": [0, 0], "probability": [0.5, 0.0], "reward": [1.0, 1.0], "arm_count": [2, 2]}
    log = DecisionLog.from_table(columns)
    with pytest.raises(ValueError, match=r"row 1 has 0\.0"):
        diagnose(log, "uniform")
    with pytest.raises(ValueError, match=r"row 1 has 0\.0"):
        calibration(log)


def test_a_healthy_log_has_nothing_to_complain_of(small):
    assert diagnose(small.log, "uniform").warnings == []
    table = calibration(small.log)
    assert sum(table["count"].to_pylist()) == 2000
    assert np.abs(table["z"].to_numpy()).max() < 4


def test_wrong_probabilities_show_in_the_mean_weight_and_the_calibration(small):
    """Halved probabilities, as when a draw was made from a sharper policy than the one logged."""
    columns = {"arm": small.columns["arm"], "reward": small.columns["reward"], "arm_count": np.full(500, 4)}
    log = DecisionLog.from_table(columns | {"probability": small.columns["probability"] / 2})
    assert any("where it should be 1" in text for text in diagnose(log, "uniform").warnings)
    assert calibration(log)["z"].to_numpy().max() > 4
    shuffled = small.columns["probabilities"][:, ::-1]
    arm = small.columns["arm"]
    wrong = small.columns | {"probabilities": shuffled, "probability": shuffled[np.arange(500), arm]}
    assert np.abs(calibration(DecisionLog.from_table(wrong))["z"].to_numpy()).max() > 4


def test_one_dominating_decision_is_pointed_out():
    p = np.full(1000, 0.5)
    p[7] = 0.0005
    columns = {"arm": np.zeros(1000, int), "probability": p, "reward": p, "arm_count": np.full(1000, 2)}
    log = DecisionLog.from_table(columns)
    assert any("one decision carries 50%" in text for text in diagnose(log, "uniform").warnings)


def test_the_plot_is_written(small, tmp_path):
    traces = {"uniform": sequence(small.log, "uniform"), "arm 1": sequence(small.log, 1)}
    plot_sequences(traces, tmp_path / "plot.png", "a title", truth=0.3)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_sequences({}, tmp_path / "none.png")


def uniform_log(n: int, seed: int) -> tuple[DecisionLog, np.ndarray]:
    rng = np.random.default_rng(seed)
    arms = np.tile([[1.0, 0.0], [0.0, 1.0]], (n, 1, 1))
    arm = rng.integers(2, size=n)
    means = np.array([0.8, 0.2])
    reward = (rng.random(n) < means[arm]).astype(float)
    table = {"arm": arm, "probability": np.full(n, 0.5), "reward": reward, "arms": arms}
    return DecisionLog.from_table(table), means


def test_replay_keeps_what_a_uniform_log_can_give_and_learns_from_it():
    log, _ = uniform_log(4000, seed=0)
    result = Replay(LinMED(sigma=0.5), bound=2, seed=1).run(log)
    assert result.offered == 4000
    assert abs(result.accepted - 2000) < 4 * np.sqrt(1000)  # 1 in 2 is accepted whatever the policy does
    assert result.state.count[0] == result.accepted == result.rewards.size
    assert result.rewards[-500:].mean() > 0.7  # it has learned which arm is better
    assert result.lower < result.estimate < result.upper
    assert result.estimate == pytest.approx(result.rewards.mean())


def test_replay_agrees_with_the_policy_run_for_real():
    """Mean reward of LinMED's first 100 rounds: 60 replays against 60 runs, within 4 standard errors."""
    policy = LinMED(sigma=0.5)
    replayed, real = [], []
    for seed in range(60):
        log, means = uniform_log(300, seed=seed)
        replayed.append(Replay(policy, bound=2, seed=seed).run(log).rewards[:100].mean())
        rng = np.random.default_rng(1000 + seed)
        state, arms, total = policy.start(1, 2), np.eye(2)[None], 0.0
        for _ in range(100):
            choice = policy.decide(state, arms, rng.random((1, 1)))
            reward = float(rng.random() < means[choice.arm[0]])
            policy.learn(state, choice.features, np.array([reward]), np.zeros(1, dtype=np.int64))
            total += reward / 100
        real.append(total)
    gap = np.mean(replayed) - np.mean(real)
    assert abs(gap) < 4 * np.sqrt((np.var(replayed) + np.var(real)) / 60)


def test_replay_explains_what_it_needs(small):
    log, _ = uniform_log(50, seed=0)
    with pytest.raises(ValueError, match=r"bound=0.5 is too small: row \d+ needs at least"):
        Replay(LinMED(), bound=0.5).run(log)
    with pytest.raises(TypeError, match="policy must be a Policy"):
        Replay("LinMED")
    with pytest.raises(ValueError, match="none of the 50 decisions"):
        Replay(LinMED(), bound=1e9).run(log)
    bare = DecisionLog.from_table({"arm": [0], "probability": [0.5], "reward": [1.0]})
    with pytest.raises(ValueError, match="replay needs the column 'arms'"):
        Replay(LinMED()).run(bare)
    assert Replay(LinMED()).run(small.log).accepted > 0


def test_replay_checks_its_confidence_and_its_range():
    log, _ = uniform_log(50, seed=0)
    for wrong in (0.0, 1.0, 1.5, -0.5, float("nan")):
        with pytest.raises(ValueError, match="confidence"):
            Replay(LinMED(), bound=2).run(log, confidence=wrong)
    for wrong in ((1, 0), (0, 0), (0, float("inf")), (0, 1, 2), 1.0):
        with pytest.raises((ValueError, TypeError), match="reward_range"):
            Replay(LinMED(), bound=2).run(log, reward_range=wrong)
    with pytest.raises(ValueError, match=r"reward must lie in reward_range \[0, 0.5\]"):
        Replay(LinMED(), bound=2).run(log, reward_range=(0, 0.5))


def test_a_replays_result_is_a_sentence_without_its_arrays():
    log, _ = uniform_log(5000, seed=0)
    result = Replay(LinMED(sigma=0.5), bound=2, seed=1).run(log)
    text = repr(result)
    assert str(result) == text
    assert "\n" not in text
    assert len(text) < 150
    for number in (f"{result.estimate:.4g}", f"{result.lower:.4g}", f"{result.upper:.4g}", "of 5,000"):
        assert number in text


def test_no_seed_of_a_users_draws_the_numbers_of_replay():
    """With K = 2 and M = 2 a uniform log and policy accept where the uniform draw is below 1/2."""
    n = 30
    log = DecisionLog.from_table(
        {
            "arm": [0] * n,
            "probability": [0.5] * n,
            "reward": np.arange(n) / n,
            "arms": np.tile(np.eye(2), (n, 1, 1)),
        }
    )
    for seed in range(1001):
        accepted = Replay(Uniform(), bound=2, seed=seed).run(log).rewards * n
        theirs = np.flatnonzero(np.random.default_rng(seed).random(n) < 0.5)
        assert not np.array_equal(np.rint(accepted), theirs), seed


def test_no_seed_of_a_users_draws_the_numbers_of_the_bootstrap():
    """How often one decision is in each of 50 resampled logs."""
    for seed in range(1001):
        bootstrap = Bootstrap(50, seed)
        bootstrap.add(np.array([1.0]), None, None)
        theirs = np.random.default_rng(seed).poisson(1.0, (50, 1))
        assert not np.array_equal(bootstrap._sums[:, 3:], theirs), seed
