"""Linear bandits whose every decision carries its exact probability."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from linmed.agent import Agent, Decision
    from linmed.policies import (
        LinMED,
        LinMEDNoDesign,
        MaillardSampling,
        Policy,
    )
    from linmed.simulation import simulate

__version__ = "0.1.0"

# Loaded on first use, so that `import linmed` costs nothing and compiles nothing.
_HOME = {
    "Agent": "linmed.agent",
    "Decision": "linmed.agent",
    "LinMED": "linmed.policies",
    "LinMEDNoDesign": "linmed.policies",
    "MaillardSampling": "linmed.policies",
    "Policy": "linmed.policies",
    "simulate": "linmed.simulation",
}

__all__ = [
    "Agent",
    "Decision",
    "LinMED",
    "LinMEDNoDesign",
    "MaillardSampling",
    "Policy",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'linmed' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
