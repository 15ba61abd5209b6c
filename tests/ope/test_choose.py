"""`choose`: the best is not dropped, the near are told apart early, learners never see what judges them."""

import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

from linmed import EXP2, Agent, Greedy, LinMED
from linmed.ope import DecisionLog, OPEWarning, Target, choose, evaluate, learn_from
from linmed.validation import BadValue
from tests.blame import blames

FALSE_ALARM = 1e-3
"""How often a test that counts errors fails though as many happen as are promised."""


@dataclass(frozen=True)
class Law(Target):
    """The same probabilities of the arms in every decision."""

    name: str
    law: tuple[float, ...]

    def probabilities(self, rounds, problems):
        return np.tile(self.law, len(rounds))


def quietly(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return choose(*args, **options)


def played(n, means, seed, shares=None, **more):
    """A log of arms drawn by fixed shares, with Bernoulli rewards of these means (K,) or (n, K)."""
    rng = np.random.default_rng(seed)
    means = np.broadcast_to(means, (n, np.shape(means)[-1]))
    size = means.shape[1]
    shares = np.full(size, 1 / size) if shares is None else np.asarray(shares)
    arm = rng.choice(size, n, p=shares)
    reward = (rng.random(n) < means[np.arange(n), arm]).astype(float)
    return DecisionLog.from_table(
        {"arm": arm, "probability": shares[arm], "reward": reward, "arm_count": np.full(n, size), **more}
    )


def adaptive(n, means, rng):
    """A log whose policy moves its probabilities after the mean rewards so far."""
    size = len(means)
    count, total = np.ones(size), np.full(size, 0.5)
    rows = {"arm": [], "probability": [], "reward": [], "probabilities": []}
    for _ in range(n):
        score = np.exp(4 * total / count)
        p = 0.7 * score / score.sum() + 0.3 / size
        arm = int(rng.choice(size, p=p))
        reward = float(rng.random() < means[arm])
        count[arm] += 1
        total[arm] += reward
        for name, value in zip(rows, (arm, p[arm], reward, p), strict=True):
            rows[name].append(value)
    return DecisionLog.from_table(rows | {"probabilities": np.array(rows["probabilities"])})


def laws(count, size, rng):
    """Candidates of which the last is close to the first."""
    found = rng.dirichlet(np.full(size, 0.5), size=count)
    found[-1] = 0.9 * found[0] + 0.1 * found[1]
    return found


def dropped_best(log, pi, means, looks):
    """Whether at some look the candidate with the highest average value so far was dropped."""
    candidates = [Law(str(i), tuple(law)) for i, law in enumerate(pi)]
    wrong = False
    for n in looks:
        best = int(np.argmax(pi @ means[:n].mean(axis=0)))
        wrong |= str(best) in quietly(log[:n], candidates).dropped
    return wrong


@pytest.mark.parametrize("logging", ["fixed", "adaptive", "drift"])
def test_the_best_is_dropped_no_more_often_than_promised(logging):
    logs, n, wrong = 16, 400, 0
    for seed in range(logs):
        rng = np.random.default_rng([seed, 1])
        means = np.tile(rng.uniform(0.2, 0.8, 4), (n, 1))
        if logging == "drift":
            means[n // 2 :] = means[0, ::-1]
        pi = laws(3, 4, rng)
        log = adaptive(n, means[0], rng) if logging == "adaptive" else played(n, means, [seed, 2])
        wrong += dropped_best(log, pi, means, (100, n))
    assert wrong <= binom.isf(FALSE_ALARM, logs, 0.05)


def test_a_clear_best_is_found_and_says_so():
    choice = choose(played(4_000, [0.2, 0.5, 0.8], 0), ["uniform", 0, 1, 2])
    assert choice.decided
    assert (choice.leader, choice.left, choice.refuted, choice.more) == ("arm 2", ["arm 2"], [], 0)
    assert choice.dropped == {"uniform": "arm 2", "arm 0": "arm 2", "arm 1": "arm 2"}
    assert str(choice) == "arm 2 is the best of 4 after 4,000 decisions (confidence 95 %)"
    assert choice.table["possible"].to_pylist() == [False, False, False, True]
    assert choice.gains["candidate"].to_pylist() == ["uniform", "arm 0", "arm 1"]
    assert all(lower > 0 for lower in choice.gains["lower"].to_pylist())


def test_equal_candidates_differ_by_zero_and_none_is_dropped():
    half = Law("half", (0.5, 0.5))
    choice = choose(played(3_000, [0.1, 0.9], 0), {"one": half, "two": half, "uniform": "uniform"})
    assert choice.left == ["one", "two", "uniform"]
    for row in choice.gains.to_pylist():
        assert (row["estimate"], row["lower"], row["upper"]) == (0.0, 0.0, 0.0)
        assert math.copysign(1.0, row["lower"]) == math.copysign(1.0, row["estimate"]) == 1.0
    assert choice.more is None
    assert str(choice) == (
        "one leads after 3,000 decisions: 3 of 3 are left; no verdict will come, one, two and uniform did "
        "the same in every decision"
    )


def test_nearby_candidates_are_told_apart_long_before_their_own_intervals_part():
    near = Law("near", (0.45, 0.55))
    log = played(32_000, [0.2, 0.8], 0)
    own = []
    for n in (500, 2_000, 8_000, 32_000):
        choice = choose(log[:n], ["uniform", near])
        rows = choice.table.to_pylist()
        own.append(rows[1]["lower"] > rows[0]["upper"])
        if n == 500:
            assert choice.decided
            assert choice.leader == "near"
    assert own == [False, False, False, True]


def test_what_each_candidate_earns_is_what_evaluate_says():
    log, candidates = played(1_000, [0.3, 0.6, 0.4], 1), ["uniform", 1, 2]
    choice = choose(log, candidates)
    table = evaluate(log, candidates, "ipw", confidence=1 - 0.05 / 6)
    for name in ("estimate", "lower", "upper", "n", "effective_n"):
        assert choice.table[name].to_pylist() == table[name].to_pylist()


@pytest.mark.parametrize("estimator", ["ipw", "dr"])
def test_an_executor_gives_the_same_numbers(tmp_path, small, estimator):
    for part in range(5):
        pq.write_table(small.log[100 * part : 100 * (part + 1)].table(), tmp_path / f"{part}.parquet")
    log = DecisionLog.open(tmp_path)
    assert len(log.pieces()) == 5
    here = choose(log, ["uniform", 0, LinMED()], estimator=estimator)
    with ThreadPoolExecutor(2) as pool:
        there = choose(log, ["uniform", 0, LinMED()], estimator=estimator, executor=pool)
    assert here.table == there.table
    assert here.gains == there.gains
    assert str(here) == str(there)


def two_arms(n, seed, share=0.5):
    """Arms that pay 0.3 and 0.6, of which the log says that they are played alike; `odd` is no law."""
    rng = np.random.default_rng(seed)
    arm = (rng.random(n) > share).astype(int)
    reward = (rng.random(n) < np.array([0.3, 0.6])[arm]).astype(float)
    half = np.full(n, 0.5)
    rows = {"arm": arm, "probability": half, "reward": reward, "arm_count": np.full(n, 2)}
    return DecisionLog.from_table(rows | {"odd": np.full(n, 0.9)})


def test_refuted_candidates_neither_drop_nor_are_dropped():
    with pytest.warns(OPEWarning, match="'odd': the mean weight is 1.8"):
        choice = choose(two_arms(3_000, 0), {"odd": "column:odd", "one": 1, "nought": 0})
    assert choice.refuted == ["odd"]
    assert (choice.left, choice.dropped) == (["one"], {"nought": "one"})
    assert not choice.decided
    row, *_ = choice.table.to_pylist()
    assert math.isnan(row["lower"])
    assert row["possible"] is False
    gain, *_ = choice.gains.to_pylist()
    assert gain["candidate"] == "odd"
    assert math.isnan(gain["lower"])
    assert str(choice) == "one leads after 3,000 decisions: 1 of 3 is left; odd cannot be judged"


def test_where_the_logs_own_probabilities_are_wrong_there_is_no_choice():
    with pytest.warns(OPEWarning) as said, pytest.raises(BadValue, match="can be judged") as caught:
        choose(two_arms(3_000, 2, share=0.8), [0, 1])
    assert caught.value.field == "log"
    assert "arm 0 was played 1.58 times as often as they say" in str(said[0].message)


def linear(n, seed, poison=False, high=0.9):
    """Arms with one feature each: the first pays, and in the second half of a poisoned log the second."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 2, n)
    pays = np.zeros(n, dtype=int)
    if poison:
        pays[n // 2 :] = 1
    reward = (rng.random(n) < np.where(arm == pays, high, 1 - high)).astype(float)
    arms = np.tile(np.eye(2), (n, 1, 1))
    return DecisionLog.from_table(
        {"arm": arm, "probability": np.full(n, 0.5), "reward": reward, "arms": arms}
    )


def test_what_learns_learns_from_the_first_part_alone():
    log = linear(2_000, 0, poison=True)
    choice = choose(log, [Greedy(), "uniform"])
    # It believes in arm 0, which pays 0.1 in the part that judges: had it seen that, it would not.
    assert choice.dropped == {Greedy().name: "uniform"}
    assert (choice.trained_on, choice.decisions) == (1_000, 1_000)
    agent = learn_from(log[:1_000], Greedy(), seed=0)
    by_hand = choose(log[1_000:], {Greedy().name: agent, "uniform": "uniform"})
    assert choice.table == by_hand.table
    assert choice.gains == by_hand.gains


def test_train_is_a_share_or_a_number_of_decisions():
    log = linear(1_000, 0)
    share, number = (choose(log, [LinMED(), "uniform"], train=train) for train in (0.25, 250))
    assert share.trained_on == number.trained_on == 250
    assert share.decisions == number.decisions == 750
    assert choose(log, ["uniform", 1], train=0.25).trained_on == 0


def test_late_rewards_in_the_part_that_teaches_are_left_out_and_those_after_it_end_the_log():
    rows = linear(1_000, 0).table().to_pydict()
    rows["reward"][10] = rows["reward"][900] = None
    log = DecisionLog.from_table(rows)
    with pytest.warns(OPEWarning, match="100 of 500 decisions"):
        choice = choose(log, [LinMED(), "uniform"])
    assert choice.decisions == 400
    with pytest.warns(OPEWarning, match="500 of 1,000|990 of 1,000"):
        assert choose(log, ["uniform", 0]).decisions == 10


def test_the_forecast_counts_what_the_log_will_need_not_only_what_judges():
    log = linear(400, 3, high=0.55)
    candidates = {"half": "uniform", "learner": LinMED()}
    taught, fixed = choose(log, candidates, train=0.5), choose(log, candidates, train=200)
    assert taught.table == fixed.table
    assert taught.more == pytest.approx(2 * fixed.more, abs=1)
    text = str(fixed)
    assert "a verdict is likely after about" in text
    assert text.endswith("more, if the estimates are true")


@pytest.mark.parametrize("one", ["uniform", ["uniform"], {"uniform": "uniform"}])
def test_one_candidate_is_the_only_one(one):
    log = played(300, [0.3, 0.6], 0)
    choice = choose(log, one)
    assert choice.decided
    assert (choice.left, choice.dropped, choice.more, len(choice.gains)) == (["uniform"], {}, 0, 0)
    assert choice.gains.column_names == ["candidate", "estimate", "lower", "upper", "possible"]
    assert str(choice) == "uniform is the only candidate"
    table = evaluate(log, "uniform", "ipw")
    assert choice.table["lower"].to_pylist() == table["lower"].to_pylist()


def test_a_policy_and_its_state_are_one_candidate_and_so_is_a_policy():
    log = linear(400, 0)
    agent = learn_from(log[:200], LinMED(), seed=0)
    frozen, policy = choose(log[200:], (agent.policy, agent.state)), choose(log, LinMED())
    assert frozen.table == policy.table
    assert (frozen.trained_on, policy.trained_on) == (0, 200)


def test_policies_of_one_name_need_names():
    log = linear(300, 0)
    with blames("candidates", "'LinMED-90' occurs twice; give them"):
        choose(log, [LinMED(), LinMED(ridge=1.0, label="LinMED-90")])
    choice = choose(log, {"mild": LinMED(), "stiff": LinMED(ridge=100.0)})
    assert choice.table["candidate"].to_pylist() == ["mild", "stiff"]
    agent = learn_from(log[:150], LinMED(), seed=0)
    with pytest.raises(BadValue, match="occurs twice"):
        choose(log, [LinMED(), agent])


@pytest.mark.parametrize(
    ("asked", "field", "message"),
    [
        ({"candidates": []}, "candidates", "candidates is empty"),
        ({"candidates": {}}, "candidates", "candidates is empty"),
        ({"candidates": ["nobody"]}, "candidates", "got 'nobody'"),
        ({"candidates": [LinMED(), "nobody"]}, "candidates", "got 'nobody'"),
        ({"candidates": [3.5]}, "candidates", "got 3.5"),
        ({"candidates": ["arm:0", 0]}, "candidates", "'arm 0' occurs twice"),
        ({"candidates": {1: 0, "1": 1}}, "candidates", "'1' occurs twice"),
        ({"candidates": ["uniform", 7]}, "candidates", "'arm 7' needs at least 8 arms"),
        ({"candidates": ["column:x", "uniform"]}, "candidates", "needs the column 'x'"),
        ({"candidates": [EXP2(), "uniform"]}, "candidates", "EXP2.* cannot learn from another policy"),
        ({"candidates": [Agent(LinMED(), dim=5), "uniform"]}, "candidates", "was made for dim=5"),
        ({"train": 0}, "train", "at least 1"),
        ({"train": 1.0}, "train", "strictly between 0 and 1"),
        ({"train": True}, "train", "whole number"),
        ({"train": "half"}, "train", "must be a number"),
        ({"train": 300}, "train", "has 300, and train=300 would take 300"),
        ({"train": 0.001}, "train", "would take 0"),
        ({"confidence": 1.0}, "confidence", "strictly between 0 and 1"),
        ({"confidence": "high"}, "confidence", "must be a number"),
        ({"estimator": "snipw"}, "estimator", "ipw"),
        ({"missing": "sometimes"}, "missing", "stop"),
    ],
)
def test_bad_input_is_named(asked, field, message):
    given = {"candidates": ["uniform", LinMED()], **asked}
    with blames(field, message):
        choose(linear(300, 0), **given)


def test_a_policy_cannot_learn_where_the_log_has_no_features():
    with pytest.raises(BadValue, match="needs the column 'arms'"):
        choose(played(100, [0.5, 0.5], 0), [LinMED(), "uniform"])


def test_values_that_drift_are_compared_by_their_averages_so_far():
    n = 4_000
    means = np.repeat([[0.8, 0.3], [0.1, 0.3]], n // 2, axis=0)
    log = played(n, means, 0)
    assert choose(log[: n // 2], [0, 1]).leader == "arm 0"
    late = choose(log, [0, 1])
    assert late.leader == "arm 0"  # 0.45 on average against 0.3
    assert late.decided
