"""What a policy's configuration accepts, refuses and offers."""

import inspect
import math
from dataclasses import fields

import numpy as np
import pytest

from linmed import policies
from linmed.policies import (
    OFUL,
    CatalogueMED,
    EpsilonGreedy,
    Forgetful,
    Greedy,
    LinMED,
    LinTS,
    LinUCB,
    LogisticMED,
    MaillardSampling,
    Policy,
    Uniform,
)
from linmed.policies.legends import policy_makers
from linmed.registry import parse
from linmed.validation import BadType, BadValue
from tests.policies.toy import chosen


@pytest.mark.parametrize("cls", policies.ALL, ids=lambda cls: cls.__name__)
def test_a_label_must_be_a_string(cls):
    with pytest.raises(BadType, match="label must be a string, got 3") as error:
        cls(label=3)
    assert error.value.field == "label"
    assert cls(label="mine").name == "mine"


@pytest.mark.parametrize("cls", policies.ALL, ids=lambda cls: cls.__name__)
def test_parameters_are_given_by_name(cls):
    with pytest.raises(BadType, match=f"{cls.__name__} takes its parameters by name .*label.*, got 0.05"):
        cls(*[Uniform()][: "inside" in {f.name for f in fields(cls)}], 0.05)


def test_only_policies_that_can_be_made_are_offered():
    with pytest.raises(BadValue, match="unknown policy 'LinMad'") as error:
        Policy.from_dict({"policy": "LinMad"})
    offered = str(error.value).partition("known are ")[2].split(", ")
    assert set(offered) >= {cls.__name__ for cls in policies.ALL}
    assert not set(offered) & {"DeterministicPolicy", "Floored", "MedPolicy", "RidgePolicy"}


def test_being_exported_makes_a_policy_known():
    exported = {
        name
        for name in policies.__all__
        if inspect.isclass(cls := getattr(policies, name))
        and issubclass(cls, Policy)
        and not inspect.isabstract(cls)
    }
    assert {cls.__name__ for cls in policies.ALL} == exported


@pytest.mark.parametrize(("alpha_emp", "alpha_opt"), [(0.99, 0.005), (0.9, 0.05), (0.5, 0.25), (1.0, 0.0)])
def test_the_designs_share_is_half_of_what_the_best_arm_leaves_unless_it_is_given(alpha_emp, alpha_opt):
    policy = LinMED(alpha_emp=alpha_emp)
    assert policy.design_share == pytest.approx(alpha_opt)
    assert (
        policy.name == LinMED(alpha_emp=alpha_emp, alpha_opt=alpha_opt).name == f"LinMED-{100 * alpha_emp:g}"
    )
    arms = np.random.default_rng(0).standard_normal((1, 12, 3))
    given = LinMED(alpha_emp=alpha_emp, alpha_opt=policy.design_share)
    state = policy.start(1, 3)
    np.testing.assert_array_equal(policy.log_probabilities(state, arms), given.log_probabilities(state, arms))


def test_shares_beyond_one_are_refused_by_name():
    with pytest.raises(
        BadValue, match=r"alpha_emp \+ alpha_opt must be at most 1, got 0.99 \+ 0.05"
    ) as error:
        LinMED(alpha_emp=0.99, alpha_opt=0.05)
    assert error.value.field == "alpha_opt"


def test_linucb_is_ofuls_index_with_ofuls_radius_or_a_fixed_one():
    rng = np.random.default_rng(1)
    arms = rng.standard_normal((40, 6, 3))
    oful, same, fixed = OFUL(), LinUCB(), LinUCB(alpha=0.3)
    state = oful.start(1, 3)
    oful.learn(state, rng.standard_normal((9, 3)), rng.standard_normal(9), np.zeros(9, dtype=np.int64))
    np.testing.assert_array_equal(chosen(oful, state, arms), chosen(same, state, arms))
    np.testing.assert_allclose(fixed.radius(state), 0.3, rtol=1e-15)
    width = np.sqrt(np.einsum("rki,ij,rkj->rk", arms, state.inverse[0], arms))
    index = np.einsum("rki,i->rk", arms, state.theta[0]) + 0.3 * width
    np.testing.assert_array_equal(chosen(fixed, state, arms), index.argmax(axis=1))
    with pytest.raises(BadValue, match="alpha must be positive"):
        LinUCB(alpha=-1.0)


