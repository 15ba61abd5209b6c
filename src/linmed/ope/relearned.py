"""The laws of a policy that learned along a log, by letting it learn again."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import validation
from linmed.agent import Agent
from linmed.log.schema import OF_CATALOGUE
from linmed.ope.request import Log, as_log
from linmed.ope.rounds import require
from linmed.policies.base import Policy, State
from linmed.routes import Routes
from linmed.validation import BadValue, Floats, Ints


class Whole(NamedTuple):
    """A decision's law, with all by which it can be compared with what was logged."""

    every: Floats
    """Every item's probability by all routes, by its place (N,)."""
    best: int
    """â."""
    accepted: float
    """The probability of â by any route but the fallback."""


def by_routes(routes: Routes) -> Callable[..., Floats]:
    """The law that `Relearned` asks of decisions by these routes, in a context if there is one.

    >>> from linmed.features import Catalogue
    >>> from linmed.ope import by_routes
    >>> from linmed.policies import CatalogueMED
    >>> from linmed.routes import Routes
    >>> policy, items = CatalogueMED(), Catalogue(["a", "b", "c"], np.eye(3))
    >>> law = by_routes(Routes(policy, items))
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
    >>> from linmed.routes import Routes
    >>> rows = {"arm": [1, 0], "probability": [0.1, 0.9], "reward": [1.0, 0.0], "features": [[0, 1], [1, 0]]}
    >>> policy, items = CatalogueMED(), Catalogue(["a", "b"], np.eye(2))
    >>> laws = Relearned(DecisionLog.from_table(rows), policy, by_routes(Routes(policy, items)))
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
        """By the state after so many rewards."""
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
    """The laws by which a saved agent decided among its catalogue, along the whole log that it wrote.

    The log has the context of every decision, which item was the best one known, and which version of the
    catalogue it was taken among; the agent remembers these versions and its coresets. So no index is asked,
    and each decision's law is the one that it was drawn from. What the agent does not know that far back has
    no law: saved by an earlier release, or saved before the catalogue changed again.

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
    log, routes = as_log(log), agent.routes
    if routes is None:
        text = f"laws must be an agent of CatalogueMED with a catalogue, got one of {agent.policy.name}"
        raise BadValue("laws", text)
    reads = agent.features is not None and agent.features.context_width > 0
    columns = OF_CATALOGUE if reads else tuple(name for name in OF_CATALOGUE if name != "context")
    try:
        require(log, columns, "learning an agent again", "log")
    except BadValue as error:
        raise BadValue("log", f"{error}; logs of this release have it") from None
    found = Relearned(log, agent.policy, _law_of(routes, reads), columns=columns)
    if found.rewards < agent.count:
        raise BadValue(
            "laws",
            f"the agent has learned from {agent.count} rewards and {log.name} has {found.rewards}: it began "
            "before this log (a warm start, or another log), or this is only a part of its log (complete the "
            "whole log, then take parts of it)",
        )
    return found


def _law_of(routes: Routes, reads: bool) -> Callable[..., Whole | None]:
    def law(
        state: State, best: int | None, catalogue_version: int | None, context: Any = None
    ) -> Whole | None:
        if best is None or catalogue_version is None or (reads and context is None):
            return None
        numbers = np.array([] if context is None else context, dtype=np.float64)
        found = routes.law_at(catalogue_version, best, state, numbers)
        return None if found is None else Whole(found.complete(), best, found.probability_of(best))

    return law
