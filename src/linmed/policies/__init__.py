"""The policies. Being exported here is enough for the contract suite, the CLI and the reports to find one."""

from linmed.policies.base import Choice, Policy, Properties, RidgePolicy, RidgeState, State
from linmed.policies.linmed import LinMED, LinMEDNoDesign
from linmed.policies.maillard import MaillardSampling

ALL: tuple[type[Policy], ...] = (LinMED, LinMEDNoDesign, MaillardSampling)

__all__ = [
    "ALL",
    "Choice",
    "LinMED",
    "LinMEDNoDesign",
    "MaillardSampling",
    "Policy",
    "Properties",
    "RidgePolicy",
    "RidgeState",
    "State",
]
