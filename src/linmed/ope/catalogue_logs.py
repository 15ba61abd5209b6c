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

The laws are found by letting the agent that wrote the log learn its rewards again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import validation
from linmed.agent import Agent
from linmed.catalogue_sampler import ActionDistribution
from linmed.log import DecisionLog, Malformed
from linmed.log.schema import OF_CATALOGUE
from linmed.log.source import View
from linmed.ope.log_facts import Log, as_log, require
from linmed.validation import BadValue, Floats, Ints

SAME = 1e-6
"""Share of itself by which a probability that was computed again may differ from the one that was logged."""


def complete(log: Log, agent: Agent) -> DecisionLog:
    """Give `log` with every decision's probability by all routes, so that fallbacks have a weight.

    `agent`: the one that wrote the whole log, as it was saved. The log has the context of every decision,
    which item was the best one known, and which version of the catalogue it was taken among; the agent
    remembers these versions and its coresets. So no index is asked, and each decision's law is the one that
    it was drawn from: for accepted items it must give what was logged, and a law that does not is refused.
    Decisions among a version that the agent does not know (it was saved before the catalogue changed again),
    and those of no catalogue, stay as they are. The completed log is a view, which computes each law once;
    `save` writes it.

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
    ...     before, completed = log.table(), complete(log, agent).table()
    >>> before["probability"].null_count > 0, completed["probability"].null_count
    (True, 0)
    """
    log = as_log(log)
    if not isinstance(agent, Agent) or agent.sampler is None:
        got = agent.policy.name if isinstance(agent, Agent) else type(agent).__name__
        text = f"agent must be an agent of CatalogueMED with a catalogue, got one of {got}"
        raise BadValue("agent", text)
    require(log, ["version", "fallback"], "completing", "log")
    return DecisionLog(_Completed(log.source, _Laws(log, agent)), f"{log.name}, completed")


