"""`complete`: a catalogue's log in which fallbacks have a probability too, by a pass over all items a state.

An item is proposed and accepted, or the best item known, â, is played. The log holds P(a, not by fallback),
in closed form, and nothing for a fallback: P(fallback) = 1 − Σ_a P(a, not by fallback) is a sum over items.
With every item's probability at hand

    p(a) = P(a, not by fallback)      for a ≠ â,
    p(â) = 1 − Σ_{a≠â} p(a)           by all routes together.

The weight of a decision may then be w = π(a)/p(a) with these, which no longer depends on the route: E w = Σ_a
p(a) π(a)/p(a) = 1. It is the conditional mean of the weight by routes, given the item: for â that weight is
π(â)/P(â, not by fallback) with probability P(â, not by fallback)/p(â), and else 0. So estimates have the same
mean and no larger variance. *Every* row of â must have p(â): if fallbacks alone were given their weight, and
accepted rows of â kept theirs, E w would be 1 + π(â) P(fallback)/p(â). Therefore all decisions of a catalogue
get what the law says, and what it says must be what was logged wherever the item was not â.

`relearned` has the laws of a policy along a log, by letting it learn again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import streams, validation
from linmed.agent import Agent
from linmed.catalogue_sampler import CatalogueSampler, NthLive
from linmed.features import Catalogue, Features, Items
from linmed.log import SUM_ERROR, DecisionLog, Malformed
from linmed.log.schema import OF_CATALOGUE
from linmed.log.views import View
from linmed.ope.log_facts import Log, as_log, require
from linmed.ope.scan import Rounds
from linmed.ope.targets import ItemsTarget, Target, UniformTarget
from linmed.policies.base import Policy, State
from linmed.validation import BadType, BadValue, Floats, Ints


class Whole(NamedTuple):
    """A decision's law, with all by which it can be compared with what was logged."""

    every: Floats
    """Every item's probability by all routes, by its place (N,)."""
    best: int
    """â."""
    accepted: float
    """The probability of â by any route but the fallback."""


def by_routes(routes: CatalogueSampler) -> Callable[..., Floats]:
    """Make the law that `Relearned` asks of decisions by these routes, in a context if there is one.

    >>> from linmed.features import Catalogue
    >>> from linmed.ope import by_routes
    >>> from linmed.policies import CatalogueMED
    >>> from linmed.catalogue_sampler import CatalogueSampler
    >>> policy, items = CatalogueMED(), Catalogue(["a", "b", "c"], np.eye(3))
    >>> law = by_routes(CatalogueSampler(policy, items))
    >>> law(policy.start(1, 3)).round(3)  # while nothing is known
    array([0.933, 0.033, 0.033])
    """

    def law(state: State, context: Any = None) -> Floats:
        return routes.law(state, context).complete()

    return law


class Relearned:
    """The laws of a policy that learned along a log, by letting it learn again, reward by reward.

    `law(state)` gives every item's probability by all routes, or `law(state, **columns)` with `columns` of
    the log; `by_routes(routes)` is the one of decisions among a catalogue that stays as it is, and
    `relearned(log, agent)` has that of an agent's. `state` is that before the first decision, a new one
    unless given. Rewards are learned in the order in which they came (`reward_time`, else
    the log's); `version` says how many a decision knew.

    >>> from linmed.features import Catalogue
    >>> from linmed.ope import DecisionLog, Relearned, by_routes
    >>> from linmed.policies import CatalogueMED
    >>> from linmed.catalogue_sampler import CatalogueSampler
    >>> rows = {"arm": [1, 0], "probability": [0.1, 0.9], "reward": [1.0, 0.0], "features": [[0, 1], [1, 0]]}
    >>> policy, items = CatalogueMED(), Catalogue(["a", "b"], np.eye(2))
    >>> laws = Relearned(DecisionLog.from_table(rows), policy, by_routes(CatalogueSampler(policy, items)))
    >>> laws.probabilities_of(0).round(3), laws.probabilities_of(2).round(3)  # item "b" has paid meanwhile
    (array([0.95, 0.05]), array([0.049, 0.951]))
    """

    def __init__(
        self,
        log: Log,
        policy: Policy,
        law: Callable[..., Floats | Whole | None],
        *,
        state: State | None = None,
        columns: Sequence[str] = (),
    ):
        log = as_log(log)
        require(log, ["features"], "learning again", "log")
        timed = ["reward_time"] if "reward_time" in log.columns else []
        table = log.table(["features", "reward", *timed])
        table = table.filter(pc.is_valid(table["reward"]))
        if table["features"].null_count or not table.num_rows:
            raise BadValue("log", f"{log.name} must have rewards, each with features, to be learned again")
        order: Ints = np.arange(table.num_rows)
        if timed and not table["reward_time"].null_count:
            order = np.argsort(table["reward_time"].cast(pa.int64()).to_numpy(), kind="stable")
        self.columns = tuple(columns)
        self._policy, self._law = policy, law
        self._features = validation.floats("features", table["features"].to_pylist())[order]
        self._rewards: Floats = table["reward"].to_numpy()[order]
        self.rewards = len(self._rewards)
        """How many there are to be learned."""
        self._start = policy.start(1, self._features.shape[1]) if state is None else state.copy()
        self._state, self._done = self._start.copy(), 0

    def probabilities_of(self, version: int, /, **columns: Any) -> Floats | Whole | None:
        """Give the law at the state after so many rewards."""
        first = int(self._start.count[0])
        number = version - first
        if not 0 <= number <= len(self._rewards):
            raise BadValue(
                "version",
                f"version {version} cannot be learned again: the policy began with {first} rewards, and the "
                f"log has {len(self._rewards)}",
            )
        if number < self._done:  # the log is read again from its beginning
            self._state, self._done = self._start.copy(), 0
        if number > self._done:
            some = slice(self._done, number)
            vectors, rewards = (validation.for_kernels(one[some]) for one in (self._features, self._rewards))
            self._policy.learn(self._state, vectors, rewards, np.zeros(len(rewards), dtype=np.int64))
            self._done = number
        return self._law(self._state, **columns)


