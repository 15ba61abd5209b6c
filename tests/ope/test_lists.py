"""Logs of lists and what can be said of them: values by enumeration, by hand, and as a sequence."""

import itertools
import math

import numpy as np
import pytest

from linmed import Agent, LinMED
from linmed.environments import ListClicks
from linmed.lists import ListLaw, ListOptions
from linmed.log import LogWriter
from linmed.log.list_log import ListLog
from linmed.ope import DecisionLog, choose, diagnose, difference, estimate_examination, evaluate, sequence
from linmed.ope.list_estimators import NAMES, Answers, Lists, as_list_target
from linmed.question import Question
from tests.test_lists import TOY_ARMS, every_list, toy

RATES = np.array([0.5, 0.35, 0.2, 0.1])


def click_rates(arms):
    """Position 2 is clicked less below arm 0."""
    rates = RATES[[*arms]]
    return rates * np.where([False] + [arms[0] == 0] * (len(arms) - 1), 0.6, 1.0)


def log_of(shown, rewards, probabilities, count=4, **more):
    table = {
        "arms": shown,
        "rewards": rewards,
        "probabilities": probabilities,
        "arm_count": [count] * len(shown),
    }
    return ListLog.from_table(table, **more)


def toy_log(rates=click_rates):
    """Every list of the toy with each outcome, once, and how probable each row is."""
    law = ListLaw(*toy(), TOY_ARMS, ListOptions(2))
    shown, rewards, chances, weight = [], [], [], []
    for arms, chance in every_list(law, 4, 2).items():
        for clicks in itertools.product((0.0, 1.0), repeat=2):
            rate = rates(arms)
            first = math.exp(law.log_probabilities(())[arms[0]])
            shown.append(arms)
            rewards.append(clicks)
            chances.append((first, chance / first))
            weight.append(chance * np.prod(np.where(clicks, rate, 1.0 - rate)))
    return log_of(shown, rewards, chances, weights=(1.0, 0.5), logging=as_logging), np.array(weight)


def as_logging(_, prefix):
    return np.exp(ListLaw(*toy(), TOY_ARMS, ListOptions(2)).log_probabilities(prefix))


def exact(log, weight, name, target="uniform"):
    """The mean and variance of an estimator's terms over all lists and outcomes."""
    terms = Answers(Lists(log, Question()), as_list_target(target)).answer(name).terms
    mean = weight @ terms
    return mean, weight @ (terms - mean) ** 2


def test_toy_by_enumeration():
    log, weight = toy_log()
    assert weight.sum() == pytest.approx(1.0, abs=1e-12)
    for name, value, variance in (
        ("sips", 0.420416666667, 1048.3),
        ("rips", 0.420416666667, 123.8),
        ("iips", 0.405628338486, None),
    ):
        mean, spread = exact(log, weight, name)
        assert mean == pytest.approx(value, abs=1e-10)
        if variance is not None:
            assert spread == pytest.approx(variance, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("sips", click_rates),
        ("rips", click_rates),
        ("iips", lambda arms: RATES[[*arms]] * (1.0, 0.7)),
        ("pseudo-inverse", lambda arms: RATES[[*arms]] * (1.0, 0.7)),
        ("set-ips", lambda arms: np.full(2, RATES[[*arms]].mean() * (0.5 if 0 in arms else 1.0))),
    ],
)
@pytest.mark.parametrize("target", ["uniform", "ranking:[1, 0, 2]", lambda count, prefix: by_hand(prefix)])
def test_estimators_are_unbiased_where_they_say_so(name, rates, target):
    log, weight = toy_log(rates=rates)
    law = as_list_target(target)
    lists = Lists(log, Question())
    value = 0.0
    for arms in itertools.permutations(range(4), 2):
        chance = math.prod(law.law(lists, 0, arms[:j])[arm] for j, arm in enumerate(arms))
        value += chance * (rates(arms) @ (1.0, 0.5))
    assert exact(log, weight, name, target)[0] == pytest.approx(value, abs=1e-9)