class _Laws:
    """How probable every item was in each decision of a log, by the agent that learns its rewards again.

    Rewards are learned in the order in which they came (`reward_time`, else the log's); `version` says how
    many a decision knew. The last law is kept, since decisions come in the order of their versions; and every
    row's probability, since a law is a pass over all items and a log is read several times.
    """

    def __init__(self, log: DecisionLog, agent: Agent) -> None:
        assert agent.sampler is not None
        self._name, self._policy, self._sampler = log.name, agent.policy, agent.sampler
        self._reads = agent.features is not None and agent.features.context_width > 0
        self.columns = OF_CATALOGUE if self._reads else tuple(n for n in OF_CATALOGUE if n != "context")
        try:
            require(log, (*self.columns, "features"), "learning an agent again", "log")
        except BadValue as error:
            raise BadValue("log", f"{error}; logs that agents write have it") from None
        timed = ["reward_time"] if "reward_time" in log.columns else []
        table = log.table(["features", "reward", *timed])
        table = table.filter(pc.is_valid(table["reward"]))
        if table["features"].null_count or not table.num_rows:
            raise BadValue("log", f"{log.name} must have rewards, each with features, to be learned again")
        order: Ints = np.arange(table.num_rows)
        if timed and not table["reward_time"].null_count:
            order = np.argsort(table["reward_time"].cast(pa.int64()).to_numpy(), kind="stable")
        self._features = validation.floats("features", table["features"].to_pylist())[order]
        self._rewards: Floats = table["reward"].to_numpy()[order]
        if len(self._rewards) < agent.count:
            raise BadValue(
                "agent",
                f"the agent has learned from {agent.count} rewards and {log.name} has {len(self._rewards)}: "
                "it began before this log (a warm start, or another log), or this is only a part of its log "
                "(complete the whole log, then take parts of it)",
            )
        self._state, self._done = self._policy.start(1, self._features.shape[1]), 0
        self._last: tuple[Any, tuple[ActionDistribution, Floats] | None] = (None, None)
        self._known: list[float | None] = []

    def completed(self, batch: pa.RecordBatch, start: int) -> pa.Array:
        """Complete the column `probability` of a batch whose first row is row `start`."""
        end = start + batch.num_rows
        if len(self._known) < end:
            done = len(self._known) - start  # rows before `start` were all read
            self._known += self._chances(batch.slice(done), start + done)
        return pa.array(self._known[start:end], pa.float64())

    def _chances(self, batch: pa.RecordBatch, start: int) -> list[float | None]:
        """The same of rows that were not read before."""
        chance: list[float | None] = batch.column("probability").to_pylist()
        fallback = batch.column("fallback").to_pylist()
        arm, version = batch.column("arm").to_pylist(), batch.column("version").to_pylist()
        told = [batch.column(name).to_pylist() for name in self.columns]
        for row, route in enumerate(fallback):
            if route is None:
                continue
            where = f"row {start + row} of {self._name}"
            if version[row] is None or arm[row] is None:
                raise BadValue("log", f"{where} has no version or no arm, by which its law would be known")
            found = self._law(version[row], [column[row] for column in told])
            if found is not None:
                chance[row] = self._chance(*found, arm[row], None if route else chance[row], where)
        return chance

    def _law(self, version: int, told: Sequence[Any]) -> tuple[ActionDistribution, Floats] | None:
        """The law of a decision, and every item's probability by all routes; None where it is not known."""
        if self._last[0] != (version, told):
            found = None
            if None not in told:
                best, catalogue_version, *context = told
                numbers = np.array(context[0] if context else [], dtype=np.float64)
                law = self._sampler.law_at(catalogue_version, best, self._at(version), numbers)
                found = None if law is None else (law, law.complete())
            self._last = (version, told), found
        return self._last[1]

    def _at(self, version: int) -> Any:
        """The state after so many rewards."""
        if not 0 <= version <= len(self._rewards):
            raise BadValue(
                "version",
                f"version {version} cannot be learned again: {self._name} has {len(self._rewards)} rewards",
            )
        if version < self._done:  # the log is read again from its beginning
            self._state, self._done = self._policy.start(1, self._features.shape[1]), 0
        if version > self._done:
            some = slice(self._done, version)
            vectors, rewards = (validation.for_kernels(one[some]) for one in (self._features, self._rewards))
            self._policy.learn(self._state, vectors, rewards, np.zeros(len(rewards), dtype=np.int64))
            self._done = version
        return self._state

    @staticmethod
    def _chance(law: ActionDistribution, every: Floats, arm: int, logged: float | None, where: str) -> float:
        """The probability by all routes: of the best item more than was logged, of others the same."""
        p = float(every[arm]) if 0 <= arm < every.size else 0.0
        told = law.probability_of(arm) if arm == law.best else p
        right = p > 0.0 and arm == law.best if logged is None else abs(told - logged) <= SAME * logged
        if not right:
            said = "was a fallback" if logged is None else f"was logged with {logged:g}"
            other = "" if arm == law.best else f", and item {law.best} is the best one there"
            raise BadValue(
                "agent",
                f"agent must be the one that wrote the log: item {arm} in {where} {said}, and by its law has "
                f"the probability {told:g}{other}",
            )
        return p


@dataclass(frozen=True)
class _Completed(View):
    """The source with other probabilities."""

    made = ("probability", "log_probability", "fallback")
    laws: _Laws

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Read the rows of the source; laws are computed only where a probability is wanted."""
        if not {"probability", "log_probability", "fallback"} & set(columns):
            yield from self.source.read(columns, rows, malformed)
            return
        wanted = dict.fromkeys([*columns, "arm", "version", "probability", "fallback", *self.laws.columns])
        start = 0
        for batch in self.source.read(list(wanted), rows, malformed):
            chance = self.laws.completed(batch, start)
            start += batch.num_rows
            made = {"probability": chance, "fallback": pc.and_(batch.column("fallback"), chance.is_null())}
            if "log_probability" in columns:
                same = pc.equal(chance, batch.column("probability")).fill_null(False)
                made["log_probability"] = pc.if_else(same, batch.column("log_probability"), pc.ln(chance))
            arrays = [made[name] if name in made else batch.column(name) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, list(columns))
