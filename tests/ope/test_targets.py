"""What targets ask of policies and of the log."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linmed.ope import DecisionLog, OPEWarning, as_target, diagnose, difference, evaluate, sequence
from linmed.ope.scan import Problems, Rounds
from linmed.ope.targets import distinct
from linmed.policies import EXP2, LinMED, LinTS
from linmed.validation import BadValue
from tests.blame import blames


def rounds_of(sets: list[np.ndarray]) -> Rounds:
    n, counts = len(sets), np.array([len(one) for one in sets])
    zeros = np.zeros(n)
    arms = np.ascontiguousarray(np.concatenate(sets))
    return Rounds(np.arange(n), np.zeros(n, np.int64), zeros + 0.5, zeros, counts, None, arms)


def few_sets(n: int = 400) -> list[np.ndarray]:
    """Decisions among five sets of arms, of three sizes, in no order."""
    rng = np.random.default_rng(6)
    kinds = [rng.normal(size=(k, 3)) for k in (2, 4, 4, 4, 6)]
    return [kinds[i] for i in rng.integers(5, size=n)]


def learned(policy, dim: int = 3):
    rng = np.random.default_rng(7)
    state = policy.start(1, dim)
    if policy.learns_from_arms:
        policy.learn(state, rng.normal(size=(40, dim)), rng.normal(size=40), np.zeros(40, dtype=np.int64))
    return state


@pytest.mark.parametrize("policy", [LinMED(), LinTS()])
def test_a_policy_is_asked_once_for_each_set_of_arms(policy, monkeypatch):
    state, sets = learned(policy), few_sets()
    alone = np.concatenate([np.exp(policy.log_probabilities(state, one[None])[0]) for one in sets])
    asked, ask = [], type(policy).log_probabilities
    monkeypatch.setattr(
        type(policy), "log_probabilities", lambda *args: asked.append(len(args[2])) or ask(*args)
    )
    found = as_target((policy, state)).probabilities(rounds_of(sets), Problems())
    np.testing.assert_array_equal(found, alone)
    assert sorted(asked) == [1, 1, 3]


@pytest.mark.parametrize("policy", [LinMED(), LinTS(scale="bayes")])
def test_sets_that_differ_are_answered_each_for_itself(policy):
    state, rng = learned(policy), np.random.default_rng(9)
    sets = [rng.normal(size=(4, 3)) for _ in range(40)]
    for i in range(5, 40, 7):
        sets[i] = sets[i - 5]
    alone = np.concatenate([np.exp(policy.log_probabilities(state, one[None])[0]) for one in sets])
    np.testing.assert_array_equal(
        as_target((policy, state)).probabilities(rounds_of(sets), Problems()), alone
    )


def test_sets_are_alike_only_in_every_bit():
    base = np.random.default_rng(0).normal(size=(4, 3))
    close = base.copy()
    close[3, 2] = np.nextafter(close[3, 2], 9.0)
    swapped = base[[1, 0, 2, 3]]
    sets = np.stack([base, close, base, swapped, close, base])
    first, which = distinct(sets)
    assert sorted(first.tolist()) == [0, 1, 3]
    np.testing.assert_array_equal(sets[first][which], sets)
    zeros = np.zeros((4, 2, 2))
    zeros[2] = -0.0
    first, which = distinct(zeros)
    assert first.size == 2
    np.testing.assert_array_equal(np.signbit(zeros[first][which]), np.signbit(zeros))
    hot = np.eye(40)[:, None]
    assert distinct(np.concatenate([hot, hot]))[0].size == 40  # numbers with few bits have keys of their own


def test_a_policy_for_one_set_of_arms_is_a_target_of_a_log_that_has_but_one():
    sets = [np.eye(3)] * 30
    found = as_target((EXP2(), learned(EXP2()))).probabilities(rounds_of(sets), Problems())
    np.testing.assert_allclose(found, 1 / 3, rtol=1e-12)


def test_a_function_may_change_the_arms_it_is_given():
    def norm(arms):
        arms -= arms.min() - 1.0
        arms /= arms.sum()
        return arms.sum(axis=1)

    rounds = rounds_of(few_sets(20))
    before = rounds.arms.copy()
    first, second = (as_target(norm).probabilities(rounds, Problems()) for _ in range(2))
    np.testing.assert_array_equal(rounds.arms, before)
    np.testing.assert_array_equal(first, second)


def half_played(tmp_path, *names: str) -> DecisionLog:
    """Decisions among the first two of three arms, of which the log tells by the columns `names`."""
    rng = np.random.default_rng(5)
    n = 60
    every = {
        "arm": rng.integers(2, size=n),
        "probability": np.full(n, 0.5),
        "reward": rng.random(n).round(),
        "arm_count": np.full(n, 3),
        "probabilities": [[0.5, 0.5, 0.0]] * n,
        "arms": [[[1.0], [2.0], [3.0]]] * n,
    }
    file = tmp_path / ("-".join(names) or "bare")
    pq.write_table(pa.table({name: every[name] for name in ("arm", "probability", "reward", *names)}), file)
    return DecisionLog.open(file)


@pytest.mark.parametrize("told", ["arm_count", "probabilities", "arms"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda log: evaluate(log, ["uniform", 9], ["snipw", "ipw"], interval="normal"),
        lambda log: evaluate(log, 9, "dr"),
        lambda log: evaluate(log, 9),
        lambda log: sequence(log, 9),
        lambda log: difference(log, 0, 9),
        lambda log: diagnose(log, 9),
    ],
)
def test_an_arm_beyond_those_of_the_log_is_refused_whatever_tells_their_number(tmp_path, told, ask):
    with blames("targets", r"^target 'arm 9' needs at least 10 arms: row 0 has 3 \(60 rows in all\)$"):
        ask(half_played(tmp_path, told))


@pytest.mark.parametrize("told", ["arm_count", "probabilities", "arms"])
@pytest.mark.filterwarnings("ignore:.* lies on arms that were never logged:linmed.ope.OPEWarning")
def test_the_number_of_arms_may_be_told_by_any_column_that_has_it(tmp_path, told):
    log, counted = half_played(tmp_path, told), half_played(tmp_path, "arm_count")
    with pytest.warns(OPEWarning, match=r"'uniform'.* mean weight is 0.6667"):
        ours, theirs = (
            evaluate(one, "uniform", ["ipw", "snipw"], interval="normal") for one in (log, counted)
        )
    assert as_target("uniform").knows_all_arms(log)
    assert ours == theirs
    with pytest.raises(BadValue, match="target 'uniform' needs the column 'arm_count'"):
        evaluate(half_played(tmp_path), "uniform", "ipw")


def test_where_nothing_tells_the_number_of_arms_the_warning_says_so(tmp_path):
    log = half_played(tmp_path)
    unknown = r"target 'arm 99' never agrees .*the log does not tell how many arms there are"
    for ask in (
        lambda: evaluate(log, [0, 99], ["ipw", "snipw"]),
        lambda: evaluate(log, 99, "ipw", interval="normal"),
        lambda: sequence(log, 99),
        lambda: difference(log, 0, 99),
    ):
        with pytest.warns(OPEWarning, match=unknown):
            ask()
    with pytest.warns(OPEWarning, match=r"'arm 2' never agrees with .* say nothing of its value$"):
        evaluate(half_played(tmp_path, "arm_count"), 2, "ipw")
    with pytest.raises(BadValue, match="target 'arm 99' needs the column 'arm_count'"):
        evaluate(log, 99, "dr")