def by_hand(prefix):
    law = np.array([0.4, 0.1, 0.2, 0.3])
    law[[*prefix]] = 0.0
    return law / law.sum()


def adaptive_log(lists=400, count=6, length=3, seed=0, weights=None):
    """What an agent that learns shows, and cascades of clicks."""
    rng = np.random.default_rng(seed)
    arms = rng.normal(size=(count, 3)) / 2
    rates = np.linspace(0.6, 0.1, count)
    agent = Agent(LinMED(alpha_emp=0.5, sigma=0.5), dim=3, seed=seed)
    shown, rewards, chances = [], [], []
    for _ in range(lists):
        one = agent.decide_list(arms, length=length)
        clicks = np.zeros(length)
        found = np.flatnonzero(rng.random(length) < rates[one.arms])
        clicks[found[:1]] = 1.0
        agent.learn_list(one, clicks, seen="cascade")
        shown.append(one.arms.tolist())
        rewards.append(clicks.tolist())
        chances.append(one.probabilities.tolist())
    return log_of(shown, rewards, chances, count, weights=weights)


def test_the_logged_law_earns_what_the_log_did():
    log = adaptive_log()
    earned = np.mean([sum(row) for row in log.table()["rewards"].to_pylist()])
    names = ["sips", "rips", "snsips", "snrips"]
    for row in evaluate(log, "logged", names).to_pylist():
        assert row["estimate"] == pytest.approx(earned, abs=1e-12)
        assert row["lower"] < earned < row["upper"]
        assert (row["n"], row["effective_n"], row["valid"]) == (400, 400.0, "any time")


def test_doubly_robust_is_unbiased_and_varies_less():
    """Its mean over 20 logs lies within five standard errors: a false alarm of less than 1e-5."""
    value = 0.0
    for arms in itertools.permutations(range(6), 3):
        stay = np.cumprod(1.0 - np.linspace(0.6, 0.1, 6)[[*arms]])
        value += (1.0 - stay[-1]) / 120
    errors = {"rips": [], "cascade-dr": []}
    for seed in range(20):
        log = adaptive_log(60, seed=seed)
        for row in evaluate(log, "uniform", [*errors], "normal").to_pylist():
            errors[row["estimator"]].append(row["estimate"] - value)
            assert row["valid"] == "asymptotic"
    for found in errors.values():
        assert abs(np.mean(found)) < 5.0 * np.std(found) / math.sqrt(20)
    assert np.std(errors["cascade-dr"]) < 0.9 * np.std(errors["rips"])


def test_sequences_hold_and_narrow():
    log = adaptive_log(weights=(1.0, 0.5, 0.25))
    course = sequence(log, "uniform", "rips").to_pylist()
    assert course[-1]["n"] == 400
    assert all(0.0 <= row["lower"] <= row["upper"] <= 1.75 for row in course)
    found = {row["estimator"]: row for row in evaluate(log, "uniform", ["sips", "rips"]).to_pylist()}
    assert course[-1]["estimate"] == pytest.approx(found["rips"]["estimate"])
    widths = {name: row["upper"] - row["lower"] for name, row in found.items()}
    assert widths["rips"] < widths["sips"]
    assert course[-1]["upper"] == pytest.approx(found["rips"]["upper"], abs=1e-9)


def test_differences_and_choices():
    log = adaptive_log(1200)
    (same,) = difference(log, "logged", {"logged": "logged"}["logged"], "rips").to_pylist()
    assert (same["estimate"], same["lower"], same["upper"]) == (0.0, 0.0, 0.0)
    (row,) = difference(log, "uniform", "logged", "rips").to_pylist()
    one, other = evaluate(log, ["uniform", "logged"], "rips").to_pylist()
    assert row["estimate"] == pytest.approx(one["estimate"] - other["estimate"], abs=1e-12)
    assert row["lower"] < row["estimate"] < row["upper"]
    verdict = choose(log, ["ranking:[0, 1, 2]", "ranking:[5, 4, 3]"], estimator="rips")
    assert verdict.leader == "ranking:[0, 1, 2]"
    assert verdict.gains.to_pylist()[0]["lower"] <= verdict.gains.to_pylist()[0]["estimate"]