def relearned(log: Log, agent: Agent) -> Relearned:
    """Find the laws by which a saved agent decided among its catalogue, along the whole log that it wrote.

    The log has the context of every decision, which item was the best one known, and which version of the
    catalogue it was taken among; the agent remembers these versions and its coresets. So no index is asked,
    and each decision's law is the one that it was drawn from. What the agent does not know that far back has
    no law: it was saved before the catalogue changed again.

    >>> import tempfile
    >>> from linmed import CatalogueMED
    >>> from linmed.features import Catalogue
    >>> from linmed.ope import DecisionLog, complete
    >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Agent(CatalogueMED(alpha_emp=0.2), catalogue=teas, seed=7, log=folder) as agent:
    ...         for _ in range(50):
    ...             decision = agent.decide()
    ...             agent.learn(decision, reward=float(decision.item == "mint"))
    ...     log = DecisionLog.open(folder)
    ...     completed = complete(log, relearned(log, agent)).table()
    >>> completed["probability"].null_count
    0
    """
    log, routes = as_log(log), agent.sampler
    if routes is None:
        text = f"laws must be an agent of CatalogueMED with a catalogue, got one of {agent.policy.name}"
        raise BadValue("laws", text)
    reads = agent.features is not None and agent.features.context_width > 0
    columns = OF_CATALOGUE if reads else tuple(name for name in OF_CATALOGUE if name != "context")
    try:
        require(log, columns, "learning an agent again", "log")
    except BadValue as error:
        raise BadValue("log", f"{error}; logs that agents write have it") from None
    found = Relearned(log, agent.policy, _law_of(routes, reads), columns=columns)
    if found.rewards < agent.count:
        raise BadValue(
            "laws",
            f"the agent has learned from {agent.count} rewards and {log.name} has {found.rewards}: it began "
            "before this log (a warm start, or another log), or this is only a part of its log (complete the "
            "whole log, then take parts of it)",
        )
    return found


def _law_of(routes: CatalogueSampler, reads: bool) -> Callable[..., Whole | None]:
    def law(
        state: State, best: int | None, catalogue_version: int | None, context: Any = None
    ) -> Whole | None:
        if best is None or catalogue_version is None or (reads and context is None):
            return None
        numbers = np.array([] if context is None else context, dtype=np.float64)
        found = routes.law_at(catalogue_version, best, state, numbers)
        return None if found is None else Whole(found.complete(), best, found.probability_of(best))

    return law


SAME = 1e-6
"""Share of itself by which a probability that was computed again may differ from the one that was logged."""


class Laws(Protocol):
    """Who knows how probable every item was: the policy that wrote the log, at any of its states.

    `columns`, if there are any, names columns of the log, such as a context, on which a decision depended
    besides the state; `probabilities_of` takes them by these names.
    """

    def probabilities_of(self, version: int, /, **columns: Any) -> Floats | Whole | None:
        """Give every item's probability by all routes, by its place, after so many rewards.

        A `Whole` is compared with every row, an array with all but those of the best item. None where it is
        not known, which must not depend on what was played: such decisions stay as they were logged.
        """


