"""Write everything, in one thread.

Decisions are drawn where requests are handled; here they become durable. Whatever has gathered while the
last transaction was being committed is written in the next one (group commit), and answered only when it is
committed. With the answers come the rewards to be folded: our own and those of other servers, in the order
of their numbers, which is the same on every server; so each state is the fold of the log, and all servers
agree to the last bit.
"""

import logging
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from linmed.serve import store
from linmed.serve.database import CAME, Database, cause, decisions, now, rewards, trouble
from linmed.serve.errors import Refused, stopping

logger = logging.getLogger("linmed.serve")

ATTEMPTS = 5
GROUP = 512
"""Requests in one transaction."""
DUE = 250
"""Deadlines in one: what they change is folded at once, and decisions wait for it."""
CHECKPOINT = 5.0
"""Seconds between two checkpoints of an idle engine; a busy one's commits make them by the WAL's size."""


@dataclass(eq=False, slots=True)
class Decide:
    """Hold one request for decisions, drawn already: all are written, or none.

    A row whose key is in the log is not written; the answer is the row of the log.
    """

    rows: list[dict[str, Any]]
    answer: Any = field(default_factory=Future)  # or an asyncio.Future
    where: str = ""
    """Where row number {} stands in the request, for errors: "decisions[{}]."."""

    def __len__(self) -> int:
        return len(self.rows)


Given = tuple[str, float, str | None]


@dataclass(eq=False, slots=True)
class Reward:
    """Hold one request with rewards (decision id, reward, outcomes as JSON): all are written, or none."""

    bandit: int
    rewards: Sequence[Given]
    answer: Any = field(default_factory=Future)
    where: str = ""

    def __len__(self) -> int:
        return len(self.rewards)


@dataclass(eq=False, slots=True)
class Call:
    """Hold something else to write: a function that makes its own transaction."""

    function: Callable[[], Any]
    answer: Any = field(default_factory=Future)

    def __len__(self) -> int:
        return 0


Counts = Mapping[int, int]
"""How many of each bandit."""
Job = Decide | Reward | Call
Outcome = list[Any] | Refused


