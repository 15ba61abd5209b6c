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
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed.agent import Agent
from linmed.log import SUM_ERROR, DecisionLog, Malformed
from linmed.log.views import View
from linmed.ope.relearned import Whole, relearned
from linmed.ope.request import Log, as_log
from linmed.ope.rounds import require
from linmed.validation import BadType, BadValue, Floats

SAME = 1e-6
"""Share of itself by which a probability that was computed again may differ from the one that was logged."""


class Laws(Protocol):
    """Who knows how probable every item was: the policy that wrote the log, at any of its states.

    `columns`, if there are any, names columns of the log, such as a context, on which a decision depended
    besides the state; `probabilities_of` takes them by these names.
    """

    def probabilities_of(self, version: int, /, **columns: Any) -> Floats | Whole | None:
        """Every item's probability by all routes, by its place, after so many rewards.

        A `Whole` is compared with every row, an array with all but those of the best item. None where it is
        not known, which must not depend on what was played: such decisions stay as they were logged.
        """


def complete(log: Log, laws: Laws | Agent) -> DecisionLog:
    """`log` with every decision's probability by all routes, so that fallbacks have a weight.

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
