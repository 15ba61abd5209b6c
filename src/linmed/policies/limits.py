"""Floors and caps for arms and groups of arms, around any policy."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, ClassVar

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Choice, Policy, Properties, entries
from linmed.policies.posterior import Capabilities
from linmed.policies.wrapper import Around
from linmed.validation import BadType, BadValue, Floats

Named = tuple[tuple[str, float], ...]
ROUNDING = 1e-12
"""By so much floors may sum to more than 1: a tenth for ten arms."""


def by_core(name: str) -> Any:
    """Make a method that the core answers where it knows the law, and `Policy` elsewhere."""
    other = getattr(Policy, name)

    @wraps(other)
    def ask(self: "Limits", *values: Any) -> Any:
        return getattr(self.believes, name)(*values) if self.law_in_core else other(self, *values)

    return ask


@dataclass(frozen=True, kw_only=True)
class Limits(Around):
    """Keep the probability of every arm, and the mass of groups of arms, between a floor and a cap.

    Of all laws within the limits it is the nearest to the base policy's p in KL(p'‖p): p'(a) = min(cap,
    max(floor, τ p(a))) with the one τ for which it sums to 1. Members of a group that is at a limit have a τ
    of their own. Where p is within the limits it stays as it is, and so do the decisions.

    `floors` and `caps` are a number for all arms, or numbers by name: the id of a catalogue's item, the
    number of an arm where arms have no ids, or a group. `groups` names disjoint groups by their members.

    >>> from linmed import Agent, LinMED, Limits
    >>> arms = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    >>> agent = Agent(Limits(LinMED(sigma=0.1), floors=0.05, caps={2: 0.1}), dim=2, seed=7)
    >>> agent.observe(arms * 20, [0.9, 0.1, 0.6] * 20)
    >>> agent.probabilities(arms).round(3)
    array([0.9 , 0.05, 0.05])
    >>> agent.policy.name
    "Limits LinMED-90 (sigma=0.1) (floors=0.05, caps={'2': 0.1})"

    Each set of arms needs floors that sum to 1 at most and caps that sum to 1 at least. Names that are not
    in the set play no part, nor does a group without a member there. Where the arms that the base policy
    plays at all may not have the whole mass, the others share the rest evenly, within their limits.

    >>> agent.decide([[1.0, 0.0]] * 30)
    Traceback (most recent call last):
        ...
    ValueError: floors of these 30 arms sum to 1.5: they must sum to at most 1

    `base` is the policy that learns, and `label` that of every `Policy`.

    >>> agent.policy.base.sigma, agent.policy.among(["tea", "fig", "mint"]).caps
    (0.1, ())
    """

    floors: Any = 0.0
    """The least probability: a number for all arms, or a dictionary by name."""
    caps: Any = 1.0
    """The largest probability: a number for all arms, or a dictionary by name."""
    groups: Any = ()
    """Groups of arms: a dictionary from a group's name to its members."""

    properties: ClassVar[Properties] = Properties(
        reference="linmed, docs/limits.md",
        minimax="as the base policy, and what limits cost",
        instance="as the base policy, and what limits cost",
        computable="that of the base policy",
        all_arms="as the base policy (all with floors)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        base = self.base
        if isinstance(base, Limits):
            raise BadValue("base", f"base must have no limits: give one Limits all of them, got {base.name}")
        if getattr(base, "hard", False):
            text = "a hard budget leaves arms out, and limits keep them in: only one of them can hold"
            raise BadValue("base", f"base: {text}, got {base.name}")
        if not base.learns_from_arms:
            raise BadValue(
                "base", f"base: {base.name} learns from the law by which it drew an arm: nobody else may draw"
            )
        if base.capabilities.by_route:
            raise BadValue(
                "base",
                f"base must be LinMED(…) or GLMMED(…): {base.name} finds an item without a pass over all of "
                "them, by which alone limits could be kept",
            )
        self._set("groups", _groups(self.groups))
        for name in ("floors", "caps"):
            self._set(name, _limits(name, getattr(self, name)))
        self._require_possible()

    def _require_possible(self) -> None:
        """Refuse limits that no law keeps where all names are there."""
        members = {one for _, some in self.groups for one in some}
        others = {"all": (_lookup(self.floors, 0.0)[1], _lookup(self.caps, 1.0)[1])}
        for name, (low, high) in {**others, **self._named, **self._of_groups}.items():
            if low > high:
                text = f"floors must not be above caps, got {low:g} and {high:g} for {name!r}"
                raise BadValue("floors", text)
        total = sum(low for name, (low, _) in self._named.items() if name not in members)
        for name, (low, high) in self._of_groups.items():
            if name in members or name.isdecimal():
                raise BadValue("groups", f"groups must have names that are no arm's, got {name!r}")
            limits = [self._named[one] for one in dict(self.groups)[name]]
            least, most = (sum(side) for side in zip(*limits, strict=True))
            if low > most + ROUNDING:
                text = f"floors: the caps of group {name!r} sum to {most:.9g}, below its floor of {low:g}"
                raise BadValue("floors", text)
            if least > high + ROUNDING and not isinstance(self.floors, float):
                text = f"caps: the floors of group {name!r} sum to {least:.9g}, above its cap of {high:g}"
                raise BadValue("caps", text)
            total += max(low, least)
        if total > 1.0 + ROUNDING and not isinstance(self.floors, float):
            raise BadValue("floors", f"floors must sum to at most 1, got {total:.9g}")

    @cached_property
    def _named(self) -> dict[str, tuple[float, float]]:
        """Find floor and cap of every arm that has a name here."""
        least, most = _lookup(self.floors, 0.0), _lookup(self.caps, 1.0)
        groups = {name for name, _ in self.groups}
        members = [one for _, some in self.groups for one in some]
        names = dict.fromkeys([*members, *(n for n in (*least[0], *most[0]) if n not in groups)])
        return {name: (least[0].get(name, least[1]), most[0].get(name, most[1])) for name in names}

    @cached_property
    def _of_groups(self) -> dict[str, tuple[float, float]]:
        """Find floor and cap of every group."""
        least, most = _lookup(self.floors, 0.0)[0], _lookup(self.caps, 1.0)[0]
        return {name: (least.get(name, 0.0), most.get(name, 1.0)) for name, _ in self.groups}

    @property
    def by_item(self) -> bool:  # type: ignore[override]
        """Whether some arm has limits of its own."""
        return bool(self._named)

    def require_items(self, ids: Sequence[Any] | None) -> None:
        """Raise what names an item that is not there; without a catalogue, one that is no arm's number."""
        known = None if ids is None else {str(one) for one in ids}
        for name in self._named:
            if known is None and not name.isdecimal():
                raise BadValue("floors", f"floors, caps and groups: {name!r} is no arm's number; {_IDS}")
            if known is not None and name not in known:
                text = f"floors, caps and groups must name items of the catalogue, which has no {name!r}"
                raise BadValue("floors", text)
        for name in self._of_groups:
            if known is not None and name in known:
                raise BadValue("groups", f"groups: {name!r} is the name of a group and of an item")

    def among(self, ids: Sequence[Any]) -> "Limits":
        """Make the policy whose limits are those of these items, by their places."""
        place = {str(one): str(i) for i, one in enumerate(ids)}
        groups = {
            name: [place[one] for one in members if one in place]
            for name, members in self.groups
            if any(one in place for one in members)
        }

        def found(limits: float | Named) -> Any:
            if isinstance(limits, float):
                return limits
            names = {**place, **{name: name for name in groups}}
            return {names[name]: value for name, value in limits if name in names}

        return replace(self, floors=found(self.floors), caps=found(self.caps), groups=groups)

    # ---- deciding

    takes_worth = Around.takes_worth

    @property
    def _has_places(self) -> bool:
        return all(name.isdecimal() for name in self._named)

    @property
    def law_in_core(self) -> bool:  # type: ignore[override]
        """Whether the base policy's law is, so that its limits are too."""
        return self.base.law_in_core and self._has_places

    @property
    def compiled_rounds(self) -> bool:  # type: ignore[override]
        """Whether the base policy's are, with a law in the core."""
        return self.base.compiled_rounds and self.law_in_core

    @property
    def index_free(self) -> bool:  # type: ignore[override]
        """Whether the base policy is, and no arm has limits of its own."""
        return self.base.index_free and not self.by_item

    @property
    def capabilities(self) -> Capabilities:
        """Those of the base policy; probabilities are always computed."""
        return super().capabilities._replace(probability=True)

    @cached_property
    def believes(self) -> Policy:
        """The base policy; where the core knows its law, a copy whose rule is within the limits."""
        if not self.law_in_core:
            return self.base
        limited: Any = copy.copy(self.base)
        limited._set("_deciding", self._rule(limited._deciding))
        return limited  # type: ignore[no-any-return]

    def _rule(self, rule: Any) -> Any:
        """Make a rule of the core within these limits."""
        self.require_items(None)
        numbers = {name: place for place, (name, _) in enumerate(self.groups)}
        owner = {one: numbers[name] for name, members in self.groups for one in members}
        named = [(int(name), *limits, owner.get(name, -1)) for name, limits in self._named.items()]
        if len({place for place, *_ in named}) < len(named):
            raise BadValue(
                "floors", f"floors, caps and groups must name every arm once, got {[*self._named]}"
            )
        places, lows, highs, groups = np.array(named, dtype=np.float64).reshape(-1, 4).T
        of_groups = np.array([*self._of_groups.values()]).reshape(-1, 2).T
        return core.LimitedRule(
            rule, _lookup(self.floors, 0.0)[1], _lookup(self.caps, 1.0)[1],
            places.astype(np.int64), lows.copy(), highs.copy(), groups.astype(np.int64),
            (*numbers,), of_groups[0].copy(), of_groups[1].copy(),
        )  # fmt: skip

    @cached_property
    def _alone(self) -> Any:
        """Make the limits without a rule, for laws that are computed elsewhere."""
        return self._rule(core.UniformRule())

    def noise_size(self, dim: int) -> int:
        """As many as the base policy, where the core decides; else one uniform, which draws from the law."""
        return self.base.noise_size(dim) if self.law_in_core else 1

    choose = by_core("choose")
    play = by_core("play")
    play_with_errors = by_core("play_with_errors")

    def live(self, state: Any) -> Any:
        """Make the core's agent of the base policy, within the limits where the core decides."""
        return self.believes.live(state)

    def log_probabilities(self, state: Any, arms: Floats) -> Floats:
        """Compute log p'(a) of every arm.  arms (R,K,d) or (1,K,d) → (R,K)."""
        if self.law_in_core:
            return self.believes.log_probabilities(state, arms)
        return self._law(state, arms)[0]

    def decide(self, state: Any, arms: Floats, noise: Floats) -> Choice:
        """Draw one arm per replica and say how probable it was."""
        if self.law_in_core:
            return self.believes.decide(state, arms, noise)
        log_p, error = self._law(state, arms)
        arm = self._draw(log_p, arms, noise)
        features = self.features(state, arms, arm)
        return Choice(
            arm, entries(log_p, arm), log_p, features, None if error is None else entries(error, arm)
        )

    def propensity_error(self, state: Any, arms: Floats) -> Floats | None:
        """Give the errors of the base policy's probabilities times τ; 0 at a limit."""
        return None if self.law_in_core else self._law(state, arms)[1]

    def _law(self, state: Any, arms: Floats) -> tuple[Floats, Floats | None]:
        """Compute log p' and the standard error of p', of a law that is computed in Python."""
        log_p = np.array(self.base.log_probabilities(state, arms), dtype=np.float64, order="C")
        factor = np.empty_like(log_p)
        core.limit(self._alone, log_p, factor)
        error = self.base.propensity_error(state, arms)
        return log_p, None if error is None else error * factor

    def derived_name(self) -> str:
        """Say the base policy and the limits that there are."""
        limits = [("floors", self.floors, 0.0), ("caps", self.caps, 1.0), ("groups", self.groups, ())]
        words = [
            f"{name}={value if isinstance(value, float) else dict(value)}"
            for name, value, default in limits
            if value not in (default, ())
        ]
        return f"Limits {self.base.name}" + (f" ({', '.join(words)})" if words else "")


_IDS = "ids need a catalogue: Agent(…, catalogue=…)"


def _lookup(limits: float | Named, default: float) -> tuple[dict[str, float], float]:
    """Split limits into those by name and that of all others."""
    return ({}, limits) if isinstance(limits, float) else (dict(limits), default)


def _limits(name: str, value: Any) -> float | Named:
    """Check floors or caps: a number, or pairs in the order of their names."""
    if not isinstance(value, (Mapping, list, tuple)):
        return validation.between(name, value, 0.0, 1.0)
    return tuple(
        (key, validation.between(f"{name}[{key!r}]", one, 0.0, 1.0)) for key, one in _pairs(name, value)
    )


def _groups(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Check groups, in the order of their names; no arm is in two of them."""
    if not isinstance(value, (Mapping, list, tuple)):
        raise BadType("groups", f'groups must be a dictionary such as {{"new": ["a", "b"]}}, got {value!r}')
    found, seen = [], set()
    for name, members in _pairs("groups", value):
        if isinstance(members, (str, bytes)) or not isinstance(members, Sequence) or not len(members):
            raise BadValue("groups", f"groups[{name!r}] must be a list of one or more arms, got {members!r}")
        ids = tuple(_key("groups", one) for one in members)
        for one in ids:
            if one in seen:
                raise BadValue("groups", f"groups must have no arm in common, got {one!r} twice")
            seen.add(one)
        found.append((name, ids))
    return tuple(found)


def _pairs(name: str, value: Any) -> list[tuple[str, Any]]:
    """List the entries of a dictionary, or of the pairs that JSON makes of it, by name."""
    pairs = list(value.items() if isinstance(value, Mapping) else value)
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise BadType(name, f"{name} must be a dictionary by name, got {value!r}")
    found = [(_key(name, key), one) for key, one in pairs]
    if len({key for key, _ in found}) < len(found):
        raise BadValue(name, f"{name} must name every arm once, got {value!r}")
    return sorted(found, key=lambda pair: pair[0])


def _key(name: str, key: Any) -> str:
    """Make a name comparable: ids and numbers of arms as text."""
    if isinstance(key, bool) or not isinstance(key, (str, int, np.integer)) or str(key) == "":
        raise BadType(name, f"{name} must name arms by an id or a number, got {key!r}")
    return str(key)
