"""The bandits in memory, each at what the log says.

All of it happens in the event loop's thread, but for reading the log and writing snapshots.
"""

import asyncio
import contextlib
import functools
import logging
import math
import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from linmed.serve import store
from linmed.serve.bandit import Bandit
from linmed.serve.database import Database, cause, trouble
from linmed.serve.errors import Refused
from linmed.serve.items import Catalogue, present_catalogue
from linmed.serve.scheduling import Pool

logger = logging.getLogger("linmed.serve")

RETRY = 10.0
"""Seconds until a bandit that could not be loaded is tried again."""


class Memory:
    """Bandits by name and by number."""

    def __init__(
        self,
        database: Database,
        snapshot_every: int,
        submit: Callable[[Callable[[], None]], bool],
        threads: Pool,
    ):
        self.database, self.snapshot_every, self.submit = database, snapshot_every, submit
        self.threads = threads
        self.by_name: dict[str, Bandit] = {}
        self.by_number: dict[int, Bandit] = {}
        self._one_load = asyncio.Lock()
        self._missed: list[Any] | None = None  # rewards passed on while a bandit is being loaded
        self._reloads: dict[int, asyncio.Task[None]] = {}
        self.broken: dict[str, float] = {}
        """Bandits that cannot be loaded, whatever the reason, and when each may be tried again."""

    async def load(self, name: str, revision: int = 0) -> Bandit:
        """The bandit called `name` from the log, at least at `revision`.

        One that cannot be loaded is refused without another attempt for a while: the others are served.
        """
        if time.monotonic() < self.broken.get(name, 0.0):
            raise _broken(name)
        try:
            bandit = await self._load(name, revision)
        except Exception as error:
            if isinstance(error, Refused) or trouble(error):
                raise
            logger.exception("bandit %s cannot be loaded; the others are served", name)
            self.broken[name] = time.monotonic() + RETRY
            raise _broken(name) from None
        self.broken.pop(name, None)
        return bandit

    async def _load(self, name: str, revision: int) -> Bandit:
        async with self._one_load:
            known = self.by_name.get(name)
            if known is not None and known.revision >= max(revision, 1):
                return known
            if known is not None and known.adopts(await self.threads.run(self._described, known)):
                return known
            self._missed = []
            try:
                bandit, unsound = await self.threads.run(self._read, name, known)
                if unsound:
                    self.submit(functools.partial(self._forget, unsound))
                store.fold(bandit, [row for row in self._missed if row.bandit == bandit.id])
                self.by_name[name] = self.by_number[bandit.id] = bandit
                return bandit
            finally:
                self._missed = None

    def _described(self, known: Bandit) -> Bandit:
        with self.database.reader.begin() as connection:
            row = store.the_bandit(connection, known.name)
            found = store.as_bandit(connection, row, present_catalogue(connection, row, known.catalogue))
        if found.router is not None:
            found.router.after(known.router)
        return found

    def _read(self, name: str, known: Bandit | None) -> tuple[Bandit, store.Rows]:
        with self.database.reader.begin() as connection:
            row = store.the_bandit(connection, name)
            catalogue = present_catalogue(connection, row, None if known is None else known.catalogue)
            bandit, unsound = recovered(connection, row, catalogue)
        if known is not None and bandit.router is not None:
            bandit.router.after(known.router)
        bandit.make_ready()
        return bandit, unsound

    def _forget(self, unsound: store.Rows) -> None:
        with self.database.writer.begin() as connection:
            for snapshot in unsound:
                store.forget_snapshot(connection, snapshot)

    def fold(self, rows: store.Rows) -> None:
        """Rewards of the log, in order, each exactly once."""
        if self._missed is not None:
            self._missed.extend(rows)
        by_number: dict[int, list[Any]] = {}
        for row in rows:
            by_number.setdefault(row.bandit, []).append(row)
        for number, own in by_number.items():
            bandit = self.by_number.get(number)
            if bandit is not None:
                self._fold(bandit, own)

    def _fold(self, bandit: Bandit, rows: store.Rows) -> None:
        """Its rewards; a state that cannot take them is not to be trusted, and is made anew from the log."""
        try:
            store.fold(bandit, rows)
        except Exception:
            logger.exception("bandit %s cannot take its rewards; it is loaded again", bandit.name)
            del self.by_number[bandit.id], self.by_name[bandit.name]
            self.broken[bandit.name] = 0.0  # to be tried with the next request
        else:
            if bandit.since_snapshot >= self.snapshot_every:
                self.snapshot(bandit)

    def snapshot(self, bandit: Bandit) -> None:
        """Have the state written as it is now."""
        seq, state = bandit.seq, bandit.save()

        def write() -> None:
            with self.database.writer.begin() as connection:
                store.add_snapshot(connection, bandit.id, bandit.version, seq, state)

        if self.submit(write):
            bandit.since_snapshot = 0

    def save(self, deadline: float) -> None:
        """Write every state that has moved since its last snapshot (when nothing else writes any more).

        Those whose turn comes after the deadline (`time.monotonic()`) are made again from the log.
        """
        for bandit in self.by_number.values():
            if bandit.since_snapshot and time.monotonic() < deadline:
                with contextlib.suppress(sa.exc.SQLAlchemyError), self.database.writer.begin() as connection:
                    store.add_snapshot(connection, bandit.id, bandit.version, bandit.seq, bandit.save())

    def changed(self, revisions: dict[int, int]) -> None:
        """Load again what another server has changed; until then the old settings serve."""
        for number, bandit in self.by_number.items():
            revision = revisions.get(number, 0)
            if revision > bandit.revision and number not in self._reloads:
                task = asyncio.get_running_loop().create_task(self._reload(bandit.name, revision))
                self._reloads[number] = task
                task.add_done_callback(functools.partial(self._reloaded, number))

    def _reloaded(self, number: int, task: "asyncio.Task[None]") -> None:
        del self._reloads[number]

    async def _reload(self, name: str, revision: int) -> None:
        try:
            await self.load(name, revision)
        except Refused:
            pass  # the reason is in the log, and it is tried again
        except sa.exc.SQLAlchemyError as error:
            logger.warning("cannot load a bandit again", extra={"bandit": name, "error": cause(error)})