def test_diagnosis_of_every_position():
    found = diagnose(adaptive_log(), "uniform")
    assert [one.target for one in found] == [f"uniform, position {j}" for j in range(3)]
    for one in found:
        assert 1.0 < one.effective_n < one.n == 400
        assert abs(one.mean_weight - 1.0) < 5.0 * one.mean_weight_error


def test_agents_are_targets_where_the_log_has_all_arms(tmp_path):
    agent = Agent(LinMED(), dim=2, seed=1, log=tmp_path)
    shown = agent.decide_list(TOY_ARMS, length=2, candidates=lambda above: [0, 1, 2], time=0.0)
    agent.learn_list(shown, [1.0, 0.0])
    late = agent.decide_list(TOY_ARMS, length=2)
    agent.log.flush()
    agent.learn_list(late, [0.0, math.nan])
    agent.close()
    with pytest.raises(ValueError, match="holds lists and no single decisions"):
        DecisionLog.open(tmp_path)
    log = ListLog.open(tmp_path)
    first, second = log.table().to_pylist()
    assert first["decision_id"] == shown.id
    assert first["arms"] == shown.arms.tolist()
    assert first["probabilities"] == shown.probabilities.tolist()
    assert first["candidates"][1] == [arm for arm in range(3) if arm != shown.arms[0]]
    assert (first["rewards"], second["rewards"]) == ([1.0, 0.0], [0.0, None])
    assert second["version"] == 2
    with LogWriter(tmp_path) as writer:  # another process goes on
        with pytest.raises(KeyError, match="already has its reward of position 0"):
            writer.reward_list(late.id, {0: 1.0})
        with pytest.raises(ValueError, match="already in the log"):
            writer.record_list(late.id, arms=[0], arm_count=1, log_probabilities=[0.0])
        writer.reward_list(late.id, {1: 1.0})
    twin = Agent(LinMED(), dim=2, seed=1)
    chances = Answers(Lists(ListLog.open(tmp_path), Question()), as_list_target(twin)).chance
    np.testing.assert_array_equal(chances[0], shown.probabilities)
    assert evaluate(tmp_path, twin, "rips")["n"].to_pylist() == [2]


def test_deadlines_and_closing_fill_in_the_log(tmp_path):
    agent = Agent(LinMED(), dim=2, seed=1, log=tmp_path, wait=10.0)
    one, other = (agent.decide_list(TOY_ARMS, length=2, seen="dcm", time=0.0) for _ in range(2))
    agent.learn_list(one, [1.0, math.nan], time=1.0)
    agent.expire(10.0)
    whole = agent.decide_list(TOY_ARMS, length=2, time=20.0)
    agent.learn_list(whole, 1.5, time=21.0)
    agent.close()
    rows = {row["decision_id"]: row for row in ListLog.open(tmp_path).table().to_pylist()}
    assert [rows[each.id]["rewards"] for each in (one, other)] == [[1.0, 0.0], [0.0, 0.0]]
    assert rows[whole.id]["reward"] == 1.5


def test_one_reward_for_the_whole_list():
    table = {
        "arms": [[0, 1], [1, 0]],
        "probabilities": [[0.5, 1.0]] * 2,
        "arm_count": [2, 2],
        "reward": [1.0, 0.0],
    }
    log = ListLog.from_table(table)
    (row,) = evaluate(log, "ranking:[0, 1]").to_pylist()
    assert (row["estimator"], row["estimate"]) == ("sips", 1.0)
    with pytest.raises(ValueError, match="rips needs rewards by position"):
        evaluate(log, "uniform", "rips")


