"""The one thread that decides, writes and learns.

Requests wait in a queue. Whatever has gathered while the last transaction was being committed is decided
and written in the next one (group commit), and answered only when it is committed. Rewards enter the
states after their commit, in the order of their numbers, which is the same on every server; so each state
is the fold of the log, and all servers agree to the last bit.
"""

import contextlib
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from linmed.checks import Floats
from linmed.serve import store
from linmed.serve.bandit import Arms, Bandit
from linmed.serve.database import Database

logger = logging.getLogger("linmed.serve")

ATTEMPTS = 5
GROUP = 512
"""Requests in one transaction."""


class Refused(Exception):
    """A request that cannot be granted: the HTTP status and what to say."""

    def __init__(self, status: int, message: str, retry_after: int | None = None):
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


@dataclass(eq=False)
class Ask:
    """One decision that a request wants."""

    arms: Arms
    key: str | None = None


@dataclass(eq=False)
class Job:
    """One request: all of its parts are written, or none."""

    bandit: int  # id
    answer: Any = field(default_factory=Future)  # or an asyncio.Future


@dataclass(eq=False)
class Decide(Job):
    """Take decisions."""

    asks: Sequence[Ask] = ()

    def __len__(self) -> int:
        return len(self.asks)


@dataclass(eq=False)
class Reward(Job):
    """Take rewards: (decision id, reward)."""

    rewards: Sequence[tuple[str, float]] = ()

    def __len__(self) -> int:
        return len(self.rewards)


@dataclass(eq=False)
class Call:
    """Something to do between two transactions, in the engine's thread."""

    function: Callable[[], Any]
    answer: "Future[Any]" = field(default_factory=Future)

    def __len__(self) -> int:
        return 0


Outcome = list[dict[str, Any]] | Refused


