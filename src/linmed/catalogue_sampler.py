"""Decisions among a catalogue of any size, whose probability is known without a pass over it.

`CatalogueMED` proposes an item by q and plays it with probability f, else the empirically best one, â. By
which of these routes an item was played is part of the decision:

    accepted   the proposal, which was kept
    explore    while some leverage exceeds 1, with probability ½: the item w of largest leverage
    fallback   â, because the proposal was not kept

P(a, not by fallback) = q(a)f(a), or ½q(a)f(a) + ½·1{a = w} in the second case, in closed form for every item.
The probability of a fallback alone would need a sum over all items; its rows are logged without one, and an
evaluation gives them weight 0.

What is exact: that number, for the policy as it is defined by what the index answers: â, and the coreset, the
few items on which the design stands. A wrong answer of an approximate index makes another policy, not a wrong
probability.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.decision import Decision, Route, probabilities_of, probability_of
from linmed.features import Catalogue, Index, Items, Scan
from linmed.policies import Policy
from linmed.policies.glm import FAMILIES
from linmed.validation import Bools, Floats, Ints

__all__ = ["ActionDistribution", "CatalogueSampler", "Coreset"]

Lift = Callable[[Any], tuple[Floats, Floats]]
"""From an encoded context to B (d, de) and c (d,): the arm of an item e is B e + c."""
ROUTES: tuple[Route, ...] = ("accepted", "explore", "fallback")
UNIFORMS = 4
"""Random numbers of one decision: explore or not, which part of q, which item of it, kept or not."""
POOL = 8
"""Items that each query for extremes asks for."""
STALE = 0.01
"""Share of the catalogue that may change before the coreset is made anew."""
_RUN = 1 << 12  # rows between places where the live ones before them are counted
_WIDEST = 1e60  # what an infinite radius is taken for
_TOLERANCE = 1e-6  # of the optimal design
_LOWEST = -1e300  # every item keeps a finite log-probability


class ItemPosterior(NamedTuple):
    """What a belief says of items in their own space, in one context: see core/catalogue.hpp."""

    B: Floats  # (d,de)
    c: Floats  # (d,)
    theta: Floats  # (de,) Bᵀθ̂
    inverse: Floats  # (de,de) BᵀV⁻¹B
    cross: Floats  # (de,) BᵀV⁻¹c
    constant: float  # cᵀV⁻¹c
    sharpness: float  # 1/√β
    base: float = 0.0  # what z has beside ⟨θ, e⟩ …
    family: int | None = None  # … where a link bends the divergence, see core/links.hpp


@dataclass(frozen=True)
class Coreset:
    """Extreme items of a catalogue, and the catalogue for which they were found.

    >>> from linmed import CatalogueMED
    >>> from linmed.features import Catalogue
    >>> items = Catalogue(range(5), [[1.0, 0.0], [0.0, 1.0], [0.1, 0.1], [0.2, 0.1], [0.1, 0.2]])
    >>> coreset = CatalogueSampler(CatalogueMED(), items).coreset
    >>> coreset.places, coreset.stale(items.snapshot())
    (array([0, 1, 2]), False)
    >>> Coreset.from_dict(coreset.to_dict()).version == coreset.version
    True
    """

    places: Ints
    version: int
    rows: int
    count: int

    def stale(self, items: Items) -> bool:
        """Check whether more than STALE of the catalogue has changed since."""
        added = len(items.matrix) - self.rows
        removed = self.count + added - items.count
        return max(items.version - self.version, added + removed) > STALE * self.count

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `from_dict` is its inverse."""
        numbers = {"version": self.version, "rows": self.rows, "count": self.count}
        return {"places": self.places.tolist(), **numbers}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Coreset":
        """Read what `to_dict` wrote."""
        places = np.array(
            [validation.whole("places", place, at_least=0) for place in saved["places"]], np.int64
        )
        numbers = {
            name: validation.whole(name, saved[name], at_least=0) for name in ("version", "rows", "count")
        }
        if (np.diff(places) <= 0).any() or (places >= numbers["rows"]).any():
            rows = numbers["rows"]
            raise validation.BadValue(
                "places", f"places of a coreset must ascend and be below its rows, {rows}"
            )
        return cls(places, **numbers)


def rows_of(items: Items, places: Ints) -> Floats:
    """Take the encoded items at these places, in double precision."""
    return validation.for_kernels(np.asarray(items.matrix[places], dtype=np.float64))


