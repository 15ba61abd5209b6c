"""The policies. Being exported here makes one known everywhere: contract suite, CLI, reports, service."""

from linmed.policies.base import Choice, Policy, Properties, State, as_policy
from linmed.policies.baselines import EpsilonGreedy, Greedy, Uniform
from linmed.policies.budget import Budget
from linmed.policies.e2d import E2D
from linmed.policies.exp2 import EXP2
from linmed.policies.forgetful import Forgetful
from linmed.policies.glm import (
    GLMMED,
    CatalogueGLMMED,
    GLMPolicy,
    LogisticMED,
    LogisticTS,
    LogisticUCB,
)
from linmed.policies.igw import SpannerIGW, SquareCB
from linmed.policies.limits import Limits
from linmed.policies.linmed import CatalogueMED, LinMED, LinMEDNoDesign, MaillardSampling
from linmed.policies.per_item import Disjoint, Hybrid
from linmed.policies.posterior import Capabilities, Posterior, Prediction
from linmed.policies.recent_ucb import DLinUCB, SWLinUCB
from linmed.policies.ridge import RidgePolicy, RidgeState
from linmed.policies.thompson import LinTS
from linmed.policies.ucb import OFUL, LinIMED, LinUCB, Pinpoint, RandUCB
from linmed.registry import concrete_subclasses

__all__ = [
    "ALL",
    "E2D",
    "EXP2",
    "GLMMED",
    "OFUL",
    "Budget",
    "Capabilities",
    "CatalogueGLMMED",
    "CatalogueMED",
    "Choice",
    "DLinUCB",
    "Disjoint",
    "EpsilonGreedy",
    "Forgetful",
    "GLMPolicy",
    "Greedy",
    "Hybrid",
    "Limits",
    "LinIMED",
    "LinMED",
    "LinMEDNoDesign",
    "LinTS",
    "LinUCB",
    "LogisticMED",
    "LogisticTS",
    "LogisticUCB",
    "MaillardSampling",
    "Pinpoint",
    "Policy",
    "Posterior",
    "Prediction",
    "Properties",
    "RandUCB",
    "RidgePolicy",
    "RidgeState",
    "SWLinUCB",
    "SpannerIGW",
    "SquareCB",
    "State",
    "Uniform",
    "as_policy",
]

_PAPERS_OWN = ("LinMED", "LinMEDNoDesign", "MaillardSampling")
ALL: tuple[type[Policy], ...] = tuple(
    sorted(
        (cls for cls in concrete_subclasses(Policy) if cls.__name__ in __all__),
        key=lambda cls: (cls.__name__ not in _PAPERS_OWN, cls.__name__.lower()),
    )
)
"""Every policy that can be made: the paper's own family first, then by name."""
