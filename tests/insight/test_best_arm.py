"""The verdict: toy numbers by hand, what must hold of every verdict, and how often it may be wrong."""

import dataclasses
import json
import math
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from linmed import EXP2, Agent, LinMED, LinUCB, Pinpoint, Uniform, Verdicts
from linmed.insight.best_arm import Verdict, VerdictWarning, judge, look
from linmed.policies import RidgePolicy
from linmed.validation import BadType, BadValue

ARMS = [[0.9, 0.1], [0.6, 0.8], [0.0, 1.0]]
PLAYED = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [1.0, 0.0]]
PAID = [0.9, 1.3, 0.4, 1.2]


SETS = [
    LinMED(sigma=0.3),
    LinMED(sigma=0.3, confidence="mixture"),
    LinMED(sigma=0.3, confidence="empirical"),
    LinMED(sigma="unknown"),
    LinMED(sigma="unknown", tails="strict"),
    LinMED(sigma=0.3, norm_bound="unknown"),
    LinMED(sigma="unknown", norm_bound="unknown"),
    LinMED(sigma="unknown", ridge="learned"),
    LinMED(sigma=0.3, ridge="learned"),
]


@dataclass(frozen=True)
class Mine(LinMED):
    """LinMED with a set of one's own: β is 4."""

    def squared_radius(self, state):
        return np.full(len(state.count), 4.0)


def toy(policy=None) -> Agent:
    agent = Agent(policy or LinMED(sigma=0.5, norm_bound=2.0, ridge=0.25), dim=2, seed=0)
    agent.observe(PLAYED, PAID)
    return agent