class Engine:
    """Owns the states. Everything else talks to it through `submit`."""

    def __init__(self, database: Database, *, staleness: float, max_waiting: int, snapshot_every: int):
        self.database = database
        self.max_waiting, self.snapshot_every = max_waiting, snapshot_every
        self.bandits: dict[int, Bandit] = {}
        self.seq = 0
        self.changed: Callable[[int], None] = lambda bandit: None
        """Called with a bandit's id when another server has changed it."""
        self.committed: Callable[[int, int, float], None] = lambda decisions, rewards, seconds: None
        """Called after every transaction."""
        self.deliver: Callable[[Callable[[], None]], Any] = lambda settle: settle()
        """Runs a function where the answers are awaited; an event loop gives its call_soon_threadsafe."""
        self.waiting = 0
        self._pause = staleness / 2
        self._looked = 0.0
        self._random = np.random.Generator(np.random.PCG64(secrets.randbits(256)))
        self._queue: deque[Decide | Reward | Call] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="linmed-engine")

    def start(self) -> None:
        """Begin where the log ends."""
        with self.database.reader.begin() as connection:
            self.seq = store.last_seq(connection)
        self._looked = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Finish what was accepted, write snapshots, end."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def submit(self, job: Decide | Reward | Call) -> None:
        """Queue a job, or refuse it when too much is waiting."""
        with self._wake:
            if self._stopping:
                raise Refused(503, "the server is shutting down", 1)
            if self.waiting and self.waiting + len(job) > self.max_waiting:
                raise Refused(429, f"{self.waiting} decisions and rewards are waiting already: try again", 1)
            self.waiting += len(job)
            self._queue.append(job)
            self._wake.notify()

    def adopt(self, bandit: Bandit) -> None:
        """Serve this bandit from now on (in the engine's thread)."""
        known = self.bandits.get(bandit.id)
        if known is not None and known.revision >= bandit.revision:
            return
        with self.database.reader.begin() as connection:  # what came in while it was being loaded
            for rows in store.bandit_rewards(connection, bandit.id, bandit.seq):
                store.fold(bandit, rows)
        self.bandits[bandit.id] = bandit

    # The thread

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._queue and not self._stopping:
                    self._wake.wait(self._pause)
                jobs = [self._queue.popleft() for _ in range(min(GROUP, len(self._queue)))]
                if not jobs and self._stopping:
                    break
            try:
                self._work(jobs)
            except Exception:
                logger.exception("the engine failed on a group of requests")
                self._finish(jobs, [Refused(500, "internal error") for _ in jobs])
        for bandit in self.bandits.values():
            with contextlib.suppress(Exception):
                self._snapshot(bandit)

    def _work(self, jobs: list[Decide | Reward | Call]) -> None:
        if time.monotonic() - self._looked >= self._pause:
            self._look_around()
        calls = [job for job in jobs if isinstance(job, Call)]
        work = [job for job in jobs if not isinstance(job, Call)]
        if work:
            self._finish(work, self._write(work))
        for call in calls:
            try:
                call.answer.set_result(call.function())
            except Exception as error:
                call.answer.set_exception(error)
        for bandit in self.bandits.values():
            if bandit.since_snapshot >= self.snapshot_every:
                self._snapshot(bandit)

    def _finish(self, jobs: Sequence[Decide | Reward | Call], outcomes: Sequence[Outcome]) -> None:
        with self._wake:
            self.waiting -= sum(map(len, jobs))
        self.deliver(lambda: settle(jobs, outcomes))

    def _look_around(self) -> None:
        """Fold what other servers have written, and hear of bandits they have changed."""
        try:
            with self.database.reader.begin() as connection:
                while True:
                    rows = store.rewards_after(connection, self.seq, store.FOLD_ROWS)
                    self._fold(rows)
                    if len(rows) < store.FOLD_ROWS:
                        break
                present = store.revisions(connection)
        except sa.exc.DBAPIError as error:
            logger.warning("cannot read the log: %s", type(error).__name__)
            return
        self._looked = time.monotonic()
        for bandit in list(self.bandits.values()):
            if present.get(bandit.id, 0) > bandit.revision:
                self.changed(bandit.id)

    def _fold(self, rows: store.Rows) -> None:
        by_bandit: dict[int, list[Row[Any]]] = {}
        for row in rows:
            by_bandit.setdefault(row.bandit, []).append(row)
        for number, own in by_bandit.items():
            if number in self.bandits:
                store.fold(self.bandits[number], own)
        if rows:
            self.seq = rows[-1].seq

    def _snapshot(self, bandit: Bandit) -> None:
        if bandit.since_snapshot:
            with self.database.writer.begin() as connection:
                store.add_snapshot(connection, bandit)
            bandit.since_snapshot = 0

    # One transaction

    def _write(self, jobs: list[Decide | Reward]) -> list[Outcome]:
        started = time.perf_counter()
        for attempt in range(ATTEMPTS):
            group = Group(self, jobs)
            try:
                with self.database.writer.begin() as connection:
                    group.write(connection)
            except sa.exc.DBAPIError as error:
                # Another server used the same key at the same moment, or the database went away. Nothing
                # was answered, so the group may be decided anew; a commit whose fate is unknown shows in
                # the log when it is read again.
                group.undo()
                logger.warning("transaction failed (%s), attempt %d", type(error.orig).__name__, attempt + 1)
                time.sleep(0.05 * attempt)
            except BaseException:
                group.undo()
                raise
            else:
                group.keep()
                self._fold(group.foreign)
                self._fold(group.rewards)
                self.committed(len(group.rows), len(group.rewards), time.perf_counter() - started)
                return group.outcomes
        return [Refused(503, "the database does not answer", 1) for _ in jobs]

    def noise(self, bandit: Bandit) -> Floats:
        """Random numbers for one decision."""
        shape = (1, bandit.policy.noise_size(bandit.dim))
        uniform = bandit.policy.noise == "uniform"
        return self._random.random(shape) if uniform else self._random.standard_normal(shape)