def complete(log: Log, laws: Laws | Agent) -> DecisionLog:
    """Give `log` with every decision's probability by all routes, so that fallbacks have a weight.

    `laws` may be the agent that wrote the log (see `relearned`), or anybody who knows how probable every item
    was: `laws.probabilities_of(version)` is asked once for each run of decisions at one `version`. For
    accepted items it must give what was logged: a law that does not is refused with the row.
    Decisions of no catalogue stay as they are. The completed log is a view, which asks for each law once;
    `save` writes it.

    >>> import numpy as np
    >>> from linmed.ope import DecisionLog, complete
    >>> law = np.array([0.7, 0.2, 0.1])  # of three items, of which the first is the best
    >>> class Known:
    ...     def probabilities_of(self, version):
    ...         return law
    >>> rows = {"arm": [1, 0], "probability": [0.2, None], "reward": [1.0, 0.0]}
    >>> rows |= {"arm_count": [3, 3], "version": [0, 0], "fallback": [False, True]}
    >>> complete(DecisionLog.from_table(rows), Known()).table()["probability"].to_pylist()
    [0.2, 0.7]
    """
    log = as_log(log)
    if isinstance(laws, Agent):
        laws = relearned(log, laws)
    if not callable(getattr(laws, "probabilities_of", None)):
        raise BadType("laws", f"laws must have probabilities_of(version), got {laws!r}")
    columns = tuple(getattr(laws, "columns", ()))
    require(log, ["version", "fallback", *columns], "completing", "log")
    return DecisionLog(_Completed(log.source, columns, _Asked(laws, log.name)), f"{log.name}, completed")


@dataclass(frozen=True)
class _Completed(View):
    """The source with other probabilities."""

    needs: tuple[str, ...]
    asked: "_Asked"

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """The rows of the source; asks for laws only where a probability is wanted."""
        if not {"probability", "log_probability", "fallback"} & set(columns):
            yield from self.source.read(columns, rows, malformed)
            return
        wanted = dict.fromkeys([*columns, "arm", "version", "probability", "fallback", *self.needs])
        start = 0
        for batch in self.source.read(list(wanted), rows, malformed):
            chance = self.asked.completed(batch, self.needs, start)
            start += batch.num_rows
            made = {"probability": chance, "fallback": pc.and_(batch.column("fallback"), chance.is_null())}
            if "log_probability" in columns:
                same = pc.equal(chance, batch.column("probability")).fill_null(False)
                made["log_probability"] = pc.if_else(same, batch.column("log_probability"), pc.ln(chance))
            arrays = [made[name] if name in made else batch.column(name) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, list(columns))


class _Asked:
    """The laws during a reading, and what they said of the rows that were read.

    The last law is kept, since decisions come in the order of their versions; and every row's probability,
    since a law is a pass over all items and a log is read several times.
    """

    def __init__(self, laws: Laws, name: str):
        self._laws, self._name = laws, name
        self._key: Any = None
        self._law: Floats | None = None
        self._best: int | None = None
        self._accepted: float | None = None
        self._known: list[float | None] = []

    def completed(self, batch: pa.RecordBatch, needs: Sequence[str], start: int) -> pa.Array:
        """The column `probability` of a batch whose first row is row `start`."""
        end = start + batch.num_rows
        if len(self._known) < end:
            done = len(self._known) - start  # rows before `start` were all read
            self._known += self._chances(batch.slice(done), needs, start + done)
        return pa.array(self._known[start:end], pa.float64())

    def _chances(self, batch: pa.RecordBatch, needs: Sequence[str], start: int) -> list[float | None]:
        """The same of rows that were not read before."""
        chance: list[float | None] = batch.column("probability").to_pylist()
        fallback = batch.column("fallback").to_pylist()
        arm, version = batch.column("arm").to_pylist(), batch.column("version").to_pylist()
        columns = [batch.column(name).to_pylist() for name in needs]
        for row, route in enumerate(fallback):
            if route is None:
                continue
            where = f"row {start + row} of {self._name}"
            if version[row] is None or arm[row] is None:
                raise BadValue("log", f"{where} has no version or no arm, by which its law would be known")
            self._ask(version[row], {name: column[row] for name, column in zip(needs, columns, strict=True)})
            if self._law is not None:
                chance[row] = self._chance(arm[row], None if route else chance[row], where)
        return chance

    def _ask(self, version: int, given: dict[str, Any]) -> None:
        key = version, given
        if self._key == key:
            return
        found = self._laws.probabilities_of(version, **given)
        law, self._best, self._accepted = found if isinstance(found, Whole) else (found, None, None)
        self._key, self._law = key, None
        if law is None:
            return
        law = np.asarray(law, dtype=np.float64)
        if law.ndim != 1 or not (law >= 0.0).all() or not abs(law.sum() - 1.0) <= SUM_ERROR:
            raise BadValue(
                "laws",
                "probabilities_of must give every item's probability, non-negative and with the sum one: at "
                f"version {version} it gave an array of shape {law.shape} with the sum {float(law.sum()):g}",
            )
        self._law = law

    def _chance(self, arm: int, logged: float | None, where: str) -> float:
        """The probability by all routes: of the best item more than was logged, of others the same."""
        assert self._law is not None
        p = float(self._law[arm]) if 0 <= arm < self._law.size else 0.0
        told = self._accepted if arm == self._best and self._accepted is not None else p
        if logged is None or abs(told - logged) > SAME * logged:
            if self._accepted is None:
                self._best = arm if self._best is None else self._best
            known = self._accepted is not None and logged is not None
            if p <= (logged or 0.0) or arm != self._best or known:
                said = "was a fallback" if logged is None else f"was logged with {logged:g}"
                other = "" if arm == self._best else f", and item {self._best} is the best one there"
                raise BadValue(
                    "laws",
                    f"laws must be those of the policy that wrote the log: item {arm} in {where} {said}, and "
                    f"by its law has the probability {told:g}{other}",
                )
        return p


