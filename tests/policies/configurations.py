"""Configurations, one line each, and shapes of arm sets, which the contract suite runs over.

A policy's default configuration joins by being exported from linmed.policies. Shapes take the kernels through
each of their paths. `CASES` and `SOME` are covering arrays: what is made of the same parts runs once.
"""

import inspect
import math
from functools import cache
from typing import NamedTuple

import numpy as np

import linmed.policies as policies
from linmed.policies import (
    E2D,
    EXP2,
    GLMMED,
    OFUL,
    CatalogueGLMMED,
    CatalogueMED,
    Disjoint,
    DLinUCB,
    Forgetful,
    Greedy,
    Hybrid,
    Limits,
    LinIMED,
    LinMED,
    LinMEDNoDesign,
    LinTS,
    LogisticMED,
    LogisticTS,
    LogisticUCB,
    MaillardSampling,
    Pinpoint,
    Policy,
    RandUCB,
    SpannerIGW,
    SquareCB,
    SWLinUCB,
    Uniform,
)
from linmed.policies.per_item import ModelPolicy
from linmed.policies.thompson import Sampled
from tests.covering import cover


def exported():
    """The defaults of every policy that can be imported; a Budget's decisions need costs: test_budget."""
    found = [getattr(policies, name) for name in policies.__all__]
    classes = [one for one in found if inspect.isclass(one) and issubclass(one, Policy)]
    classes = [cls for cls in dict.fromkeys(classes) if cls is not policies.Budget]
    return [cls() for cls in classes if not inspect.isabstract(cls)]