def test_examination_is_recovered():
    """Ten intervals of at least 95 %: three or more of them wrong has a probability below .012."""
    world = ListClicks(np.eye(4), [0.9, 0.7, 0.5, 0.3], "position", [1.0, 0.6, 0.3])
    held = []
    for seed in range(5):
        rng, rows = np.random.default_rng(seed), {"arms": [], "probabilities": [], "rewards": []}
        for _ in range(400):
            shown = rng.permutation(4)[:3]
            for name, value in zip(
                rows, (shown, [1 / 4, 1 / 3, 1 / 2], world.clicks(shown, rng)), strict=True
            ):
                rows[name].append(value)
        table = estimate_examination(ListLog.from_table({**rows, "arm_count": [4] * 400})).to_pylist()
        assert abs(table[2]["estimate"] - 0.3) < 0.2
        held += [table[j]["lower"] <= truth <= table[j]["upper"] for j, truth in ((1, 0.6), (2, 0.3))]
    assert sum(held) >= 8
    with pytest.raises(ValueError, match="must be a ListLog"):
        estimate_examination(DecisionLog.from_table({"arm": [0], "probability": [1.0], "reward": [1.0]}))


def test_lists_that_wait_stop_or_are_skipped():
    table = {"arms": [[0], [1], [0]], "probabilities": [[0.5]] * 3, "arm_count": [2] * 3}
    log = ListLog.from_table({**table, "rewards": [[1.0], [None], [1.0]]})
    assert evaluate(log, "logged", "sips")["n"].to_pylist() == [1]
    assert evaluate(log, "logged", "sips", missing="skip")["n"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": "best"}, "targets on lists must be 'uniform'"),
        ({"targets": "ranking:[1, 1]"}, "a list of different arms"),
        ({"targets": "ranking:[1]"}, "has no arm for position 1"),
        ({"targets": lambda count, prefix: np.ones(count)}, "probabilities that sum to 1"),
        ({"targets": lambda count, prefix: np.eye(count)[0]}, "some probability again"),
        ({"targets": Agent(LinMED(), dim=2)}, "features of all arms"),
        ({"targets": ["uniform", "uniform"]}, "different names"),
        ({"estimators": "dr"}, "estimators must be one of"),
        ({"estimators": "iips"}, r"log.given\(logging=…\)"),
        ({"interval": "adaptive"}, "interval must be one of"),
        ({"since": 3}, "since is not for logs of lists"),
        ({"missing": 0.0}, "missing must be 'stop' or 'skip'"),
        ({"reward_range": (0.0, 0.5)}, "reward_range must hold all rewards"),
    ],
)
def test_refusals_of_questions(options, message):
    log = adaptive_log(20)
    with pytest.raises(ValueError, match=message):
        evaluate(log, **{"targets": "uniform", **options})


def test_refusals_of_logs():
    with pytest.raises(ValueError, match="logging is not the law of list 0"):
        evaluate(adaptive_log(20).given(logging="uniform"), "uniform", "iips")
    many = log_of([list(range(8))], [[0.0] * 8], [[1 / (40 - j) for j in range(8)]], 40, logging="uniform")
    with pytest.raises(ValueError, match="more than 1,000,000"):
        evaluate(many, "uniform", "iips")
    with pytest.raises(ValueError, match="weights must be 2 numbers"):
        toy_log()[0].given(weights=[1.0])
    with pytest.raises(ValueError, match="do not lie in"):
        evaluate(log_of([[0, 1]], [[1.0, 0.0]], [[0.0, 1.0]]), "uniform")


def test_every_estimator_answers():
    log, _ = toy_log()
    rows = evaluate(log, "uniform", list(NAMES)).to_pylist()
    assert [row["estimator"] for row in rows] == list(NAMES)
    assert all(math.isfinite(row["estimate"]) for row in rows)
