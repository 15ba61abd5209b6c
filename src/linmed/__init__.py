"""Linear bandits whose every decision carries its exact probability."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from linmed.agent import Agent, Decision
    from linmed.policies import (
        E2D,
        EXP2,
        OFUL,
        Greedy,
        LinIMED,
        LinMED,
        LinMEDNoDesign,
        LinTS,
        MaillardSampling,
        Policy,
        RandUCB,
        SpannerIGW,
        SquareCB,
        Uniform,
    )
    from linmed.simulation import simulate

__version__ = "0.1.0"

__all__ = [
    "E2D",
    "EXP2",
    "OFUL",
    "Agent",
    "Decision",
    "Greedy",
    "LinIMED",
    "LinMED",
    "LinMEDNoDesign",
    "LinTS",
    "MaillardSampling",
    "Policy",
    "RandUCB",
    "SpannerIGW",
    "SquareCB",
    "Uniform",
    "simulate",
]

# Loaded on first use, so that `import linmed` is quick and compiles nothing; the rest are policies.
_HOME = {"Agent": "linmed.agent", "Decision": "linmed.agent", "simulate": "linmed.simulation"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'linmed' has no attribute {name!r}")
    return getattr(import_module(_HOME.get(name, "linmed.policies")), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