DEFAULTS = exported()
CONFIGURATIONS = [
    *DEFAULTS,
    LinMED(version=1),
    LinMED(design="optimal"),
    LinMED(design="warm"),
    LinMED(version=1, design="optimal"),
    LinMED(explore=False),
    LinMED(alpha_emp=0.99, alpha_opt=0.005),
    LinMED(alpha_emp=0.5, alpha_opt=0.25),
    LinMED(alpha_emp=0.0, alpha_opt=1.0),
    LinMED(delta=0.01, ridge=0.3),
    LinMED(sigma=0.1, norm_bound=3.0),
    LinMED(confidence="mixture"),
    LinMED(confidence="empirical", sigma=0.5),
    LinMED(norm_bound="unknown"),
    LinMED(sigma="unknown"),
    LinMED(sigma="unknown", norm_bound="unknown"),
    LinMED(sigma="unknown", tails="strict"),
    LinMED(ridge="learned"),
    LinMED(sigma="unknown", ridge="learned"),
    LinMED(sigma="unknown", design="warm"),
    LinMED(sigma="unknown", ridge="learned", intercept=True),
    LinMED(sigma=0.3, intercept=True),
    LinTS(scale="bayes", sigma="unknown", ridge="learned", intercept=True, floor=0.1),
    LinMED(floor=0.2, sigma=0.3),
    LinMED(floor=0.1, design="warm", explore=False),
    LinMEDNoDesign(sigma=0.1),
    CatalogueMED(sigma="unknown", alpha_emp=0.5, version=1),
    CatalogueMED(alpha_emp=0.0, alpha_opt=1.0, sigma=0.1, explore=False),
    MaillardSampling(sigma=0.5),
    OFUL(floor=0.1),
    Pinpoint(floor=0.0),
    Pinpoint(sigma=0.1, delta=None, floor=0.5),
    OFUL(delta=0.05, sigma=0.2),
    OFUL(sigma="unknown", norm_bound="unknown"),
    OFUL(sigma="unknown", ridge="learned", floor=0.1),
    DLinUCB(sigma=0.2, half_life=5.0, delta=0.05, floor=0.1),
    SWLinUCB(sigma=0.2, window=4, delta=0.05, floor=0.1),
    LinIMED(version=2),
    LinIMED(version=2, horizon=1000),
    LinIMED(version=3, floor=0.05),
    LinIMED(version=3, C=2.0),
    LinIMED(version=3, sigma="unknown", norm_bound="unknown"),
    RandUCB(coupled=False),
    RandUCB(coupled=False, low=-1.0, floor=0.1),
    RandUCB(points=1),
    RandUCB(sigma="unknown", norm_bound="unknown"),
    RandUCB(low=-1.0, spread=0.5, top=0.1),
    SquareCB(oracle="vaw"),
    SquareCB(form="normalised"),
    SquareCB(horizon=1000, delta=0.1),
    SquareCB(oracle="vaw", form="normalised", gamma=30.0),
    SpannerIGW(design="optimal", C_opt=1.0),
    SpannerIGW(horizon=1000, floor=0.1),
    SpannerIGW(gamma=50.0),
    E2D(gamma=3.0),
    E2D(horizon=1000, floor=0.1),
    EXP2(horizon=1000),
    EXP2(eta=0.05, gamma=0.2),
    LinTS(scale="bayes"),
    LinTS(scale="agrawal-goyal"),
    LinTS(scale="agrawal-goyal", horizon=1000, delta=0.1),
    LinTS(scale="squared-radius"),
    LinTS(scale=0.5),
    LinTS(floor=0.1),
    LinTS(sigma="unknown", norm_bound="unknown"),
    LinTS(scale="bayes", sigma="unknown", ridge="learned"),
    LinTS(scale="squared-radius", sigma="unknown", norm_bound="unknown"),
    LinTS(propensity=2000),
    LinTS(propensity=2000, floor=0.2),
    GLMMED(family="gaussian", norm_bound=1.0, intercept=False),
    GLMMED(family="poisson", norm_bound=1.0, version=1),
    LogisticMED(norm_bound=3.0, confidence="certified"),
    LogisticMED(ridge=0.5, design="optimal", explore=True, intercept=False, delta=0.05),
    LogisticMED(norm_bound=2.0, floor=0.1),
    LogisticUCB(norm_bound=2.0, floor=0.1),
    LogisticTS(norm_bound=2.0, floor=0.1),
    Greedy(epsilon=0.1),
    Forgetful(LinMED(sigma=0.3), half_lives=(20, 5), combine="mixture"),
    Forgetful(LinMED(sigma="unknown", norm_bound="unknown"), half_lives=(math.inf, 10)),
    Forgetful(LinMED(sigma="unknown", ridge="learned"), half_lives=(math.inf, 10), share=0.01),
    Forgetful(LinMED(sigma=0.3, floor=0.2), half_lives=(20, 5), combine="mixture"),
    Forgetful(LogisticMED(norm_bound=2.0, floor=0.2), half_lives=(math.inf, 10)),
    Forgetful(LinTS(), half_lives=(math.inf, 5)),
    Forgetful(LinTS(scale="bayes", ridge="learned"), half_lives=(math.inf, 5)),
    Forgetful(OFUL(sigma=0.5, floor=0.1), alarm=0.5),
    Forgetful(OFUL(), half_lives=(math.inf, 3), combine="mixture"),
    Forgetful(E2D(gamma=3.0), half_lives=(math.inf, 5)),
    Disjoint(OFUL(sigma=0.5, floor=0.1)),
    Disjoint(LinMED(sigma="unknown", version=1)),
    Disjoint(LinMED(floor=0.2)),
    Hybrid(LinMED(sigma=0.3, confidence="empirical"), shared=2),
    Hybrid(RandUCB(coupled=False)),
    Disjoint(LinTS(floor=0.1)),
    Disjoint(LinTS(scale="bayes", propensity=2000)),
    Hybrid(LinTS(scale="bayes")),
    Hybrid(Pinpoint(sigma=0.3)),
    Forgetful(LogisticMED(), half_lives=(math.inf, 10)),
    Forgetful(LogisticMED(norm_bound=2.0, intercept=False), half_lives=(20, 5), combine="mixture"),
    Forgetful(GLMMED(family="poisson", norm_bound=1.0), half_lives=(math.inf, 5), alarm=0.5),
    Forgetful(LogisticUCB(norm_bound=2.0, floor=0.1), half_lives=(math.inf, 5)),
    Forgetful(LogisticTS(norm_bound=2.0, floor=0.1), half_lives=(math.inf, 5)),
    Disjoint(LinMED(sigma="unknown", ridge="learned")),
    Hybrid(OFUL(sigma=0.3, ridge="learned", floor=0.1)),
    Disjoint(LogisticMED()),
    Hybrid(LogisticMED(norm_bound=2.0, floor=0.1, version=1)),
    Hybrid(GLMMED(family="poisson", norm_bound=1.0, intercept=False)),
    Hybrid(LogisticUCB(floor=0.1)),
    Disjoint(LogisticTS(floor=0.1)),
    Disjoint(Forgetful(LinMED(sigma="unknown", ridge="learned"), half_lives=(math.inf, 10))),
    Hybrid(Forgetful(LinMED(sigma=0.3, floor=0.1), half_lives=(20, 5), combine="mixture")),
    Disjoint(Forgetful(OFUL(sigma=0.3), half_lives=(math.inf, 5))),
    Hybrid(Forgetful(LogisticMED(), half_lives=(math.inf, 5))),
    Disjoint(Forgetful(LinTS(scale="bayes", ridge="learned"), half_lives=(math.inf, 5))),
    Disjoint(Forgetful(LogisticTS(norm_bound=2.0, floor=0.1), half_lives=(math.inf, 5))),
    Limits(LinMED(sigma=0.3, version=1), floors={0: 0.2, "odd": 0.3}, groups={"odd": [1, 3, 5]}),
    Limits(OFUL(sigma=0.3), caps={1: 0.1, 2: 0.4}),
    Limits(LinMED(sigma=0.3), floors=1e-5),
    Limits(LinTS(scale="bayes"), floors={2: 0.1}, caps={1: 0.1}),
    Limits(Forgetful(LinMED(), half_lives=(20, 5), combine="mixture"), floors={0: 0.1}),
    Limits(Disjoint(LogisticMED()), floors={1: 0.1}, caps={2: 0.2}),
    CatalogueGLMMED(norm_bound=2.0, explore=True, version=1),
    Uniform(ridge=2.0),
]