def test_sentences_that_anybody_understands():
    undecided = toy().verdict(ARMS)
    assert str(undecided) == (
        "Not yet decided (95 % confidence after 4 rewards): all 3 arms can still be the best (arm 0, arm 1, "
        f"arm 2). So far arm 1 leads; another may be better by up to {undecided.margin:.3g}."
    )
    assert "(red, green, blue). So far green leads" in undecided.sentence(["red", "green", "blue"])
    sure = Agent(LinMED(sigma=0.01), dim=2)
    sure.observe(np.repeat(np.eye(2), 500, axis=0), np.repeat([0.2, 0.7], 500))
    verdict = sure.verdict(np.eye(2), delta=0.01)
    assert str(verdict) == (
        "Arm 1 is the best (99 % confidence after 1,000 rewards): the other arm is worse, by "
        f"{-verdict.margin:.3g} at least."
    )
    assert verdict.sentence(["left", "right"]).startswith("right is the best (99 % confidence")
    wide = toy().verdict(ARMS, epsilon=100.0)
    assert str(wide).startswith(
        "Arm 1 is good enough (95 % confidence after 4 rewards): no arm is better by more"
    )
    assert str(toy().verdict(ARMS[:1])) == "There is one arm only, arm 0: nothing is to be decided."
    twins = sure.verdict([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert (twins.decided, twins.candidates, twins.margin) == (True, (0, 1), 0.0)
    assert str(twins).endswith("no other arm is better.")
    with pytest.raises(BadValue, match="names must be 3"):
        undecided.sentence(["red"])


def test_ten_and_more_candidates_are_not_all_listed():
    many = np.eye(3)[np.arange(30) % 3] * np.linspace(0.1, 1, 30)[:, None]
    said = str(Agent(LinMED(), dim=3).verdict(many))
    first = ", ".join(f"arm {i}" for i in range(8))
    assert f"all 30 arms can still be the best ({first} and 22 more)" in said


@pytest.mark.parametrize("sampler", [Uniform(sigma=0.3), Pinpoint(sigma=0.3, delta=0.2), LinMED(sigma=0.3)])
def test_the_best_arm_stays_a_candidate_in_500_problems(sampler):
    """At every look of each; fails with probability below 1e-6 if best arms are dropped at rate δ or less."""
    trials, delta, rounds = 500, 0.2, 60
    rng = np.random.default_rng(11)
    arms = rng.standard_normal((trials, 6, 3))
    arms /= np.sqrt((arms**2).sum(axis=2, keepdims=True))
    theta = rng.standard_normal((trials, 3))
    theta /= np.sqrt((theta**2).sum(axis=1, keepdims=True))
    means = np.einsum("rkd,rd->rk", arms, theta)
    best = means.argmax(axis=1)
    by, state = judge(sampler, delta), sampler.start(trials, 3)
    replicas, lost = np.arange(trials), np.zeros(trials, dtype=bool)
    one = by.start(1, 3)
    for t in range(rounds):
        arm = sampler.choose(state, arms, sampler.draw_noise(rng, (trials,), 3))
        sampler.learn(
            state, arms[replicas, arm], means[replicas, arm] + 0.3 * rng.standard_normal(trials), replicas
        )
        if t % 10 == 9:
            for r in range(trials):
                one.restore({name: array[r : r + 1] for name, array in state.arrays().items()})
                lost[r] |= best[r] not in look(by, one, arms[r]).candidates
    assert lost.sum() <= binom.isf(1e-6, trials, delta)


numbers = st.floats(-3.0, 3.0).map(lambda x: round(x, 3))
vectors = st.lists(numbers, min_size=2, max_size=2)


@settings(max_examples=150, deadline=None)
@given(
    arms=st.lists(vectors, min_size=1, max_size=6),
    seen=st.lists(st.tuples(vectors, numbers), max_size=12),
    delta=st.sampled_from([0.001, 0.05, 0.5]),
)
def test_what_holds_of_every_verdict(arms, seen, delta):
    agent = Agent(LinMED(sigma=0.3), dim=2)
    for features, reward in seen:
        agent.observe(features, reward)
    verdict = agent.verdict(arms, delta)
    assert verdict.best in verdict.candidates
    assert verdict.estimates[verdict.best] == verdict.estimates.max()
    assert verdict.decided == (verdict.margin <= 0.0)
    assert (len(verdict.candidates) == 1) <= verdict.decided
    for i, behind in enumerate(verdict.differences()):
        assert behind == verdict.difference(verdict.best, i)
        assert (i in verdict.candidates) == (behind.lower <= 0.0)
        turned = verdict.difference(i, verdict.best)
        assert list(turned) == pytest.approx([-behind.estimate, -behind.upper, -behind.lower], abs=1e-9)
    sharper = agent.verdict(arms, min(2 * delta, 0.9))  # a larger δ rules out no less, and refutes no less
    assert (sharper.refuted is None) <= (verdict.refuted is None)
    if sharper.refuted is None:
        assert set(sharper.candidates) <= set(verdict.candidates)
        assert sharper.margin <= verdict.margin
    order = list(range(len(arms)))[::-1]
    turned = agent.verdict([arms[i] for i in order], delta)
    if len({tuple(arm) for arm in arms}) == len(arms) and len(np.unique(verdict.estimates)) == len(arms):
        assert {order[i] for i in turned.candidates} == set(verdict.candidates)
        assert turned.margin == verdict.margin


@pytest.mark.parametrize("scale", [1e-90, 1e-3, 1e50])
def test_arms_of_any_size_have_the_same_candidates(scale):
    rng = np.random.default_rng(2)
    arms, seen = rng.standard_normal((5, 3)), rng.standard_normal((40, 3))
    agent = Agent(LinMED(sigma=0.1), dim=3)
    agent.observe(seen, seen[:, 0])
    plain, scaled = agent.verdict(arms), agent.verdict(scale * arms)
    assert plain.candidates == scaled.candidates
    assert plain.margin == pytest.approx(scaled.margin / scale, rel=1e-9)


def test_an_infinite_radius_leaves_everything_open():
    """Nothing is known yet, and equal arms are equal all the same."""

    class Lost(LinMED):
        def radius(self, state):
            return np.full(len(state.count), np.inf)

    agent = toy()
    verdict = look(Lost(delta=0.05), agent.state, np.array(ARMS))
    assert (verdict.candidates, verdict.margin, verdict.decided) == ((0, 1, 2), math.inf, False)
    assert str(verdict) == (
        "Not yet decided: all 3 arms can still be the best, for too little is known after 4 rewards."
    )
    assert verdict.difference(0, 1)[1:] == (-math.inf, math.inf)
    equal = look(Lost(delta=0.05), agent.state, np.array([[1.0, 0.0]] * 3))
    assert (equal.decided, equal.margin) == (True, 0.0)


def test_directions_that_are_known_only_by_rounding_rule_nothing_out():
    """V⁻¹ has entries of 1e12 across the line played: a distance that is all rounding is not certain."""
    agent = Agent(LinMED(sigma=1.0, ridge=1e-12), dim=2)
    line = np.array([0.6, 0.8])
    agent.observe(np.tile(line, (4000, 1)), np.full(4000, 0.5))
    across = 1e-9 * np.array([0.8, -0.6])
    verdict = agent.verdict([line, line + across, line - across])
    assert verdict.candidates == (0, 1, 2)


def test_a_set_of_ones_own_is_no_proof_of_ours():
    verdict = toy(Mine(sigma=0.5, norm_bound=2.0, ridge=0.25)).verdict(ARMS)
    assert not verdict.proved
    assert "squared_radius of Mine is a set of your own" in verdict.doubt
    assert "meant for 95 % confidence but not proved" in str(verdict)


def test_each_set_says_what_it_assumes_and_whether_that_is_a_proof():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((1000, 2))
    rewards = features @ [0.3, 0.6] + 0.1 * rng.standard_normal(1000)
    found = {}
    for policy in SETS:
        agent = Agent(policy, dim=2)
        agent.observe(features, rewards)
        verdict = found[policy.name] = agent.verdict(ARMS, 0.1)
        assert verdict.radius == dataclasses.replace(policy, delta=0.1).radius(agent.state)[0]
        assert verdict.proved == (policy.ridge != "learned")
        assert ("sigma=" in verdict.assumes) == (policy.sigma != "unknown")
        bounded = policy.norm_bound != "unknown" and policy.ridge != "learned"
        assert ("norm_bound=1" in verdict.assumes) == bounded
        assert str(verdict).startswith(
            "Arm 1 is the best (" + ("90 %" if verdict.proved else "meant for 90 %")
        )
    plain, smaller, empirical, gaussian, strict, *_, learned, _ = found.values()
    assert smaller.radius < plain.radius
    assert plain.assumes == empirical.assumes
    assert "noise is Gaussian" in gaussian.assumes
    assert "strictly sub-Gaussian of one size" in strict.assumes
    assert "empirical Bayes" in learned.doubt


def test_where_nothing_is_known_the_words_say_why():
    early = Agent(LinMED(sigma="unknown"), dim=2).verdict(ARMS)
    assert (early.margin, early.decided, early.candidates) == (math.inf, False, (0, 1, 2))
    assert str(early).endswith("for too little is known after 0 rewards.")
    agent = Agent(LinMED(norm_bound="unknown"), dim=2)
    agent.observe(np.tile([1.0, 0.0], (500, 1)), np.full(500, 0.3))
    said = str(agent.verdict(ARMS))
    assert 'norm_bound is "unknown", and too little of some direction of the features' in said


def test_what_cannot_be_judged_says_what_could():
    with pytest.raises(BadType, match=r"EXP2 keeps no ridge estimate.*LinMED\(\), Pinpoint\(\)"):
        Agent(EXP2(), dim=2).verdict(ARMS)
    with pytest.raises(BadValue, match=r"the same at every δ.*LinUCB\(alpha=None\)"):
        Agent(LinUCB(alpha=0.5), dim=2).verdict(ARMS)
    agent = toy()
    before = {name: array.copy() for name, array in agent.state.arrays().items()}
    for field, arguments in {
        "arms": {"arms": [[1.0, 2.0, 3.0]]},
        "arms ": {"arms": []},
        "arms[0, 1]": {"arms": [[1.0, np.nan]]},
        "delta": {"delta": 0.0},
        "delta ": {"delta": 1.0},
        "delta  ": {"delta": "small"},
        "epsilon": {"epsilon": -0.1},
        "epsilon ": {"epsilon": np.inf},
    }.items():
        with pytest.raises((BadValue, BadType), match=field.strip().replace("[", r"\[")):
            agent.verdict(**{"arms": ARMS, **arguments})
    verdict = agent.verdict(ARMS)
    for bad in (3, -1, 1.0, True):
        with pytest.raises((BadValue, BadType), match="other"):
            verdict.difference(0, bad)
    for name, array in agent.state.arrays().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_verdict_is_of_its_moment_and_cannot_be_changed():
    agent = toy()
    verdict = agent.verdict(ARMS)
    before = verdict.difference(0, 2)
    agent.observe(ARMS, [5.0, -5.0, 0.0])
    assert verdict.difference(0, 2) == before
    assert verdict.count == 4
    with pytest.raises(AttributeError):
        verdict.best = 0


# Looks taken together


def noisy(theta, sigma, rounds, seed, arms=ARMS):
    rng = np.random.default_rng(seed)
    chosen = np.array(arms)[rng.integers(len(arms), size=rounds)]
    return chosen, chosen @ theta + sigma * rng.standard_normal(rounds)


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_looks_taken_together_never_take_anything_back(epsilon):
    taken_back = 0
    for seed in range(10):
        agent, verdicts = Agent(LinMED(sigma=0.5), dim=2), Verdicts(ARMS, 0.5, epsilon)
        before: Verdict | None = None
        single = set(range(3))
        for features, reward in zip(*noisy([0.3, 0.6], 0.5, 150, seed), strict=True):
            agent.observe(features, reward)
            now, alone = verdicts.look(agent), agent.verdict(ARMS, 0.5, epsilon)
            taken_back += not set(alone.candidates) <= single
            single = set(alone.candidates)
            assert set(now.candidates) <= set(alone.candidates)
            if before is not None:
                assert set(now.candidates) <= set(before.candidates)
                assert now.decided >= before.decided
                if before.decided:
                    assert (now.best, now.margin <= before.margin) == (before.best, True)
            before = now
        assert (verdicts.decided_after is not None) == before.decided
    assert taken_back > 0  # what single looks did


@dataclass(frozen=True)
class Python(RidgePolicy):
    """A rule that is not the core's."""

    def log_probabilities(self, state, arms):
        return np.full(arms.shape[:2], -math.log(arms.shape[1]))


@pytest.mark.parametrize("policy", [*SETS, Mine(), Python()], ids=lambda policy: policy.name)
def test_looking_after_every_reward_is_one_compiled_call(policy):
    for seed, epsilon in ((0, 0.0), (3, 0.02)):
        features, rewards = noisy([0.3, 0.6], 0.3, 200, seed)
        agent, slow = Agent(policy, dim=2), Verdicts(ARMS, 0.1, epsilon)
        for one, reward in zip(features, rewards, strict=True):
            agent.observe(one, reward)
            expected = slow.look(agent)
        quick, state = Verdicts(ARMS, 0.1, epsilon), policy.start(1, 2)
        for some in np.array_split(np.arange(200), 3):
            found = quick.learn(policy, state, features[some], rewards[some])
        assert (found.best, found.candidates, found.decided) == (
            expected.best,
            expected.candidates,
            expected.decided,
        )
        assert quick.decided_after == slow.decided_after
        assert found.margin == pytest.approx(expected.margin, abs=0.05)


def test_a_contradiction_is_said_loudly_and_stays():
    """The best arm changes, which a fixed θ* cannot explain: at some time nothing is left."""
    policy = LinMED(sigma=0.05)
    verdicts, state = Verdicts(np.eye(2)), policy.start(1, 2)
    one = np.tile(np.eye(2), (50, 1))
    won = verdicts.learn(policy, state, one, np.tile([0.9, 0.1], 50))
    assert (won.decided, won.best) == (True, 0)
    with pytest.warns(VerdictWarning, match=r"CONTRADICTION after 1,100 rewards.*sigma=0.05.*no verdict"):
        lost = verdicts.learn(policy, state, np.tile(one, (10, 1)), np.tile([0.1, 0.9], 500))
    assert (lost.decided, lost.contradicted, lost.candidates) == (False, True, ())
    assert verdicts.decided_after is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = verdicts.learn(policy, state, one, np.tile([0.9, 0.1], 50))
    assert again.contradicted
    assert "CONTRADICTION" in str(again)


def test_looks_must_be_at_the_same_data_by_the_same_set():
    agent, verdicts = toy(), Verdicts(ARMS)
    verdicts.look(agent)
    with pytest.raises(BadValue, match=r"agent: it has 0 rewards, an earlier look had 4"):
        verdicts.look(Agent(agent.policy, dim=2))
    with pytest.raises(BadValue, match="agent: earlier looks had the set"):
        verdicts.look(toy(LinMED(sigma=0.4, norm_bound=2.0, ridge=0.25)))
    with pytest.raises(BadValue, match="this has squared_radius of Mine"):
        verdicts.look(toy(Mine(sigma=0.5, norm_bound=2.0, ridge=0.25)))
    with pytest.raises(BadValue, match="dim=3"):
        verdicts.look(Agent(LinMED(), dim=3))
    with pytest.raises(BadType, match="agent must be an Agent"):
        verdicts.look("agent")
    for bad in ({"arms": []}, {"delta": 0.0}, {"epsilon": -1.0}):
        with pytest.raises((BadValue, BadType), match=next(iter(bad))):
            Verdicts(**{"arms": ARMS, **bad})


def test_looks_are_saved_without_pickle_and_go_on(tmp_path):
    policy = LinMED(sigma=0.3)
    features, rewards = noisy([0.3, 0.6], 0.3, 300, 4)
    for cut in (5, 290):
        verdicts, state = Verdicts(ARMS, 0.1), policy.start(1, 2)
        verdicts.learn(policy, state, features[:cut], rewards[:cut])
        verdicts.save(tmp_path / "asked")
        again, copy = Verdicts.load(tmp_path / "asked"), state.copy()
        np.load(tmp_path / "asked", allow_pickle=False).close()
        first = verdicts.learn(policy, state, features[cut:], rewards[cut:])
        second = again.learn(policy, copy, features[cut:], rewards[cut:])
        assert repr(first) == repr(second)
        assert verdicts.decided_after == again.decided_after
        with pytest.raises(BadValue, match="earlier look had"):
            Verdicts.load(tmp_path / "asked").look(Agent(policy, dim=2))
    for wrong in (b"", b"PK", (tmp_path / "asked").read_bytes()[:-30]):
        (tmp_path / "damaged").write_bytes(wrong)
        with pytest.raises(ValueError, match="damaged"):
            Verdicts.load(tmp_path / "damaged")
    meta = json.dumps({"format": 99}).encode()
    np.savez(tmp_path / "later.npz", meta=np.frombuffer(meta, dtype=np.uint8))
    with pytest.raises(ValueError, match="format 99"):
        Verdicts.load(tmp_path / "later.npz")


def test_a_winner_by_epsilon_is_not_called_the_best_when_another_is():
    arms = np.eye(2)
    agent, verdicts = Agent(LinMED(sigma=0.1), dim=2, seed=0), Verdicts(arms, epsilon=0.2)
    agent.observe(np.repeat(arms, 40, axis=0), np.repeat([0.5, 0.49], 40))
    assert verdicts.look(agent).decided
    agent.observe(np.repeat(arms, 3000, axis=0), np.repeat([0.45, 0.5], 3000))
    found = verdicts.look(agent)
    assert (found.best, found.candidates, found.decided) == (0, (1,), True)
    assert 0.0 < found.margin <= 0.2
    assert "good enough" in str(found)


def test_a_winner_that_turns_out_to_be_worse_by_more_than_epsilon_is_a_contradiction():
    arms = np.eye(2)
    agent, verdicts = Agent(LinMED(sigma=0.1), dim=2, seed=0), Verdicts(arms, epsilon=0.2)
    agent.observe(np.repeat(arms, 400, axis=0), np.repeat([0.5, 0.49], 400))
    assert verdicts.look(agent).best == 0
    agent.observe(np.repeat(arms, 9000, axis=0), np.repeat([0.0, 0.9], 9000))
    with pytest.warns(VerdictWarning, match="CONTRADICTION"):
        found = verdicts.look(agent)
    assert found.contradicted
    assert not found.decided
    assert verdicts.look(agent).contradicted  # and stays one


@pytest.mark.parametrize("size", [1.0, 1e7, 1e20, 1e100])
@pytest.mark.parametrize("told", [{"norm_bound": "unknown"}, {"sigma": "unknown"}, {"ridge": "learned"}])
def test_one_reward_of_zero_per_arm_decides_nothing(size, told):
    arms = size * np.eye(3)
    agent = Agent(LinMED(**told), dim=3, seed=1)
    agent.observe(arms, np.zeros(3))
    found = agent.verdict(arms)
    assert not found.decided
    assert len(found.candidates) == 3


def test_small_deltas_are_not_rounded_to_certainty():
    agent = Agent(LinMED(), dim=2, seed=0)
    agent.observe(np.eye(2), [1.0, 0.0])
    assert "99.99999 % confidence" in str(agent.verdict(np.eye(2), delta=1e-7))


@pytest.mark.parametrize("names", [5, "ab"])
def test_names_must_be_a_list(names):
    found = Agent(LinMED(), dim=2, seed=0).verdict(np.eye(2))
    with pytest.raises(TypeError, match="names must be a list"):
        found.sentence(names)