def find_coreset(items: Items, index: Index) -> Coreset:
    """Betke and Henk's directions through the index, then ApproxDesign over all that was found on the way.

    Each direction is the part of an axis that no earlier one covers; what is covered is the difference of the
    two extreme items. Where the index is exact these are the paper's BH set of the whole catalogue.
    """
    dim = items.matrix.shape[1]
    P = np.eye(dim)
    pool: set[int] = set()
    for axis in range(dim):
        direction = P[axis].copy()
        if not np.abs(direction).max() > 1e-10:
            continue
        high, low = index.top(np.stack([direction, -direction]), POOL)
        if high[0] < 0:
            break
        pool.update(high[high >= 0].tolist(), low[low >= 0].tolist())
        ends = rows_of(items, np.array([high[0], low[0]]))
        apart = ends[0] - ends[1]
        core.take_out(P, apart if np.abs(apart).max() > 1e-10 * np.abs(ends).max() else ends[0])
    places = np.array(sorted(pool), dtype=np.int64)
    if len(places):
        weights = np.empty(len(places))
        core.approx_design(rows_of(items, places), np.zeros(len(places)), weights)
        places = places[weights > 0.0]
    return Coreset(places, items.version, len(items.matrix), items.count)


class ActionDistribution:
    """How probable every item is in one context: all of a decision but the draw.

    >>> from linmed import CatalogueMED
    >>> from linmed.features import Catalogue
    >>> policy, items = CatalogueMED(), Catalogue(["a", "b", "c"], np.eye(3))
    >>> law = CatalogueSampler(policy, items).law(policy.start(1, 3))
    >>> law.complete().round(3), round(law.probability_of(1), 3), law.best
    (array([0.933, 0.033, 0.033]), 0.033, 0)

    >>> places = np.arange(3)
    >>> law.proposed(places).round(3), law.log_f(places), np.exp(law.log_probabilities(places)).round(3)
    (array([0.933, 0.033, 0.033]), array([0., 0., 0.]), array([0.933, 0.033, 0.033]))
    >>> law.arm(2), law.draw(np.array([[0.9, 0.5, 0.5, 0.5]]))
    (array([0., 0., 1.]), (array([0]), array([0])))
    """

    def __init__(
        self,
        policy: Any,
        sight: ItemPosterior,
        items: Items,
        best: int,
        support: Ints,
        nth: "NthLive",
    ) -> None:
        """`support`: places of the design, in order, â among them."""
        self._sight, self.items, self._nth, self.best = sight, items, nth, best
        self.support = support
        self._best_row = rows_of(items, np.array([best]))[0]
        rows = rows_of(items, support)
        self._check(rows)
        log_f, leverage = self._weigh(rows)
        self.design = _design(
            policy, np.hstack([rows, np.ones((len(rows), 1))]) if np.any(sight.c) else rows, log_f
        )
        emp, opt = policy.alpha_emp, policy.design_share
        spread = max(0.0, 1.0 - emp - opt)
        if policy.ties == "even" and not np.any(sight.theta):  # all items look equally good
            emp, spread = 0.0, spread + emp
        self._parts = emp, opt
        self._even = spread / items.count if spread > 1e-12 else 0.0
        explored = core.most_levered(leverage) if policy.explore else -1
        self.explored = int(support[explored]) if explored >= 0 else -1
        """w, −1 where no leverage exceeds 1."""

    def log_f(self, places: Ints) -> Floats:
        """log f of items (n,)."""
        return self._weigh(rows_of(self.items, places))[0]

    def proposed(self, places: Ints) -> Floats:
        """q of items (n,); 0 of those that were removed."""
        at = np.minimum(np.searchsorted(self.support, places), len(self.support) - 1)
        designed = np.where(self.support[at] == places, self.design[at], 0.0)
        q = self._even + self._parts[1] * designed + self._parts[0] * (places == self.best)
        return np.where(self.items.live[places], q, 0.0)

    def log_probabilities(self, places: Ints) -> Floats:
        """Compute log P of playing each item by any route but the fallback (n,)."""
        out = np.empty(len(places))
        core.log_of_routes(
            self.proposed(places), self.log_f(places), self.explored >= 0, places == self.explored, out
        )
        return out

    def probability_of(self, place: int) -> float:
        """Compute the probability of playing an item by any route but the fallback."""
        return probability_of(self.log_probabilities(np.array([place]))[0])

    def complete(self) -> Floats:
        """Compute the probability of every place by all routes (N,), in a pass over the whole catalogue."""
        p = probabilities_of(self.log_probabilities(np.arange(len(self.items.live))))
        p[self.best] += max(0.0, 1.0 - math.fsum(p))
        return p

    def arm(self, place: int) -> Floats:
        """B e + c of an item (d,)."""
        row, arm = rows_of(self.items, np.array([place])), np.empty(len(self._sight.c))
        self._check(row)
        core.raise_item(row[0], self._sight.B, self._sight.c, arm)
        return arm

    def _check(self, rows: Floats) -> None:
        """Refuse arms so large that sums of their squares would mean nothing."""
        largest = float(np.abs(rows).max(initial=0.0)) * float(np.abs(self._sight.B).max(initial=0.0))
        if not largest <= validation.LARGEST:
            text = f"its products with items may be {largest:g}; at most {validation.LARGEST:g} is accepted"
            raise validation.BadValue("context", f"context: {text}")

    def draw(self, noise: Floats) -> tuple[Ints, Ints]:
        """Draw items, and by which of ROUTES.  noise (n, 4) → two (n,)."""
        emp, opt = self._parts
        place = np.full(len(noise), self.best, dtype=np.int64)
        by_design = (noise[:, 1] >= emp) & (noise[:, 1] < emp + opt)
        evenly = (noise[:, 1] >= emp + opt) & (self._even > 0.0)
        place[by_design] = self.support[_invert(self.design, noise[by_design, 2])]
        place[evenly] = self._nth(np.floor(noise[evenly, 2] * self.items.count).astype(np.int64))
        proposed, where = np.unique(place, return_inverse=True)
        keep = np.empty(len(noise), dtype=np.bool_)
        core.kept(np.ascontiguousarray(noise[:, 3]), self.log_f(proposed), where, keep)
        place, route = np.where(keep, place, self.best), np.where(keep, 0, 2)
        if self.explored >= 0:
            half = noise[:, 0] < 0.5
            place, route = np.where(half, self.explored, place), np.where(half, 1, route)
        return place, route

    def _weigh(self, rows: Floats) -> tuple[Floats, Floats]:
        """log f and ‖a‖² in V⁻¹ of items (m, de)."""
        log_f, leverage, seen = np.empty(len(rows)), np.empty(len(rows)), self._sight
        seen_as = seen.theta, seen.inverse, seen.cross, seen.constant, seen.sharpness
        core.weigh_items(rows, self._best_row, *seen_as, log_f, leverage)
        return log_f if seen.family is None else self._bent(rows, log_f, seen.family), leverage

    def _bent(self, rows: Floats, log_f: Floats, family: int) -> Floats:
        """log f by the divergence between rewards, from that of Gaussian ones."""
        z, best, factor = np.empty(len(rows)), np.empty(1), np.empty(len(rows))
        core.estimate_arms(self._sight.theta, rows, z)
        core.estimate_arms(self._sight.theta, self._best_row[None], best)
        core.link_bend(family, self._sight.base + z, np.maximum(best - z, 0.0), factor)
        return np.where(log_f < 0.0, np.maximum(log_f * factor, _LOWEST), log_f)


