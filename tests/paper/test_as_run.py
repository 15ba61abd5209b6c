"""The as-run variant does what the authors' public code does, probabilities of every decision included."""

import os

import numpy as np
import pytest

from linmed.core import core
from linmed.environments import Delayed, Environment, FixedArms
from linmed.environments.base import Block
from linmed.paper import EXPERIMENTS
from linmed.paper.as_run import (
    Exp2AsRun,
    LinImedAsRun,
    LinMedAsRun,
    LinTsAsRun,
    OfulAsRun,
    SpannerIgwAsRun,
)
from linmed.paper.offline_evaluation import SAMPLES, Logs, kept
from linmed.paper.roster import AS_RUN, LINMED, policies
from linmed.policies import EXP2, OFUL, LinIMED, LinTS, Policy, SpannerIGW
from linmed.simulation import simulate

REAL = os.environ.get("LINMED_ML100K")
FIVE = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.1, 0.1], [0.5, 0.5]])
EVEN_FIRST = ("OFUL", "LinTS-Freq", "LinTS-Bayes", "LinIMED-1", "LinIMED-3", "LinMEDNOPT")


def as_run(name, sigma=1.0, horizon=1000):
    return policies((name,), sigma, horizon, "as-run")[0]


def law(policy, state, arms):
    return np.exp(policy.log_probabilities(state, np.asarray(arms, dtype=float)[None]))


def design(arms):
    sets = np.array(arms, dtype=float)[None]
    weights = np.empty(sets.shape[:2])
    core.centred_design(sets, weights)
    return weights[0]


def after(policy, *observations):
    """The state after these pairs of an arm and its reward."""
    arms, rewards = zip(*observations, strict=True)
    state = policy.start(1, len(arms[0]))
    policy.learn(state, np.array(arms, dtype=float), np.array(rewards), np.zeros(len(rewards), np.int64))
    return state


# ---- the first round


@pytest.mark.parametrize("name", EVEN_FIRST)
def test_the_first_arm_is_drawn_evenly(name):
    policy = as_run(name)
    np.testing.assert_allclose(law(policy, policy.start(1, 2), FIVE), 0.2, rtol=1e-12)


def test_the_first_round_of_linmed_leaves_out_the_empirically_best_arm():
    for name, alpha_opt in zip(LINMED, (0.005, 0.05, 0.25), strict=True):
        policy = as_run(name)
        due = alpha_opt * design(FIVE) + (1.0 - alpha_opt) / 5
        np.testing.assert_allclose(law(policy, policy.start(1, 2), FIVE)[0], due, rtol=1e-12)
    assert design(FIVE).tolist() == [0.25, 0.25, 0.25, 0.25, 0.0]


@pytest.mark.parametrize("name", ["SpannerIGW", "SpannerIGW-AT", "EXP2"])
def test_the_first_round_of_design_policies_is_their_design(name):
    policy = as_run(name)
    np.testing.assert_allclose(law(policy, policy.start(1, 2), FIVE)[0], design(FIVE), rtol=1e-12)


@pytest.mark.parametrize("name", [*EVEN_FIRST, *LINMED, "SpannerIGW", "EXP2"])
def test_arms_come_as_often_as_their_probabilities_say(name):
    policy, n = as_run(name), 4000
    state = policy.start(n, 2)
    noise = policy.draw_noise(np.random.default_rng(5), (n,), 2)
    choice = policy.decide(state, FIVE[None], noise)
    probability = law(policy, policy.start(1, 2), FIVE)[0]
    np.testing.assert_allclose(np.exp(choice.log_probability), probability[choice.arm], rtol=1e-9)
    share = np.bincount(choice.arm, minlength=5) / n
    np.testing.assert_allclose(share, probability, atol=4.5 * np.sqrt(0.25 / n))
    np.testing.assert_array_equal(choice.arm, policy.choose(policy.start(n, 2), FIVE[None], noise))


SEEN = ([1.0, 0.0], 1.0), ([0.0, 1.0], 0.2), ([1.0, 0.0], 0.6)


@pytest.mark.parametrize(
    ("own", "public"),
    [
        (OfulAsRun(delta=0.1), OFUL(delta=0.1)),
        (LinImedAsRun(delta=0.1), LinIMED(delta=0.1)),
        (LinTsAsRun(scale="squared-radius", delta=0.1), LinTS(scale="squared-radius", delta=0.1)),
    ],
)
def test_after_the_first_round_the_rule_is_the_public_one(own, public):
    toy = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    np.testing.assert_allclose(law(own, after(own, *SEEN), toy), law(public, after(public, *SEEN), toy))
    both = own.start(2, 2)  # one replica has a reward, the other has none
    own.learn(both, np.array([[1.0, 0.0]]), np.array([1.0]), np.array([0]))
    np.testing.assert_allclose(law(own, both, toy)[1], 1 / 3)
    np.testing.assert_allclose(law(own, both, toy)[0], law(public, after(public, SEEN[0]), toy)[0])