class Engine:
    """Take jobs in one thread (an event loop's), write in another, and answer in the first."""

    def __init__(
        self,
        database: Database,
        *,
        staleness: float = 1.0,
        max_waiting: int = 4096,
        deliver: Callable[[Callable[[], None]], Any] = lambda function: function(),
    ):
        self.database, self.max_waiting = database, max_waiting
        self.deliver = deliver
        """Runs a function where jobs are submitted: an event loop's call_soon_threadsafe."""
        self.fold: Callable[[store.Rows], None] = lambda rows: None
        """Called there with every reward of the log after `seq`, in order, before the answers."""
        self.changed: Callable[[dict[int, int]], None] = lambda revisions: None
        """Called there, about twice in `staleness`, with the revisions of all bandits."""
        self.committed: Callable[[Counts, Counts, float], None] = lambda decisions, rewards, seconds: None
        """Called after every transaction with its decisions and rewards of each bandit, and its time."""
        self.failed = False
        self.writes = True
        """Whether the last transaction was written; where the database is full or gone, it was not."""
        self.waiting = 0
        self.seq = 0
        """The number of the last reward that has been passed on."""
        self.times = Times()
        self._pause = staleness / 2
        self._looked = 0.0
        self._written, self._rested = False, 0.0
        self._due = False  # a deadline has come: the next transaction says what became of it
        self._queue: deque[Job] = deque()
        self._writing: list[Job] = []
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="linmed-engine")

    def start(self) -> None:
        """Begin where the log ends."""
        with self.database.reader.begin() as connection:
            self.seq = store.last_seq(connection)
            self.times.begin(connection)
        self._looked = time.monotonic()
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Finish what was accepted, and end; then refuse the rest. Return whether all was finished."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(seconds)
        if not self._thread.is_alive():
            return True
        with self._wake:
            left = [*self._writing, *self._queue]
            self._queue.clear()
        logger.error("the database does not answer: %d requests are refused", len(left))
        self._answer(left, [stopping() for _ in left])
        return False

    @property
    def alive(self) -> bool:
        """Say whether decisions can be written and rewards folded."""
        return self._thread.is_alive() and not self.failed

    def submit(self, *jobs: Job) -> None:
        """Queue jobs that were accepted."""
        with self._wake:
            if self._stopping:
                raise stopping()
            self._queue.extend(jobs)
            self._wake.notify()

    def accept(self, job: Job) -> None:
        """Count a job, or refuse it when too much is waiting already."""
        if self.waiting and self.waiting + len(job) > self.max_waiting:
            text = f"{self.waiting} decisions and rewards are waiting already: try again"
            raise Refused("overloaded", text, retry_after=1)
        self.waiting += len(job)

    # The thread

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._queue and not self._stopping and not self._due:
                    self._wake.wait(self._pause)
                jobs = [self._queue.popleft() for _ in range(min(GROUP, len(self._queue)))]
                self._writing = jobs
                if not jobs and self._stopping:
                    return
            if time.monotonic() - self._looked >= self._pause:
                self._look_around()
            if not jobs:
                self._rest()
            calls = [job for job in jobs if isinstance(job, Call)]
            work = [job for job in jobs if not isinstance(job, Call)]
            if work or self._due:
                self._answer(work, *self._write(work))
            for call in calls:
                self._answer([call], [self._call(call)])

    def _answer(self, jobs: Sequence[Job], outcomes: Sequence[Any], rows: store.Rows = ()) -> None:
        def answer() -> None:
            self.waiting -= sum(map(len, jobs))
            try:
                if rows:
                    self.fold(rows)
            except Exception:
                self.failed = True  # what was written is answered, but the state is not to be trusted
                logger.exception("rewards could not be folded; start the server again")
            for job, outcome in zip(jobs, outcomes, strict=True):
                if job.answer.done():  # the caller has gone
                    continue
                try:
                    if isinstance(outcome, Exception):
                        job.answer.set_exception(outcome)
                    else:
                        job.answer.set_result(outcome)
                except Exception:  # one that cannot be told must not keep the others from theirs
                    logger.exception("an answer could not be given")

        self.deliver(answer)

    def _call(self, call: Call) -> Any:
        try:
            found = call.function()
        except Exception as error:
            if trouble(error):
                self.writes = False
                logger.warning("a transaction failed", extra={"error": cause(error)})
            return error
        self.writes = self._written = True
        return found

    def _rest(self) -> None:
        """Move SQLite's WAL into the file while there is nothing to do, and not too often."""
        if self._written and time.monotonic() - self._rested >= CHECKPOINT:
            self._rested = time.monotonic()
            try:
                self._written = not self.database.checkpoint()
            except sqlite3.Error as error:
                logger.warning("cannot move the WAL into the database", extra={"error": cause(error)})

    def _look_around(self) -> None:
        """Pass on what other servers have written and when, and the revisions of the bandits."""
        try:
            with self.database.reader.begin() as connection:
                while rows := store.rewards_after(connection, self.seq, store.FOLD_ROWS):
                    self.seq = rows[-1].seq
                    self._answer([], [], rows)
                revisions = store.revisions(connection)
                self.times.follow(connection)
                deadline = store.first_deadline(connection)
        except Exception as error:  # whatever it is, the thread goes on: decisions wait for it
            ours = not isinstance(error, sa.exc.SQLAlchemyError)
            logger.warning("cannot read the log", extra={"error": cause(error)}, exc_info=ours)
            return
        self._looked = time.monotonic()
        self._due = deadline is not None and deadline <= now()
        self.deliver(lambda: self.changed(revisions))

    def _write(self, jobs: list[Decide | Reward]) -> tuple[list[Outcome], store.Rows]:
        started = time.perf_counter()
        for attempt in range(ATTEMPTS):
            group = Group(self.database, self.seq, jobs, attempt > 0, self.times.last, self._due)
            try:
                with self.database.writer.begin() as connection:
                    group.write(connection)
            except sa.exc.SQLAlchemyError as error:
                # Another server used the same key at the same moment, or the database went away. Nothing
                # was answered, so the group is written again. Did the commit succeed after all, the log
                # has the decisions by their ids, and the rewards as if another server had taken them.
                logger.warning("a transaction failed", extra={"error": cause(error), "attempt": attempt + 1})
                time.sleep(0.05 * attempt)
            except Exception:
                logger.exception("a group of requests failed")
                self._due = False
                return [Refused("failed", "internal error") for _ in jobs], ()
            else:
                self.seq, self.writes, self._written = group.seq, True, True
                self._due = group.expired == DUE
                self.times.last.update(group.moved)
                taken = Counter(one.bandit for one in group.taken if one.kind in CAME)
                self.committed(group.decided, taken, time.perf_counter() - started)
                return group.outcomes, [*group.foreign, *group.taken]
        self.writes = self._due = False
        return [Refused("unavailable", "the database does not answer", retry_after=1) for _ in jobs], ()