def _design(policy: Any, rows: Floats, log_f: Floats) -> Floats:
    """Weights of ApproxDesign, or the optimal design, of the arms rescaled by √f, or of those with f ≥ 1/e.

    A design does not change under an injective map of the arms, and one that is good for the items is good
    for their image under any map: so the items stand for the arms, with a 1 beside them where c is not 0.
    """
    weights = np.empty(len(rows))
    log_scale = 0.5 * log_f if policy.version == 0 else np.where(log_f >= -1.0, 0.0, -np.inf)
    if policy.design == "optimal":
        core.optimal_design(rows, log_scale, _TOLERANCE, weights)
    else:
        core.approx_design(rows, log_scale, weights)
    return weights


def _invert(weights: Floats, uniforms: Floats) -> Ints:
    """Find where the running totals of the weights first exceed these; a weight of 0 is never met."""
    totals = np.cumsum(weights)
    places = np.searchsorted(totals, uniforms * totals[-1], side="right")
    found: Ints = np.minimum(places, np.flatnonzero(weights)[-1])
    return found


class NthLive:
    """The place of the n-th live row: removed rows are not drawn, and nothing needs to be drawn again."""

    def __init__(self, live: Bools, count: int) -> None:
        self._live = live
        self._before: Ints | None = None
        if count < len(live):
            counts = np.add.reduceat(live, np.arange(0, len(live), _RUN), dtype=np.int64)
            self._before = np.concatenate([[0], np.cumsum(counts)])

    def __call__(self, n: Ints) -> Ints:
        """Places (m,) of the n-th ones, counted from 0."""
        if self._before is None:
            return n
        run = np.searchsorted(self._before, n, side="right") - 1
        rest = n - self._before[run]
        found = [
            first * _RUN + np.flatnonzero(self._live[first * _RUN : (first + 1) * _RUN])[i]
            for first, i in zip(run.tolist(), rest.tolist(), strict=True)
        ]
        return np.array(found, dtype=np.int64)