def short(value):
    """The name of a configuration or a shape, for the ids of tests."""
    return value.name


class Shape(NamedTuple):
    """A set of arms: how many, of what dimension, and what is special about it."""

    name: str
    arms: int
    dim: int
    rank: int | None = None
    """Of the arms, where it is smaller than the dimension."""
    copies: int = 1
    """How often each arm occurs."""


FEW = Shape("few", 7, 3)
SHAPES = [
    FEW,
    Shape("one arm", 1, 3),
    Shape("one feature", 9, 1),
    Shape("tiled", 50, 4),
    Shape("two tiles", 150, 4),
    Shape("BLAS", 41, 17),
    Shape("no more than 2d arms", 12, 18),
    Shape("in a plane", 14, 5, rank=2),
    Shape("rank 3 of 17", 40, 17, rank=3),
    Shape("copies", 24, 4, copies=2),
]
BEYOND = Shape("beyond 2 MiB", (1 << 14) + 7, 17)
"""So many numbers that the kernels read them where they stand and look at them in single precision first."""


def innermost(policy):
    """The policy inside all others."""
    return innermost(policy.base) if hasattr(policy, "base") else policy


def takes_one_hot(policy):
    """Whether the policy knows arms by their index only."""
    return isinstance(policy, MaillardSampling)


def estimates_propensity(policy):
    """Whether the policy, or the one inside it, logs an estimate from draws instead of a probability."""
    return getattr(innermost(policy), "propensity", "exact") != "exact"


def fits(policy, shape):
    """Whether the policy answers for sets of this shape within milliseconds."""
    if shape is BEYOND and isinstance(policy, ModelPolicy):
        return False  # so many arms of few models need a design in a space of many dimensions
    policy = innermost(policy)
    optimal = getattr(policy, "design", "approx") == "optimal"
    if shape is not BEYOND:
        return not (optimal and shape.arms > 100)
    quadratic = not getattr(policy, "coupled", True)
    return not (optimal or quadratic or isinstance(policy, (E2D, EXP2, Sampled, MaillardSampling)))


def make_arms(policy, rng, replicas=1, arms=FEW.arms, dim=FEW.dim):
    """Arms this policy accepts, with at most 2·dim of them where a design would have to break ties."""
    if takes_one_hot(policy):
        return np.broadcast_to(np.eye(arms), (replicas, arms, arms)).copy()
    sets = rng.standard_normal((replicas, arms, dim))
    return taken(policy, sets / np.linalg.norm(sets, axis=2, keepdims=True) * 0.9)