SAMPLED = 256
"""Items that are drawn for a decision where a target plays all of them."""
LISTED = 0x6C_6973_7465_64  # "listed" in ASCII: the key of the stream that draws them
AT_ONCE = 1 << 22
"""Numbers of arms that are made at once."""
SAME = 1e-9
"""Share of its size by which an arm that was made again may differ from the one that was logged."""


class Listed(NamedTuple):
    """A target's probability of the items that were played (n,), and its share of the listed ones (ΣK,)."""

    played: Floats
    mass: Floats


@dataclass(frozen=True, eq=False)
class Listing:
    """Which items stand for a catalogue, and how arms are made of them."""

    catalogue: Catalogue
    features: Features
    targets: tuple[Target, ...]
    seed: int

    @classmethod
    def of(cls, given: Any, targets: tuple[Target, ...], seed: int, log: DecisionLog) -> "Listing":
        """Make one by a catalogue whose items are arms, or an agent's, which are made so in a context."""
        catalogue, features = (
            (given.catalogue, given.features)
            if isinstance(given, Agent)
            else (given, getattr(given, "features", None))
        )
        if not isinstance(catalogue, Catalogue) or not isinstance(features, Features):
            raise BadType(
                "catalogue",
                f"catalogue must be a Catalogue, or an agent with one, got {type(given).__name__}",
            )
        found = cls(catalogue, features, targets, seed)
        require(log, found.columns, "a reward model of a catalogue's items", "catalogue")
        return found

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the log that it needs."""
        context = ("context",) if self.features.context_width else ()
        return ("features", "catalogue_version", *context)

    @staticmethod
    def knows(target: Target) -> bool:
        """Whether a target's value by a model is a sum over few items, or the mean over all."""
        return isinstance(target, (ItemsTarget, UniformTarget))

    def begin(self) -> "Lister":
        """Begin one pass over a log."""
        return Lister(self)