class CatalogueSampler:
    """Decisions of one policy among one catalogue, by one index.

    `lift` says how a context turns items into arms; None: the items are the arms. The same state, context,
    noise, catalogue, index and coreset give the same decision, on every processor.

    >>> from linmed import CatalogueMED
    >>> from linmed.features import Catalogue
    >>> rng = np.random.default_rng(0)
    >>> policy, items = CatalogueMED(), Catalogue(range(1000), rng.standard_normal((1000, 3)))
    >>> routes, state = CatalogueSampler(policy, items), policy.start(1, 3)
    >>> made = routes.decide_each(state, rng.random((5, 4)), [None] * 5)
    >>> [found.route for found in made], routes.follow().count
    (['accepted', 'explore', 'explore', 'accepted', 'accepted'], 1000)

    >>> routes.decide(state, rng.random(4)).route in ("accepted", "explore", "fallback")
    True
    >>> len(routes.laws(state, [None, None])), routes.law(state).best == made[0].best
    (2, True)
    >>> len(routes.coreset.places) < 50
    True
    """

    def __init__(
        self,
        policy: Policy,
        catalogue: Catalogue,
        index: Index | None = None,
        lift: Lift | None = None,
        coreset: Coreset | None = None,
    ) -> None:
        if not (isinstance(policy, Policy) and policy.capabilities.by_route):
            raise validation.BadType(
                "policy", f"policy must be a CatalogueMED or CatalogueGLMMED, got {policy!r}"
            )
        self.policy: Any = policy
        self.catalogue, self._lift = catalogue, lift
        self.index: Index = Scan() if index is None else index
        for name in ("follow", "top"):
            if isinstance(self.index, type) or not callable(getattr(self.index, name, None)):
                text = f"index must be an index such as linmed.features.Scan(), got {index!r}"
                raise validation.BadType("index", text)
        self._coreset = coreset
        self.earlier: list[Coreset] = []  # in use before, in order
        self._nth: NthLive | None = None
        self._items: Items | None = None
        self._past: tuple[Items, NthLive] | None = None  # what `law_at` was last asked for

    def follow(self) -> Items:
        """Take the catalogue as it is now, and bring index and coreset up to it."""
        items = self.catalogue.snapshot()
        if items is not self._items:
            if items.count == 0:
                raise validation.BadValue("catalogue", "catalogue is empty: at least one item is needed")
            self.index.follow(items)
            if self._coreset is None or self._coreset.stale(items):
                if self._coreset is not None:
                    self.earlier.append(self._coreset)
                self._coreset = find_coreset(items, self.index)
            self._nth = NthLive(items.live, items.count)
            self._items = items
        return items

    @property
    def found(self) -> Coreset | None:
        """The extreme items of the last decision, to begin with when all this is made again."""
        return self._coreset

    @property
    def coreset(self) -> Coreset:
        """The extreme items in use; made anew where too much has changed."""
        self.follow()
        assert self._coreset is not None
        return self._coreset

    def law(self, state: Any, context: Any = None) -> ActionDistribution:
        """Compute how probable every item is for a state of one replica in this context."""
        return self.laws(state, [context])[0]

    def laws(self, state: Any, contexts: Sequence[Any]) -> list[ActionDistribution]:
        """`law` for each of several contexts, with one question to the index."""
        core, nth = self.coreset.places, self._nth
        items = self._items
        assert items is not None
        assert nth is not None
        sights = [self._see(state, *self._lifted(context)) for context in contexts]
        best = self.index.top(np.stack([sight.theta for sight in sights]), 1)[:, 0]
        core = core[items.live[core]]
        best = np.where((best >= 0) & items.live[best], best, core[0] if len(core) else nth(np.array([0])))
        return [
            ActionDistribution(self.policy, sight, items, int(one), np.union1d(core, [one]), nth)
            for sight, one in zip(sights, best, strict=True)
        ]

    def law_at(self, version: int, best: int, state: Any, context: Any = None) -> ActionDistribution | None:
        """`law` as it was among an earlier version of the catalogue, when the index answered `best`.

        No index is asked: of extremes it said the coreset, the latest made by then. None where that or the
        catalogue is not known.

        >>> from linmed import CatalogueMED
        >>> from linmed.features import Catalogue
        >>> policy, items = CatalogueMED(), Catalogue(["a", "b", "c"], np.eye(3))
        >>> routes, state = CatalogueSampler(policy, items), policy.start(1, 3)
        >>> before = routes.law(state)
        >>> routes.found is routes.coreset
        True
        >>> items.remove("b")
        >>> bool((routes.law_at(0, before.best, state).complete() == before.complete()).all())
        True
        """
        latest = self.coreset  # first: where it is made anew, the one before joins the earlier ones
        core = next((one for one in reversed([*self.earlier, latest]) if one.version <= version), None)
        if core is None or not self.catalogue.since <= version <= self.catalogue.version:
            return None
        if self._past is None or self._past[0].version != version:
            items = self.catalogue.at(version)
            self._past = items, NthLive(items.live, items.count)
        items, nth = self._past
        if not (0 <= best < len(items.live) and items.live[best]):
            raise validation.BadValue("best", f"best must be an item of version {version}, got place {best}")
        places = np.union1d(core.places[items.live[core.places]], [best])
        sight = self._see(state, *self._lifted(context))
        return ActionDistribution(self.policy, sight, items, best, places, nth)

    def decide(self, state: Any, noise: Floats, context: Any = None) -> Decision:
        """Make one decision.  noise (4,)."""
        return self.decide_each(state, noise[None], [context])[0]

    def decide_each(self, state: Any, noise: Floats, contexts: Sequence[Any]) -> list[Decision]:
        """Make one decision for each of n contexts, as n calls of `decide` would.  noise (n, 4)."""
        laws = self.laws(state, contexts)
        return [self._routed(law, row) for law, row in zip(laws, noise, strict=True)]

    def _routed(self, law: ActionDistribution, noise: Floats) -> Decision:
        places, routes = law.draw(noise[None])
        place, route, items = int(places[0]), ROUTES[routes[0]], law.items
        log_probability = math.nan if route == "fallback" else float(law.log_probabilities(places)[0])
        arm = law.arm(place).tobytes()
        return Decision(
            place, log_probability, None, arm, arm, items.count, item=items.ids[place], route=route,
            best=law.best, catalogue_version=items.version,
        )  # fmt: skip

    def _lifted(self, context: Any) -> tuple[Floats, Floats]:
        if self._lift is None:
            dim = self.catalogue.matrix.shape[1]
            return np.eye(dim), np.zeros(dim)
        return self._lift(context)

    def _see(self, state: Any, B: Floats, c: Floats) -> ItemPosterior:
        model, dim = self.policy.estimate(state), B.shape[1]
        B, c = validation.for_kernels(B), validation.for_kernels(c)
        theta, inverse, cross = np.empty(dim), np.empty((dim, dim)), np.empty(dim)
        constant = core.see_items(model.theta[0], model.inverse[0], B, c, theta, inverse, cross)
        radius = min(float(self.policy.radius(state)[0]), _WIDEST)
        base, family = 0.0, FAMILIES.get(getattr(self.policy, "family", "gaussian"))
        if family != FAMILIES["gaussian"]:
            constants = np.empty(1)
            core.estimate_arms(model.theta[0], c[None], constants)
            base = float(state.intercept[0] * self.policy.intercept + constants[0])
        bends = family if family != FAMILIES["gaussian"] else None
        return ItemPosterior(B, c, theta, inverse, cross, constant, 1.0 / radius, base, bends)