def taken(policy, sets):
    """The sets (n,K,d) as this policy takes them: with numbers of models in column 0, where it wants them."""
    return np.stack([policy.like(arms) for arms in sets])


def shaped_arms(policy, shape, rng, replicas):
    """Arms of this shape (replicas,K,d)."""
    distinct = make_arms(policy, rng, replicas, -(-shape.arms // shape.copies), shape.dim)
    if shape.rank is not None and not takes_one_hot(policy):
        basis = rng.standard_normal((shape.rank, shape.dim))
        mixture = rng.standard_normal((replicas, distinct.shape[1], shape.rank))
        parts = [mixture[:, :, [k]] * basis[k] for k in range(shape.rank)]
        distinct = taken(policy, sum(parts) / (shape.rank * shape.dim) ** 0.5)
    return np.tile(distinct, (1, shape.copies, 1))[:, : shape.arms].copy()


def noise_for(policy, dim, rng, replicas):
    return policy.draw_noise(rng, (replicas,), dim)


def acceptable(policy, rewards):
    """Rewards that this policy learns from: or 0 and 1 by their signs where they are no clicks or counts."""
    rewards = np.asarray(rewards)
    return np.where(policy.accepts(rewards), rewards, (rewards > 0.0).astype(np.float64))


def warmed_up(policy, arms, rng, rounds=25):
    """A state after some rounds of the policy's own decisions; θ* is the first unit vector."""
    replicas, _, dim = arms.shape
    state = policy.start(replicas, dim)
    for _ in range(rounds):
        played = policy.choose(state, arms, noise_for(policy, dim, rng, replicas))
        features = policy.features(state, arms, played)
        rewards = arms[np.arange(replicas), played, 0] + 0.5 * rng.standard_normal(replicas)
        policy.learn(state, features, acceptable(policy, rewards), np.arange(replicas))
    return state


def rows_of(state, policy, rows):
    """A state of these replicas alone."""
    part = policy.start(len(rows), state.dim)
    part.restore({name: array[rows] for name, array in state.arrays().items()})
    return part


@cache
def situation(policy, shape, replicas=3):
    """A set of arms for each replica and a state after a few rounds; not to be written to."""
    rng = np.random.default_rng(shape.arms + shape.dim)
    arms = shaped_arms(policy, shape, rng, replicas)
    state = warmed_up(policy, arms, rng, 3 if shape is BEYOND else 8)
    for array in state.arrays().values():
        assert np.isfinite(array).all()
    return state, arms


def parts(policy):
    """What a policy is made of, by name: what differs in none of these runs through the same code."""
    inside = innermost(policy)
    options = {
        name: getattr(inside, name, None) for name in ("version", "oracle", "form", "coupled", "explore")
    }
    bounds = [getattr(inside, name, None) == "unknown" for name in ("sigma", "norm_bound")]
    dim = make_arms(policy, np.random.default_rng(0)).shape[2]
    return {
        "rule": type(inside).__name__,
        "options": str({**options, "estimated": estimates_propensity(policy)}),
        "scale": str(getattr(inside, "scale", None)),
        "belief": (type(policy).__name__ if policy is not inside else "", *policy.start(1, dim).arrays()),
        "set": (getattr(inside, "confidence", None), getattr(inside, "tails", None), *bounds),
        "design": getattr(inside, "design", None),
        "floor": getattr(inside, "floor", 0.0) > 0.0,
        "memories": getattr(getattr(policy, "base", policy), "combine", getattr(policy, "combine", None)),
    }


PARTS = {policy: parts(policy) for policy in CONFIGURATIONS}
SOME = cover(
    CONFIGURATIONS,
    lambda policy: {**PARTS[policy], "pair": (PARTS[policy]["rule"], PARTS[policy]["belief"])},
    strength=1,
)
"""Configurations in which every part occurs, and every rule with every belief that it can have."""
CASES = cover(
    [(policy, shape) for policy in CONFIGURATIONS for shape in [*SHAPES, BEYOND] if fits(policy, shape)],
    lambda case: {
        name: (part, case[1].name if name in ("rule", "belief", "design") else "")
        for name, part in PARTS[case[0]].items()
    },
    strength=1,
)
"""Configurations and shapes in which every rule, belief and design meets every shape, and every part some."""