@dataclass(frozen=True)
class Taken:
    """A reward just written, in the shape of a row of the log."""

    seq: int
    bandit: int
    reward: float
    version: int
    features: bytes
    kept: bytes | None


class Group:
    """The requests of one transaction."""

    def __init__(self, engine: Engine, jobs: list[Decide | Reward]):
        self.engine, self.jobs = engine, jobs
        self.rows: list[dict[str, Any]] = []  # decisions to be written
        self.foreign: store.Rows = ()  # other servers' rewards, read under the lock
        self.rewards: list[Any] = []  # our own, as rows of the log
        self.outcomes: list[Outcome] = []
        self._before: dict[int, dict[str, Any]] = {}  # states to go back to if the commit fails

    def write(self, connection: Connection) -> None:
        """Decide and write everything; the caller commits."""
        outcomes: dict[int, Outcome] = {}
        decide = [(i, job) for i, job in enumerate(self.jobs) if isinstance(job, Decide)]
        reward = [(i, job) for i, job in enumerate(self.jobs) if isinstance(job, Reward)]
        if decide:
            earlier: dict[tuple[int, str], Any] = self._earlier(connection, [job for _, job in decide])
            for i, job in decide:
                outcomes[i] = self._decide(connection, job, earlier)
            if self.rows:
                store.add_decisions(connection, self.rows)
        if reward:
            self.engine.database.lock(connection)
            self.foreign = store.rewards_after(connection, self.engine.seq)
            wanted = {identifier for _, job in reward for identifier, _ in job.rewards}
            found = store.decisions_to_reward(connection, sorted(wanted))
            taken: dict[str, float] = {}
            written: list[dict[str, Any]] = []
            for i, job in reward:
                outcomes[i] = self._reward(job, found, taken, written)
            if written:
                store.add_rewards(connection, written)
        self.outcomes = [outcomes[i] for i in range(len(self.jobs))]

    def undo(self) -> None:
        """The transaction did not happen."""
        for number, arrays in self._before.items():
            bandit = self.engine.bandits[number]
            bandit.state.restore(arrays)
            bandit.anchored = False

    def keep(self) -> None:
        """The transaction is committed."""
        decided = {row["bandit"] for row in self.rows}
        for number in self._before.keys() & decided:
            self.engine.bandits[number].anchored = True

    def _earlier(self, connection: Connection, jobs: list[Decide]) -> dict[tuple[int, str], Any]:
        keys: dict[int, list[str]] = {}
        for job in jobs:
            names = [ask.key for ask in job.asks if ask.key is not None]
            if names:
                keys.setdefault(job.bandit, []).extend(names)
        return dict(store.decisions_by_key(connection, keys))

    def _decide(self, connection: Connection, job: Decide, earlier: dict[tuple[int, str], Any]) -> Outcome:
        bandit = self.engine.bandits.get(job.bandit)
        if bandit is None:
            return Refused(503, "the bandit is being loaded", 1)
        if bandit.archived:
            return Refused(409, f"bandit {bandit.name!r} is archived: it takes no more decisions")
        if bandit.keeps and not bandit.anchored:
            self._anchor(connection, bandit)
        rows: list[dict[str, Any]] = []
        answers: list[dict[str, Any]] = []
        own: dict[tuple[int, str], Any] = {}
        for place, ask in enumerate(job.asks):
            digest = None if ask.key is None else ask.arms.digest()
            if ask.key is not None:
                known = own.get((job.bandit, ask.key)) or earlier.get((job.bandit, ask.key))
                if known is not None:
                    row = known if isinstance(known, dict) else known._mapping
                    if row["digest"] != digest:
                        return Refused(409, f"key {ask.key!r} was used before for a decision among other arms")
                    answers.append(answer(row, repeated=True))
                    continue
            try:
                row = self._draw(bandit, ask, digest)
            except ValueError as error:
                where = f"decisions[{place}].arms: " if len(job.asks) > 1 else ""
                return Refused(422, f"{where}{error}")
            rows.append(row)
            if ask.key is not None:
                own[(job.bandit, ask.key)] = row
            answers.append(answer(row, repeated=False))
        earlier.update(own)
        self.rows.extend(rows)
        return answers

    def _draw(self, bandit: Bandit, ask: Ask, digest: bytes | None) -> dict[str, Any]:
        vectors, ids = ask.arms
        drawn = bandit.draw(vectors, self.engine.noise(bandit))
        return {
            "id": new_id(),
            "bandit": bandit.id,
            "key": ask.key,
            "digest": digest,
            "version": bandit.version,
            "absorbed": bandit.count,
            "time": store.now(),
            "arm": drawn.arm,
            "arm_id": None if ids is None else ids[drawn.arm],
            "arm_count": len(vectors),
            "best": drawn.best,
            "log_probability": drawn.log_probability,
            "features": store.blob(drawn.features),
            "kept": store.blob(drawn.kept),
            "log_probabilities": store.blob(drawn.log_probabilities),
            "arms": store.blob(vectors) if bandit.log_arms else None,
        }

    def _anchor(self, connection: Connection, bandit: Bandit) -> None:
        """A policy that remembers its first arms must remember the same ones on every server."""
        self.engine.database.lock(connection)
        self._before[bandit.id] = {name: array.copy() for name, array in bandit.state.arrays().items()}
        first = store.first_decision(connection, bandit.id, bandit.version)
        if first is not None:
            bandit.anchor(store.vector(first.arms).reshape(-1, bandit.dim), first.arm)

    def _reward(
        self, job: Reward, found: dict[str, Row[Any]], taken: dict[str, float], written: list[dict[str, Any]]
    ) -> Outcome:
        fresh: dict[str, float] = {}
        answers: list[dict[str, Any]] = []
        for identifier, reward in job.rewards:
            row = found.get(identifier)
            if row is None or row.bandit != job.bandit:
                return Refused(404, f"decision_id {identifier!r} is no decision of this bandit")
            before = fresh.get(identifier, taken.get(identifier, row.reward))
            if before is not None and before != reward:
                return Refused(
                    409,
                    f"decision {identifier!r} has had the reward {before!r}; it cannot also be {reward!r}",
                )
            if before is None:
                fresh[identifier] = reward
            answers.append({"decision_id": identifier, "reward": reward, "repeated": before is not None})
        last = self.foreign[-1].seq if self.foreign else self.engine.seq
        for identifier, reward in fresh.items():
            row = found[identifier]
            seq = last + len(written) + 1
            written.append(
                {"seq": seq, "decision": row.number, "bandit": row.bandit, "reward": reward, "time": store.now()}
            )
            self.rewards.append(Taken(seq, row.bandit, reward, row.version, row.features, row.kept))
        taken.update(fresh)
        return answers


def settle(jobs: Sequence[Decide | Reward | Call], outcomes: Sequence[Outcome]) -> None:
    """Answer them all."""
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.answer.done():  # the caller has gone
            continue
        if isinstance(outcome, Refused):
            job.answer.set_exception(outcome)
        else:
            job.answer.set_result(outcome)


_last_id = [0]


def new_id() -> str:
    """128 bits in hexadecimal that grow with time, so that the index stays compact: 64 of time, 64 random."""
    _last_id[0] = max(_last_id[0] + 1, time.time_ns())
    return f"{_last_id[0]:016x}{secrets.token_hex(8)}"


def answer(row: Any, repeated: bool) -> dict[str, Any]:
    """A decision as the API shows it."""
    every = row["log_probabilities"]
    return {
        "decision_id": row["id"],
        "arm": row["arm"],
        "arm_id": row["arm_id"],
        "probability": float(np.exp(row["log_probability"])),
        "log_probability": row["log_probability"],
        "probabilities": None if every is None else np.exp(store.vector(every)).tolist(),
        "policy_version": row["version"],
        "repeated": repeated,
    }
