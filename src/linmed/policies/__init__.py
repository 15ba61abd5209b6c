"""The policies. Being exported here is enough for the contract suite, the CLI and the reports to find one."""

from linmed.policies.base import Choice, Policy, Properties, RidgePolicy, RidgeState, State
from linmed.policies.e2d import E2D
from linmed.policies.exp2 import EXP2
from linmed.policies.greedy import Greedy
from linmed.policies.lin_imed import LinIMED
from linmed.policies.lin_ts import LinTS
from linmed.policies.linmed import LinMED, LinMEDNoDesign
from linmed.policies.maillard import MaillardSampling
from linmed.policies.oful import OFUL
from linmed.policies.rand_ucb import RandUCB
from linmed.policies.spanner_igw import SpannerIGW
from linmed.policies.square_cb import SquareCB
from linmed.policies.uniform import Uniform

ALL: tuple[type[Policy], ...] = (
    LinMED,
    LinMEDNoDesign,
    MaillardSampling,
    OFUL,
    LinTS,
    LinIMED,
    RandUCB,
    SquareCB,
    E2D,
    SpannerIGW,
    EXP2,
    Uniform,
    Greedy,
)

__all__ = [
    "ALL",
    "E2D",
    "EXP2",
    "OFUL",
    "Choice",
    "Greedy",
    "LinIMED",
    "LinMED",
    "LinMEDNoDesign",
    "LinTS",
    "MaillardSampling",
    "Policy",
    "Properties",
    "RandUCB",
    "RidgePolicy",
    "RidgeState",
    "SpannerIGW",
    "SquareCB",
    "State",
    "Uniform",
]