@dataclass(frozen=True, slots=True)
class Taken:
    """Hold a reward just written, in the shape of a row of the log."""

    seq: int
    bandit: int
    kind: str
    reward: float
    version: int
    features: bytes
    kept: bytes | None
    context: bytes | None
    item: bytes | None
    decided: int


class Group:
    """Write the requests of one transaction; `again` if an earlier attempt may have been committed.

    What is written is no earlier than the last moment of its bandit in `times`. Before rewards, and where
    `due`, it writes what became of deadlines, in their order.
    """

    def __init__(
        self,
        database: Database,
        seq: int,
        jobs: Sequence[Decide | Reward],
        again: bool = False,
        times: Mapping[int, int] = MappingProxyType({}),
        due: bool = False,
    ):
        self.database, self.seq, self.jobs, self.again, self.times = database, seq, jobs, again, times
        self.due, self.expired = due, 0  # whether deadlines have come, and how many are written here
        self.moved: dict[int, int] = {}  # what becomes of `times`
        self.decided: Counts = {}  # of each bandit
        self.foreign: store.Rows = ()  # other servers' rewards, read under the lock
        self.taken: list[Any] = []  # our own
        self.outcomes: list[Outcome] = []

    def write(self, connection: Connection) -> None:
        """Write everything; the caller commits."""
        outcomes: dict[Job, Outcome] = {}
        decide = [job for job in self.jobs if isinstance(job, Decide)]
        reward = [job for job in self.jobs if isinstance(job, Reward)]
        if decide:
            self._decide(connection, decide, outcomes)
        if reward or self.due:
            self.database.lock(connection)
            self.foreign = store.rewards_after(connection, self.seq)
            if self.foreign:
                self.seq = self.foreign[-1].seq
        if reward:
            moment = max(now(), *(self.times.get(job.bandit, 0) for job in reward))
            while self._expire(connection, moment - 1) == DUE:  # those before the rewards
                pass
            self._reward(connection, reward, outcomes)
        elif self.due:
            self.expired = self._expire(connection, now())
        self.outcomes = [outcomes[job] for job in self.jobs]

    def _decide(self, connection: Connection, jobs: list[Decide], outcomes: dict[Job, Outcome]) -> None:
        keys: dict[int, list[str]] = {}
        rows = [row for job in jobs for row in job.rows]
        for row in rows:
            if row["key"] is not None:
                keys.setdefault(row["bandit"], []).append(row["key"])
        known = store.decisions_by_key(connection, keys) if keys else {}
        ours = store.decisions_known(connection, [row["id"] for row in rows]) if self.again else set()
        written: list[dict[str, Any]] = []
        for job in jobs:
            outcomes[job], fresh = decided(job, known, ours) if keys or ours else (job.rows, job.rows)
            written.extend(fresh)
        if written:
            for row in written:
                row["time"] = self._time(row["bandit"], row["time"])
            store.add_decisions(connection, written)
            store.add_waiting(connection, written)
        self.decided = Counter(row["bandit"] for row in [*written, *(r for r in rows if r["id"] in ours)])

    def _reward(self, connection: Connection, jobs: list[Reward], outcomes: dict[Job, Outcome]) -> None:
        wanted = {identifier for job in jobs for identifier, *_ in job.rewards}
        found = store.decisions_to_reward(connection, sorted(wanted))
        given: dict[str, Any] = {}
        written: list[dict[str, Any]] = []
        early: list[int] = []  # that are learned before their deadline
        for job in jobs:
            outcomes[job], fresh = rewarded(job, found, given)
            given.update(fresh)
            for identifier, (reward, more) in fresh.items():
                row = found[identifier]
                kind = "late" if row.assumed is not None else "held" if row.hold else "reward"
                if row.hold is False:
                    early.append(row.number)
                moment = self._time(row.bandit, max(now(), row.time))
                written.append(
                    {**self._take(row, row.number, kind, reward), "outcomes": more, "time": moment}
                )
        if written:
            store.add_rewards(connection, written)
        store.forget_waiting(connection, early)

    def _expire(self, connection: Connection, moment: int) -> int:
        """Take down what becomes of decisions whose deadline has come by a moment; return how many."""
        rows = store.due(connection, moment, DUE)
        written = []
        for row in rows:
            kind, reward = ("missing", row.missing) if row.reward is None else ("due", row.reward)
            taken = self._take(row, row.decision, kind, reward)
            written.append({**taken, "outcomes": None, "time": row.deadline})
        if written:
            store.add_rewards(connection, written)
            store.forget_waiting(connection, [row.decision for row in rows])
        return len(rows)

    def _take(self, row: Row[Any], decision: int, kind: str, reward: float) -> dict[str, Any]:
        """Number what is to be folded of a decision; return the beginning of its row."""
        self.seq += 1
        played = (row.version, row.features, row.kept, row.context, row.item, row.decided)
        self.taken.append(Taken(self.seq, row.bandit, kind, reward, *played))
        return {"seq": self.seq, "decision": decision, "bandit": row.bandit, "kind": kind, "reward": reward}

    def _time(self, bandit: int, moment: int) -> int:
        """Return `moment`, or the last one in this bandit's log if that is later."""
        last = self.moved.get(bandit, self.times.get(bandit, moment))
        self.moved[bandit] = max(moment, last)
        return self.moved[bandit]