def test_epsilon_greedy_explores_a_tenth_of_the_time():
    arms = np.eye(5)[None]
    state = EpsilonGreedy().start(1, 5)
    p = np.exp(EpsilonGreedy().log_probabilities(state, arms))
    np.testing.assert_allclose(p, [[0.92, 0.02, 0.02, 0.02, 0.02]])
    np.testing.assert_array_equal(p, np.exp(Greedy(epsilon=0.1).log_probabilities(state, arms)))


def test_maillard_sampling_checks_its_parameters():
    with pytest.raises(BadValue, match="sigma"):
        MaillardSampling(sigma=-1.0)


def test_a_policy_inside_another_can_be_written():
    makers = policy_makers()
    written = "Forgetful(LinMED-99(sigma=0.3), half_lives=['inf', 200], share=1e-3)"
    policy = Forgetful(LinMED(sigma=0.3, alpha_emp=0.99), half_lives=(math.inf, 200), share=1e-3)
    assert parse("policy", written, makers) == policy
    assert parse("policy", "Forgetful(base=LinTS-Bayes)", makers).base == LinTS(scale="bayes")
    assert parse("policy", "Forgetful(LinMED(label='LinTS, once'))", makers).base.label == "LinTS, once"
    for wrong, why in (
        ("LinMED(0.3)", "cannot be read"),
        ("LinMED(sigma=x)", "cannot be read"),
        ("LinMED(sigma=0.3, sigma=0.4)", "cannot be read"),
        ("LinMED(sigma=__import__('os'))", "cannot be read"),
        ("Forgetful(LinMED, OFUL)", "cannot be read"),
        ("Forgetful(Forgetful(LinMED))", "base must"),
        ("Forgetful(Nobody(sigma=1))", "cannot be read"),
        ("Forgetful(LinMED(colour='red'))", "has no parameter 'colour'"),
    ):
        with pytest.raises(ValueError, match=why):
            parse("policy", wrong, makers)


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: Forgetful(LinMED(), floor=0.1), r"policy, as in Forgetful\(LinMED\(floor=0.1\)\)"),
        (lambda: Greedy(floor=0.1), r"Greedy\(epsilon=0.1\)"),
        (lambda: Uniform(floor=0.1), "LinMED, LogisticMED, OFUL and LinTS"),
        (lambda: CatalogueMED(floor=0.1), "alpha_emp=0.5"),
        (lambda: LinMED(floor=1.5), r"floor must lie in \[0, 1\]"),
    ],
)
def test_where_no_floor_is_taken_the_error_says_what_to_do(make, advice):
    with pytest.raises((TypeError, ValueError), match=advice) as caught:
        make()
    assert caught.value.field == "floor"


def test_a_floor_is_mixed_in_exactly():
    arms, rng = np.random.default_rng(0).standard_normal((1, 6, 3)), np.random.default_rng(1)
    for make in (LinMED, LogisticMED, lambda **told: Forgetful(LogisticMED(**told))):
        plain, floored, all_alike = make(), make(floor=0.3), make(floor=1.0)
        state = plain.start(1, 3)
        plain.learn(state, arms[0], np.array([1.0, 0, 0, 1, 0, 1]), np.zeros(6, np.int64))
        own, mixed = (np.exp(policy.log_probabilities(state, arms)) for policy in (plain, floored))
        assert np.allclose(mixed, 0.7 * own + 0.3 / 6, rtol=1e-14, atol=0)
        assert np.allclose(all_alike.log_probabilities(state, arms), np.log(1 / 6), rtol=1e-14)
        noise = rng.random((50, 1))
        sets = np.repeat(arms, 50, axis=0)
        drawn, rule = floored.choose(state, sets, noise), plain.choose(state, sets, (noise - 0.3) / 0.7)
        evenly = noise[:, 0] < 0.3
        assert np.array_equal(drawn[~evenly], rule[~evenly])
        assert np.array_equal(drawn[evenly], (noise[evenly, 0] * 20).astype(int))
        assert "floor" not in plain.to_dict()
