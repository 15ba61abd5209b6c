"""The bandits in memory, each at what the log says.

All of it happens in the event loop's thread, but for reading the log and writing snapshots.
"""

import asyncio
import contextlib
import functools
import logging
import zipfile
from collections.abc import Awaitable, Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from linmed.policies import Policy
from linmed.serve import store
from linmed.serve.bandit import Bandit
from linmed.serve.database import Database

logger = logging.getLogger("linmed.serve")


class Memory:
    """Bandits by name and by number."""

    def __init__(
        self,
        database: Database,
        snapshot_every: int,
        submit: Callable[[Callable[[], None]], bool],
        prepare: Callable[[Policy], Awaitable[None]],
    ):
        self.database, self.snapshot_every, self.submit, self.prepare = (
            database, snapshot_every, submit, prepare,
        )  # fmt: skip
        self.by_name: dict[str, Bandit] = {}
        self.by_number: dict[int, Bandit] = {}
        self._one_load = asyncio.Lock()
        self._missed: list[Any] | None = None  # rewards passed on while a bandit is being loaded
        self._reloads: dict[int, asyncio.Task[None]] = {}

    async def load(self, name: str, revision: int = 0) -> Bandit:
        """The bandit called `name` from the log, at least at `revision`, its policy compiled."""
        await self.prepare(await asyncio.to_thread(self._policy, name))  # while others are loaded
        async with self._one_load:
            known = self.by_name.get(name)
            if known is not None and known.revision >= max(revision, 1):
                return known
            self._missed = []
            try:
                bandit = await asyncio.to_thread(self._read, name)
                store.fold(bandit, [row for row in self._missed if row.bandit == bandit.id])
                self.by_name[name] = self.by_number[bandit.id] = bandit
                return bandit
            finally:
                self._missed = None

    def _policy(self, name: str) -> Policy:
        with self.database.reader.begin() as connection:
            return store.policy_of(store.the_bandit(connection, name))

    def _read(self, name: str) -> Bandit:
        with self.database.reader.begin() as connection:
            bandit = recovered(connection, store.the_bandit(connection, name))
        bandit.warm_up()
        return bandit

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
                store.fold(bandit, own)
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

    def save(self) -> None:
        """Write every state that has moved since its last snapshot (when nothing else writes any more)."""
        for bandit in self.by_number.values():
            if bandit.since_snapshot:
                with contextlib.suppress(sa.exc.DBAPIError), self.database.writer.begin() as connection:
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
        except Exception:
            logger.exception("cannot load a bandit again", extra={"bandit": name})


def recovered(connection: Connection, row: Row[Any]) -> Bandit:
    """The bandit of this row of `bandits`: the newest readable snapshot, then the rewards since."""
    bandit = store.as_bandit(row)
    for snapshot in store.newest_snapshots(connection, bandit):
        try:
            bandit.load(snapshot.state, snapshot.seq)
            break
        except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
            logger.warning("snapshot %d of bandit %s is unreadable (%s)", snapshot.seq, bandit.name, error)
    store.fold_log(connection, bandit)
    return bandit