def decided(
    job: Decide, known: dict[tuple[int, str], Any], ours: set[str]
) -> tuple[Outcome, list[dict[str, Any]]]:
    """Make the answer to one request, and say which of its rows are to be written.

    `known` are the decisions taken earlier by bandit and key, to which this request's own are added; `ours`
    the ids that an attempt without an answer has left in the log.
    """
    fresh: dict[tuple[int, str], Any] = {}
    answers: list[dict[str, Any]] = []
    written: list[dict[str, Any]] = []
    for i, row in enumerate(job.rows):
        key = (row["bandit"], row["key"])
        before = fresh.get(key) or known.get(key)
        if row["id"] in ours:
            answers.append(row)
        elif before is None:
            answers.append(row)
            written.append(row)
            if row["key"] is not None:
                fresh[key] = {**row, "repeated": True}
        elif before["digest"] != row["digest"]:
            text = f"key {row['key']!r} was used before for a decision among other arms"
            return Refused("conflict", text, job.where.format(i) + "key"), []
        else:
            answers.append(before)
    known.update(fresh)
    return answers, written


def rewarded(
    job: Reward, found: dict[str, Row[Any]], given: dict[str, tuple[float, str | None]]
) -> tuple[Outcome, dict[str, tuple[float, str | None]]]:
    """Make the answer to one request, and say which of its rewards, with their outcomes, are new."""
    fresh: dict[str, tuple[float, str | None]] = {}
    answers: list[dict[str, Any]] = []
    for i, (identifier, reward, more) in enumerate(job.rewards):
        row = found.get(identifier)
        if row is None or row.bandit != job.bandit:
            return unknown_decision(identifier, job.where.format(i)), {}
        stored = None if row.reward is None else (row.reward, row.outcomes)
        before = fresh.get(identifier, given.get(identifier, stored))
        if before is not None and before != (reward, more):
            what = "outcomes" if before[0] == reward else "reward"
            old, new = (before[0], reward) if what == "reward" else (before[1], more)
            text = f"decision {identifier!r} has had the {what} {old}; it cannot also be {new}"
            return Refused("conflict", text, job.where.format(i) + what), {}
        if before is None:
            fresh[identifier] = reward, more
        answers.append({"decision_id": identifier, "reward": reward, "repeated": before is not None})
    return answers, fresh


def unknown_decision(identifier: str, where: str = "") -> Refused:
    """Refuse an id that no decision of this bandit has."""
    return Refused(
        "unknown", f"decision_id {identifier!r} is no decision of this bandit", where + "decision_id"
    )


class Times:
    """Know the last moment of every bandit, in microseconds since 1970."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        self._seen = {decisions.c.number: 0, rewards.c.seq: 0}

    def begin(self, connection: Connection) -> None:
        """Where the log ends."""
        self.last = store.newest_times(connection)
        for number in self._seen:
            self._seen[number] = connection.execute(sa.select(sa.func.max(number))).scalar_one() or 0

    def follow(self, connection: Connection) -> None:
        """Take notice of what any server has written since."""
        for number, seen in self._seen.items():
            table = number.table
            query = sa.select(table.c.bandit, sa.func.max(table.c.time), sa.func.max(number))
            rows = connection.execute(query.where(number > seen).group_by(table.c.bandit)).all()
            for bandit, moment, newest in rows:
                self.last[bandit] = max(moment, self.last.get(bandit, moment))
                self._seen[number] = max(newest, self._seen[number])