class Lister:
    """Lists items for the decisions of a log, in its order: the draws depend on the seed and that alone."""

    def __init__(self, listing: Listing):
        self._listing = listing
        self._stream = np.random.Generator(streams.bits(listing.seed, "data", LISTED))
        self._draws = SAMPLED if any(isinstance(one, UniformTarget) for one in listing.targets) else 0
        few = [one.chances for one in listing.targets if isinstance(one, ItemsTarget)]
        self._ids = list(dict.fromkeys(item for chances in few for item in chances))
        self._rows: dict[str, list[int]] = {item: [] for item in self._ids}
        for row, name in enumerate(listing.catalogue.ids):
            if str(name) in self._rows:
                self._rows[str(name)].append(row)
        self._then: tuple[Items, NthLive] | None = None

    def alone(self, rounds: Rounds) -> Rounds:
        """Decisions as a model learns from them: with the item that was played alone."""
        arms = self._played(rounds)
        ones = np.ones(len(rounds), dtype=np.int64)
        return replace(rounds, arm=0 * ones, arm_count=ones, arms=arms, placed=None, extra={})

    def listed(self, rounds: Rounds, chances: Sequence[Floats]) -> Iterator[tuple[Rounds, list[Listed]]]:
        """Decisions with the item that was played first, then the targets' own, then those drawn."""
        listing, played = self._listing, self._played(rounds)
        size = 1 + len(self._ids) + self._draws
        versions = rounds.extra["catalogue_version"].to_pylist()
        contexts: list[Any] = [()] * len(rounds)
        if listing.features.context_width:
            contexts = rounds.extra["context"].to_pylist()
        step = max(1, AT_ONCE // (size * played.shape[1]))
        for start in range(0, len(rounds), step):
            some = slice(start, min(start + step, len(rounds)))
            uniforms = self._stream.random((some.stop - start, self._draws))
            arms = np.empty((some.stop - start, size, played.shape[1]))
            there = np.zeros((some.stop - start, len(self._ids)), dtype=bool)
            for i, row in enumerate(range(start, some.stop)):
                arms[i], there[i] = self._arms(
                    rounds, row, played[row], versions[row], contexts[row], uniforms[i]
                )
            counts = np.full(some.stop - start, size, dtype=np.int64)
            part = replace(
                rounds, row=rounds.row[some], arm=0 * counts, probability=rounds.probability[some],
                reward=rounds.reward[some], arm_count=counts, arms=arms.reshape(-1, played.shape[1]),
                weight=None if rounds.weight is None else rounds.weight[some],
                fallback=None if rounds.fallback is None else rounds.fallback[some], placed=None, extra={},
            )  # fmt: skip
            own = zip(listing.targets, chances, strict=True)
            yield part, [Listed(chance[some], self._mass(target, there)) for target, chance in own]

    def _arms(
        self, rounds: Rounds, row: int, played: Floats, version: Any, context: Any, uniforms: Floats
    ) -> tuple[Floats, Any]:
        """The arms of one decision (K, d), and which of the targets' items were there."""
        number = int(rounds.row[row])
        if version is None or context is None:
            name = "catalogue_version" if version is None else "context"
            raise BadValue(
                "catalogue", f"{name} must be given in every row, for a reward model: row {number}"
            )
        items, nth = self._at(version, number)
        rows = [next((one for one in self._rows[item] if self._has(items, one)), -1) for item in self._ids]
        drawn: Ints = nth(np.floor(uniforms * items.count).astype(np.int64))
        own = int(rounds.arm[row])
        if not self._has(items, own):
            raise BadValue("catalogue", f"catalogue must be that of the log: row {number} played place {own}")
        places = np.concatenate([[own], np.array(rows, dtype=np.int64), drawn])
        matrix = np.asarray(items.matrix[np.maximum(places, 0)], dtype=np.float64)
        arms = self._listing.features.products.join(matrix, np.array(context, dtype=np.float64))
        if arms.shape[1] != played.size or np.abs(arms[0] - played).max() > SAME * np.abs(played).max():
            raise BadValue(
                "catalogue",
                f"catalogue must be that of the log: the item that was played in row {number} has other "
                "features there",
            )
        return arms, places[1 : 1 + len(rows)] >= 0

    @staticmethod
    def _has(items: Items, row: int) -> bool:
        return 0 <= row < len(items.live) and bool(items.live[row])

    def _at(self, version: int, number: int) -> tuple[Items, NthLive]:
        if self._then is None or self._then[0].version != version:
            known = self._listing.catalogue
            if not known.since <= version <= known.version:
                raise BadValue(
                    "catalogue",
                    f"catalogue knows its versions {known.since} to {known.version}, and row {number} was "
                    f"decided among version {version}",
                )
            items = known.at(version)
            self._then = items, NthLive(items.live, items.count)
        return self._then

    def _mass(self, target: Target, there: Any) -> Floats:
        """What of a target's law each listed item stands for, flat (ΣK,)."""
        mass = np.zeros((len(there), 1 + len(self._ids) + self._draws))
        if isinstance(target, ItemsTarget):
            mass[:, 1 : 1 + len(self._ids)] = there * [target.chances.get(item, 0.0) for item in self._ids]
        else:
            mass[:, 1 + len(self._ids) :] = 1.0 / self._draws
        return mass.reshape(-1)

    def _played(self, rounds: Rounds) -> Floats:
        """The features of the items that were played (n, d)."""
        column = rounds.extra["features"]
        widths = column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
        if (wrong := np.flatnonzero(widths != self._listing.features.dim)).size:
            raise BadValue(
                "catalogue",
                f"features must have the {self._listing.features.dim} numbers of the catalogue's map: row "
                f"{int(rounds.row[wrong[0]])} has {max(int(widths[wrong[0]]), 0)}",
            )
        flat = column.flatten().to_numpy(zero_copy_only=False)
        return np.array(flat, dtype=np.float64).reshape(len(rounds), -1)