def _broken(name: str) -> Refused:
    text = f"bandit {name!r} cannot be loaded: the server's log says why"
    return Refused("unavailable", text, retry_after=math.ceil(RETRY))


def recovered(
    connection: Connection, row: Row[Any], catalogue: Catalogue | None = None
) -> tuple[Bandit, store.Rows]:
    """The bandit of this row of `bandits`: the newest sound snapshot or its origin, then the rewards.

    Also the snapshots that were passed over. Whatever is wrong with one, the log has everything.
    """
    unsound: list[Row[Any]] = []
    last = store.last_seq(connection, row.id)
    for snapshot in store.newest_snapshots(connection, row.id, row.version):
        bandit = store.as_bandit(connection, row, catalogue)  # a state of its own: it may be half read
        try:
            _check(snapshot, row.version, last)
            bandit.load(snapshot.state, snapshot.seq)
            break
        except Exception as error:
            logger.warning("snapshot %d of bandit %s is passed over: %s", snapshot.seq, row.name, error)
            unsound.append(snapshot)
    else:
        bandit = store.as_bandit(connection, row, catalogue)
        if (origin := store.origin(connection, bandit.id)) is not None:
            bandit.load(origin, 0)
    store.fold_log(connection, bandit)
    return bandit, unsound


def _check(snapshot: Row[Any], version: int, last: int) -> None:
    """Refuse a snapshot that is damaged, or that knows more than a log that ends at reward `last`."""
    place = (snapshot.bandit, snapshot.version, snapshot.seq)
    if snapshot.digest != store.snapshot_digest(*place, snapshot.state):
        raise ValueError("its digest does not match")
    if snapshot.version > version or snapshot.seq > last:
        raise ValueError(f"the log ends before it, at version {version} and reward {last}")
