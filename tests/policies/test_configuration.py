"""What a policy's configuration accepts, refuses and offers."""

import inspect
import math
from dataclasses import fields

import numpy as np
import pytest

from linmed import policies
from linmed.policies import (
    E2D,
    EXP2,
    OFUL,
    CatalogueMED,
    DLinUCB,
    Forgetful,
    Greedy,
    LinIMED,
    LinMED,
    LinTS,
    LinUCB,
    LogisticMED,
    MaillardSampling,
    Pinpoint,
    Policy,
    RandUCB,
    SpannerIGW,
    SquareCB,
    SWLinUCB,
    Uniform,
)
from linmed.policies.table import policy_makers
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
        cls(*[Uniform()][: "base" in {f.name for f in fields(cls)}], 0.05)


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


WRONG = [
    (LinMED, {"sigma": [0.0, -1.0], "norm_bound": [0], "ridge": [0.0, -1.0]}, "must be positive"),
    (LinMED, {"sigma": [math.nan, math.inf]}, "must be finite"),
    (LinMED, {"sigma": ["1", True, "unkown"], "norm_bound": ["learned"]}, "must be a number"),
    (LinMED, {"ridge": ["unknown"]}, "number or 'learned'"),
    (LinMED, {"delta": [0.0, 1.1], "alpha_emp": [-0.1], "alpha_opt": [-0.1], "floor": [1.5]}, "must lie in"),
    (LinMED, {"version": [2], "design": ["best"], "confidence": ["bayes"]}, "must be one of"),
    (LinMED, {"explore": [1], "intercept": ["yes"]}, "must be True or False"),
    (LinMED, {"tails": ["strict"], "reward_scale": [10.0]}, "sigma='unknown'"),
    (LinMED, {"reward_scale": [0.0]}, "positive"),
    (OFUL, {"floor": [-0.1, 1.1, "much"], "delta": [0.0], "sigma": [0.0]}, None),
    (Greedy, {"epsilon": [math.nan, -1]}, None),
    (Uniform, {"ridge": [-1.0]}, None),
    (LinUCB, {"alpha": [-1.0]}, None),
    (MaillardSampling, {"sigma": [-1.0]}, None),
    (Pinpoint, {"floor": [1.5], "delta": [0.0], "sigma": [-1.0]}, None),
    (LinIMED, {"version": [4, True], "C": [0.0, -1], "horizon": [0, 10.5]}, None),
    (RandUCB, {"points": [0, 2.0], "low": [1.0, -2.0], "spread": [0.0], "top": [1.5], "coupled": [1]}, None),
    (SquareCB, {"oracle": ["lasso"], "gamma": [0.0], "horizon": [0], "form": ["x"]}, None),
    (SquareCB, {"sigma": ["unknown"], "ridge": ["learned"]}, "give gamma"),
    (SpannerIGW, {"horizon": [-3], "C_opt": [0], "gamma": [math.inf], "regression_regret": [-1.0]}, None),
    (SpannerIGW, {"design": ["best"]}, None),
    (E2D, {"gamma": [0.0], "horizon": [0], "tol": [0.0, 2.0]}, None),
    (E2D, {"norm_bound": ["unknown"]}, "give gamma"),
    (E2D, {"intercept": [True]}, None),
    (CatalogueMED, {"intercept": [True]}, None),
    (EXP2, {"horizon": [0, "long"], "eta": [0.0], "gamma": [0.0, 1.0, -1]}, None),
    (LinTS, {"scale": ["huge", 0.0, -1.0, None], "propensity": [0, -5, 1.5, "some"]}, None),
    (LinTS, {"horizon": [2], "floor": [2.0]}, None),
    (
        DLinUCB,
        {"half_life": [0.0, math.inf], "sigma": ["unknown"], "arm_bound": [-1.0], "floor": [1.5]},
        None,
    ),
    (SWLinUCB, {"window": [0, 2.5], "delta": [0.0], "ridge": [0.0]}, None),
]
TOGETHER = [
    ("alpha_opt", "at most 1, got 0.99 \\+ 0.05", lambda: LinMED(alpha_emp=0.99, alpha_opt=0.05)),
    ("confidence", "leave it out", lambda: LinMED(sigma="unknown", confidence="mixture")),
    ("confidence", "leave it out", lambda: LinMED(ridge="learned", confidence="empirical")),
    ("tails", "not learned", lambda: LinMED(sigma="unknown", ridge="learned", tails="strict")),
    ("norm_bound", "leave it out", lambda: LinMED(ridge="learned", norm_bound=2.0)),
    ("design", "'approx'", lambda: LinMED(ridge="learned", design="warm")),
    ("design", None, lambda: LinMED(intercept=True, design="warm")),
    ("confidence", None, lambda: LinMED(intercept=True, confidence="empirical")),
    ("tails", None, lambda: LinMED(intercept=True, sigma="unknown", tails="strict")),
]


@pytest.mark.parametrize("cls", {cls: None for cls, _, _ in WRONG}, ids=lambda cls: cls.__name__)
def test_bad_parameters_are_named(cls):
    for kind, values, words in WRONG:
        for name, value in [(n, v) for n, each in values.items() for v in each if kind is cls]:
            with pytest.raises((ValueError, TypeError), match=words) as error:
                cls(**{name: value})
            assert name in str(error.value), value


def test_parameters_that_exclude_each_other_are_named():
    for name, words, make in TOGETHER:
        with pytest.raises(BadValue, match=words) as error:
            make()
        assert error.value.field == name


def test_names_follow_the_paper():
    assert LinMED(alpha_emp=0.99, alpha_opt=0.005).name == "LinMED-99"
    assert LinMED(alpha_emp=0.5, alpha_opt=0.25, delta=0.01).name == "LinMED-50 (delta=0.01)"
    assert LinMED(label="mine").name == "mine"
    assert (EXP2(horizon=10).name, EXP2().name) == ("EXP2", "EXP2-AT")
    assert [LinIMED(version=v).name for v in (1, 2, 3)] == ["LinIMED-1", "LinIMED-2", "LinIMED-3"]
    names = [LinTS(scale=s).name for s in ("frequentist", "bayes", "agrawal-goyal", "squared-radius", 2.0)]
    assert names == ["LinTS-Freq", "LinTS-Bayes", "LinTS-AG", "LinTS-Squared", "LinTS (scale=2.0)"]