def test_thompson_samplings_probabilities_are_those_of_the_specification():
    policy = LinTsAsRun(scale="squared-radius", delta=0.1)
    found = law(policy, after(policy, *SEEN), [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    np.testing.assert_allclose(found[0], [0.46371214, 0.40023111, 0.13605675], atol=1e-7)


# ---- the centred design


def test_an_axis_of_little_variance_is_lost_whatever_else_it_is_needed_for():
    assert design([[1, 0], [-1, 0], [0, 1e-4]]).tolist() == [0.5, 0.5, 0.0]


def test_leverages_are_looked_at_in_the_wrong_space():
    arms = np.array(
        [(1, 10, 11), (1, 10, -3), (1, 4, -3), (1, 4, 10), (1, 4, 6), (1, 7, 2)], dtype=np.float64
    )
    weights = design(arms)
    np.testing.assert_allclose(weights, [1 / 3, 1 / 3, 0, 1 / 3, 0, 0])
    inverse = np.linalg.inv((arms.T * weights) @ arms)
    assert np.einsum("ki,ij,kj->k", arms, inverse, arms).max() == pytest.approx(8.173, abs=5e-4)


@pytest.mark.parametrize("arms", [[[1, 0], [0, 1]], [[1.0, 0.0]], [[1, 2], [1, 2], [1, 2]], np.eye(5)])
def test_few_arms_count_alike(arms):
    np.testing.assert_allclose(design(arms), 1 / len(arms))


def test_copies_of_an_arm_get_nothing():
    assert design([[1, 0], *[[0, 1]] * 7]).tolist() == [0.5, 0.5, 0, 0, 0, 0, 0, 0]


def spelled_out(arms):
    """The design step by step, with numpy's eigenvectors; and how many arms the greedy loop adds."""
    K = len(arms)
    variances, axes = np.linalg.eig(np.cov(arms, rowvar=False))
    X = np.real(arms @ axes[:, np.abs(variances) > 1e-6])
    if K <= 2 * X.shape[1]:
        return np.full(K, 1.0 / K), 0
    left, listed = np.eye(X.shape[1]), set()
    for axis in range(X.shape[1]):
        along = X @ left[axis]
        top, bottom = along.argmax(), along.argmin()
        listed |= {top, bottom}
        direction = left @ (X[top] - X[bottom])
        left = left - np.outer(direction, direction) / (direction @ direction)
    listed = sorted(listed)
    spanning = len(listed)
    V = X[listed].T @ X[listed]
    leverage = np.einsum("ki,ij,kj->k", X, np.linalg.inv(V), X)
    while leverage.max() > 1.0 + 1e-9:
        V = V + np.outer(X[leverage.argmax()], X[leverage.argmax()])
        leverage = np.einsum("ki,ij,kj->k", X, np.linalg.inv(V), X)
        listed.append(leverage.argmax())  # the next one, not the one that was added
    return np.bincount(listed, minlength=K) / len(listed), len(listed) - spanning


@pytest.mark.parametrize(("K", "d"), [(3, 2), (10, 2), (500, 2), (10, 4), (40, 4)])
def test_the_design_is_that_of_the_steps_spelled_out(K, d):
    rng = np.random.default_rng(K)
    added = 0
    for _ in range(50):
        arms = rng.normal(size=(K, d)) * (rng.random((K, 1)) ** 3 + 1e-3)
        due, additions = spelled_out(arms)
        np.testing.assert_allclose(design(arms), due, atol=1e-12)
        added += additions
    assert added or K < 40  # the list is off by one only where the greedy loop runs


# ---- LinMED, SpannerIGW and EXP2 after the first round


def test_linmed_rescales_the_arms_of_the_centred_design():
    policy = LinMedAsRun(alpha_emp=0.5, delta=0.01)
    state = after(policy, *SEEN * 20)
    theta, inverse, beta = state.theta[0], state.inverse[0], policy.radius(state)[0] ** 2
    means = FIVE @ theta
    best = means.argmax()
    apart = FIVE - FIVE[best]
    distance = np.einsum("ki,ij,kj->k", apart, inverse, apart)
    f = np.exp(-((means[best] - means) ** 2) / (beta * np.where(distance > 0, distance, 1.0)))
    p = 0.25 * spelled_out(FIVE * np.sqrt(f)[:, None])[0] + 0.25 / 5
    p[best] += 0.5
    np.testing.assert_allclose(law(policy, state, FIVE)[0], p * f / (p @ f), rtol=1e-9)


@pytest.mark.parametrize("horizon", [None, 1000])
def test_spanner_shrinks_its_arms_by_the_round_before(horizon):
    policy = SpannerIgwAsRun(horizon=horizon, delta=0.01)
    state = after(policy, *SEEN)

    def eta(n):
        return np.sqrt(8.0 * n / (2.0 * np.log(n) + 32.0 * np.log(200.0))) / 8.0

    before, now = (eta(4), eta(5)) if horizon is None else (eta(horizon), eta(horizon))
    means = FIVE @ state.theta[0]
    gap = means.max() - means
    q = 0.5 * spelled_out(FIVE / np.sqrt(1.0 + before * gap)[:, None])[0]
    q[gap.argmin()] += 0.5
    found = law(policy, state, FIVE)[0]
    normaliser = q[found > 0] / found[found > 0] - now * gap[found > 0]
    np.testing.assert_allclose(normaliser, normaliser[0], rtol=1e-9)  # λ, the same for every arm
    assert 0.5 <= normaliser[0] <= 1.0
    assert found.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(policy.exploration(state), 8.0 * now)
    if horizon is None:
        assert policy.exploration(state) > SpannerIGW(delta=0.01).exploration(state)


def test_exp2_adds_the_identity_to_q_and_shrinks_every_estimate():
    policy = Exp2AsRun()
    arms = np.eye(2)[None]
    state = policy.start(1, 2)
    lesson = policy.features(state, arms, np.array([0]))
    np.testing.assert_allclose(lesson, [[1 / 1.5, 0.0]])  # unbiased it would be 1/0.5
    policy.learn(state, lesson, np.array([3.0]), np.array([0]))
    eta = np.sqrt(np.log(2) / (3 * 2 * 3))  # t + 1 = 3 in the second round
    weight = np.exp(eta * np.array([2.0, 0.0]))
    due = 2 * eta / 2 + (1 - 2 * eta) * weight / weight.sum()
    np.testing.assert_allclose(law(policy, state, arms[0])[0], due)
    np.testing.assert_allclose(policy.features(state, arms, np.array([1])), [[0.0, 1 / (1 + due[1])]])
    with pytest.raises(ValueError, match="same arms"):
        policy.choose(state, arms[:, ::-1].copy(), np.array([[0.5]]))


def test_exp2_plays_whole_trials():
    problem = FixedArms(np.eye(2), theta=[1.0, 0.0], sigma=1.0)
    shrunk, unbiased = Exp2AsRun(label="as run"), EXP2(label="text")
    results = simulate([shrunk, unbiased], problem, 400, 20, workers=1)
    assert results.final("as run").mean() > results.final("text").mean()  # slower to believe what it sees


# ---- delays


class Recorder(OfulAsRun):
    """Notes in which order and with which features rewards are learned."""

    heard: list = []  # noqa: RUF012

    def learn(self, state, features, rewards, replicas):
        self.heard.append((features.copy(), rewards.copy()))
        super().learn(state, features, rewards, replicas)


class Numbered(Environment):
    """One arm: t in round t, which pays t; one round later it reads −(t + 1)."""

    block_rounds = 5

    def blocks(self, rng):
        first = 1
        while True:
            t = np.arange(first, first + 5.0)
            arms = t[:, None, None]
            yield Block(arms, t[:, None], np.zeros(5), overwritten=-(arms + 1.0))
            first += 5


@pytest.mark.parametrize("copies", [True, False])
def test_rewards_are_learned_when_t_mod_d_is_one(copies):
    Recorder.heard = []
    policy = Recorder(keeps_copies=copies)
    simulate([policy], Delayed(Numbered(), rounds=4, mode="batch"), 10, 1, workers=1)
    features = np.concatenate([features for features, _ in Recorder.heard]).ravel()
    rewards = np.concatenate([rewards for _, rewards in Recorder.heard])
    assert rewards.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]  # after rounds 1, 5 and 9; the tenth never arrives
    if copies:
        assert features.tolist() == rewards.tolist()
    else:  # what is learned in its own round has not been overwritten yet
        assert features.tolist() == [1, -3, -4, -5, 5, -7, -8, -9, 9]


def test_without_delay_nothing_is_overwritten():
    Recorder.heard = []
    own = simulate([OfulAsRun(keeps_copies=False)], Numbered(), 10, 2, workers=1)
    copying = simulate([OfulAsRun(keeps_copies=True)], Numbered(), 10, 2, workers=1)
    np.testing.assert_array_equal(
        next(iter(own.runs.values())).regret, next(iter(copying.runs.values())).regret
    )


def test_only_some_trials_overwritten_is_an_error():
    class Sometimes(Numbered):
        def blocks(self, rng):
            some = rng.random() < 0.5
            for block in super().blocks(rng):
                yield block._replace(overwritten=block.overwritten if some else None)

    with pytest.raises(ValueError, match="overwritten of shape"):
        simulate([OFUL()], Delayed(Sometimes(), rounds=4), 10, 20, workers=1)


def settings(variant):
    return {s.key: s for s in EXPERIMENTS["delayed-rewards"].plan("paper", variant).settings}


def test_three_versions_of_the_delay_experiment_stand_in_both_variants():
    text, run = settings("text"), settings("as-run")
    for D in (0, 10, 20):
        pairs = {
            "text": (text[D,], run["text", D]),
            "copied": (text["copied", D], run["copied", D]),
            "overwritten": (text["overwritten", D], run[D,]),
        }
        for version, (one, other) in pairs.items():
            assert one.environment.identity() == other.environment.identity()
            assert one.policies == other.policies
            copies = [policy.keeps_copies for policy in one.policies]
            assert copies == ([False, False, True, True, True] if version == "overwritten" else [True] * 5)
    assert all(s.drawn == (len(key) == 1) for found in (text, run) for key, s in found.items())
    assert len(text) == len(run) == 9 + 3  # and LinTS-Freq, which the paper leaves out


@pytest.mark.parametrize("version", ["copied", "overwritten"])
def test_the_delay_experiment_runs_on_generated_films(version):
    setting = settings("text")[version, 20]
    results = simulate(setting.policies, setting.environment, 300, 3, workers=1)
    assert results.names == ["OFUL", "LinTS-Bayes", *LINMED]
    assert all(np.isfinite(results.final(name)).all() for name in results.names)


TABLE = {
    0: {"OFUL": 117, "LinTS-Bayes": 50, "LinMED-99": 53, "LinMED-90": 113, "LinMED-50": 199},
    10: {"OFUL": 330, "LinTS-Bayes": 108},
    20: {"OFUL": 591, "LinTS-Bayes": 184},
}
"""Mean final regret of an independent rerun, features copied."""


@pytest.mark.skipif(REAL is None, reason="LINMED_ML100K names no ml-100k directory")
def test_the_published_problem_gives_the_regrets_of_an_independent_rerun():
    plan = EXPERIMENTS["delayed-rewards"].plan("paper", "as-run", movielens=REAL)
    for D, due in TABLE.items():
        setting = next(s for s in plan.settings if s.key == ("copied", D))
        some = [policy for policy in setting.policies if policy.name in due]
        results = simulate(some, setting.environment, 5_000, 40, workers=1)
        for name, regret in due.items():
            assert results.final(name).mean() == pytest.approx(regret, rel=0.2)


@pytest.mark.skipif(REAL is None, reason="LINMED_ML100K names no ml-100k directory")
def test_overwritten_features_ruin_oful_and_thompson_sampling():
    plan = EXPERIMENTS["delayed-rewards"].plan("paper", "as-run", movielens=REAL)
    setting = next(s for s in plan.settings if s.key == (20,))
    results = simulate(setting.policies[:2], setting.environment, 5_000, 20, workers=1)
    assert results.final("OFUL").mean() > 1_500
    assert results.final("LinTS-Bayes").mean() > 1_000


# ---- offline evaluation, and all of it


def test_the_first_rounds_propensity_is_known_as_run():
    job = Logs.of("as-run", 4, seed=0, trials=3)
    assert isinstance(job.linmed, LinMedAsRun)
    assert isinstance(job.lints, LinTsAsRun)
    assert (job.linmed.alpha_emp, job.linmed.design_share) == (0.5, 0.5)
    probability = job.log(job.lints).probability
    np.testing.assert_allclose(probability[:, 0], 0.5)
    for M in SAMPLES:
        np.testing.assert_allclose(job.counts(M, probability)[:, 0], M / 2)
    probability = job.log(job.linmed).probability
    np.testing.assert_allclose(probability[:, 0], 0.5)


def test_scores_beyond_two_are_dropped_from_histograms_as_run_alone():
    scores = np.array([-3.0, -1.0, 0.8, 1.9, 2.1, 40.0])
    assert kept(scores, "as-run").tolist() == [-1.0, 0.8, 1.9]
    assert kept(scores, "text").tolist() == scores.tolist()


def test_as_run_policies_are_no_options_of_the_public_ones():
    for name, (cls, _) in AS_RUN.items():
        assert cls.__module__ == "linmed.paper.as_run", name
        policy = as_run(name)
        assert Policy.from_dict(policy.to_dict()) == policy


@pytest.mark.parametrize("name", [name for name, e in EXPERIMENTS.items() if not e.ours])
def test_every_experiment_says_what_the_public_code_does_and_runs_as_run(name, tmp_path):
    experiment = EXPERIMENTS[name]
    assert experiment.differences
    plan = experiment.plan("quick", "as-run", horizon=25, trials=2)
    for setting in plan.settings:
        results = simulate(setting.policies, setting.environment, 25, 2, workers=1)
        assert all(np.isfinite(results.final(policy)).all() for policy in results.names)
