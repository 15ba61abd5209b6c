"""The bandits in memory. All of it happens in the event loop's thread, but for reading the log."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from linmed.serve import store
from linmed.serve.bandit import Bandit
from linmed.serve.database import Database
from linmed.serve.loading import load

logger = logging.getLogger("linmed.serve")


class Registry:
    """Bandits by name and by number, kept at what the log says."""

    def __init__(self, database: Database, snapshot_every: int, submit: Callable[[Callable[[], None]], bool]):
        self.database, self.snapshot_every, self.submit = database, snapshot_every, submit
        self.by_name: dict[str, Bandit] = {}
        self.by_number: dict[int, Bandit] = {}
        self._one_load = asyncio.Lock()
        self._missed: list[Any] | None = None  # rewards passed on while a bandit is being loaded
        self._reloads: dict[int, asyncio.Task[None]] = {}

    async def load(self, name: str, revision: int = 0) -> Bandit | None:
        """The bandit called `name` from the log, at least at `revision`; None if there is none."""
        async with self._one_load:
            known = self.by_name.get(name)
            if known is not None and known.revision >= max(revision, 1):
                return known
            self._missed = []
            try:
                bandit = await asyncio.to_thread(self._read, name)
                if bandit is not None:
                    store.fold(bandit, [row for row in self._missed if row.bandit == bandit.id])
                    self.by_name[name] = self.by_number[bandit.id] = bandit
                return bandit
            finally:
                self._missed = None

    def _read(self, name: str) -> Bandit | None:
        with self.database.reader.begin() as connection:
            row = store.find_bandit(connection, name)
            return None if row is None else load(connection, row)

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
