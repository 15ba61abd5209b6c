"""How a target is named: by a word, a number, an item's id, a policy, an agent or a function."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from linmed.ope.items import AskedTarget, ItemsTarget
from linmed.ope.targets import (
    ArmTarget,
    CallableTarget,
    ColumnTarget,
    Frozen,
    LoggedTarget,
    Target,
    UniformTarget,
    no_target,
)
from linmed.policies import CatalogueMED
from linmed.policies.base import Policy, State
from linmed.validation import BadValue


def as_target(target: Any, name: str | None = None) -> Target:
    """Any way of naming a target as a `Target`, called `name` if that is given.

    "uniform", "logged", "arm:3" or 3, "item:ID" or {id: probability} of a few items, "column:NAME", (policy,
    state), an agent, an object with `probability_of(item)` (see `AskedTarget`), a function of the arms.

    >>> import numpy as np
    >>> [as_target(target).name for target in ("uniform", "arm:3", "column:p_new")]
    ['uniform', 'arm 3', 'column:p_new']
    >>> as_target(lambda arms: np.full(len(arms), 1 / len(arms)), name="by chance").name
    'by chance'
    """
    if isinstance(target, Target):
        found = target if name is None else copy.copy(target)
    elif isinstance(target, str):
        found = _from_string(target)
    elif isinstance(target, (int, np.integer)) and not isinstance(target, bool):
        found = ArmTarget(int(target))
    elif isinstance(target, Mapping):
        found = ItemsTarget(target)
    elif _is_pair(target):
        found = Frozen(target[0], target[1])
    elif _is_asked(target):
        found = AskedTarget(target)
    elif isinstance(getattr(target, "policy", None), Policy) and isinstance(
        getattr(target, "state", None), State
    ):
        found = Frozen(target.policy, target.state)
    elif callable(target):
        found = CallableTarget(target)
    else:
        raise no_target(target)
    if name is not None:
        object.__setattr__(found, "name", name)
    return found


def as_targets(targets: Any) -> tuple[Target, ...]:
    """One target, a sequence or a {name: target} mapping, with distinct names.

    A mapping to numbers with a point is one target: {id: probability}. Whole numbers are arms.
    """
    if isinstance(targets, Mapping) and not _is_law(targets):
        found = [as_target(target, str(name)) for name, target in targets.items()]
    elif isinstance(targets, str) or not isinstance(targets, Sequence) or _is_pair(targets):
        found = [as_target(targets)]
    else:
        found = [as_target(target) for target in targets]
    if not found:
        raise BadValue("targets", "targets is empty: at least one target is needed")
    names = [target.name for target in found]
    for name in names:
        if names.count(name) > 1:
            advice = f"{name!r} occurs twice; give them as {{name: target}}"
            raise BadValue("targets", f"targets need distinct names, {advice}")
    return tuple(found)


def _is_pair(target: Any) -> bool:
    """Whether it is (policy, state)."""
    return isinstance(target, tuple) and len(target) == 2 and isinstance(target[0], Policy)


def _is_law(target: Mapping[Any, Any]) -> bool:
    """Whether it is {id: probability}, not {name: target}."""
    return bool(target) and all(isinstance(value, (float, np.floating)) for value in target.values())


def _is_asked(target: Any) -> bool:
    """Whether it says itself how probable an item is. An agent's policy is frozen, and asked for the arms
    that the log has; but one that decides among too many items for that says it itself.
    """
    if not callable(getattr(target, "probability_of", None)):
        return False
    policy = getattr(target, "policy", None)
    many = isinstance(policy, CatalogueMED) and getattr(target, "catalogue", None) is not None
    return many or not isinstance(policy, Policy)


def _from_string(text: str) -> Target:
    if text == "uniform":
        return UniformTarget()
    if text == "logged":
        return LoggedTarget()
    kind, _, value = text.partition(":")
    if kind == "arm" and value.isdecimal():
        return ArmTarget(int(value))
    if kind == "item" and value:
        return ItemsTarget({value: 1.0}, text)
    if kind == "column" and value:
        return ColumnTarget(value)
    known = "'uniform', 'logged', 'arm:NUMBER', 'item:ID' or 'column:NAME'"
    raise BadValue("targets", f"target must be {known}, got {text!r}")
