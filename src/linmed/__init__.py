"""Linear bandits whose every decision carries its exact probability."""

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Loaded on first use, so that `import linmed` is quick and compiles nothing; the rest are policies.
_HOME = {
    "Agent": "linmed.agent",
    "Decision": "linmed.decision",
    "Drift": "linmed.insight",
    "Explanation": "linmed.insight",
    "ListDecision": "linmed.lists",
    "Verdict": "linmed.insight",
    "Verdicts": "linmed.insight",
    "simulate": "linmed.simulation",
}

if TYPE_CHECKING:
    from linmed.agent import Agent as Agent
    from linmed.decision import Decision as Decision
    from linmed.insight import Drift as Drift
    from linmed.insight import Explanation as Explanation
    from linmed.insight import Verdict as Verdict
    from linmed.insight import Verdicts as Verdicts
    from linmed.lists import ListDecision as ListDecision
    from linmed.policies import *  # noqa: F403
    from linmed.simulation import simulate as simulate
else:

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return sorted([*_HOME, *_policies()])
        if name in _HOME:
            return getattr(import_module(_HOME[name]), name)
        if name.startswith("_") or name not in (found := _policies()):
            raise AttributeError(f"module 'linmed' has no attribute {name!r}")
        return found[name]


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_policies()])


def _policies() -> dict[str, Any]:
    """`Policy` and every policy that `linmed.policies` exports."""
    module = import_module("linmed.policies")
    exported = {name: getattr(module, name) for name in module.__all__}
    kinds = {name: value for name, value in exported.items() if inspect.isclass(value)}
    kinds = {name: kind for name, kind in kinds.items() if issubclass(kind, module.Policy)}
    return {name: kind for name, kind in kinds.items() if name == "Policy" or not inspect.isabstract(kind)}
