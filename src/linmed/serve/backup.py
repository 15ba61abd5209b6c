"""A copy of a SQLite database while servers write to it.

All data may sit in the WAL, so copying the file alone saves nothing, and copying both catches two moments.
SQLite's own backup reads one moment, as a transaction does, and holds nobody up. The copy gets its name when
it is whole and was found sound, and takes the place of nothing but an older copy of the same database.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import copymode
from typing import BinaryIO, NamedTuple

from linmed.files import write_atomically
from linmed.serve.database import Database, DatabaseError


class Content(NamedTuple):
    """What tells databases apart, and which of two is older."""

    bandits: frozenset[tuple[str, int]]  # name, created
    decisions: int
    rewards: int

    def grew_from(self, other: "Content") -> bool:
        """Whether this is `other` at a later moment, or at the same."""
        return (
            other.bandits <= self.bandits
            and other.decisions <= self.decisions
            and other.rewards <= self.rewards
        )


def backup(database: Database, target: Path) -> str:
    """Copy a database as it is at one moment; returns what was done."""
    if not database.sqlite:
        raise DatabaseError(
            f"--backup copies SQLite databases; of PostgreSQL's pg_dump makes a consistent copy: "
            f"pg_dump --format=custom --file={target} {database.shown.replace('+psycopg', '')}"
        )
    source = database.file
    if not source.is_file():
        raise DatabaseError(f"there is no database {source} to copy")
    with closing(sqlite3.connect(source, timeout=30.0)) as origin:
        known = content(origin)
        if known is None:
            raise DatabaseError(f"{source} is not a database of linmed")
        _refuse_to_lose(target, source, known)

        def write(file: BinaryIO) -> None:
            copymode(source, file.name)  # it holds the same secrets
            with closing(sqlite3.connect(file.name)) as copy:
                copy.execute("PRAGMA synchronous=OFF")  # the file is synchronised when it is whole
                origin.backup(copy)  # in one step: of one moment
                copy.execute("PRAGMA journal_mode=DELETE")  # one file holds everything
                (found,) = copy.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise DatabaseError(f"the copy is not sound ({found}): is the disk of {source}?")

        try:
            write_atomically(target, write)
        except (OSError, sqlite3.Error) as error:
            raise DatabaseError(f"cannot copy {source} to {target}: {error}") from None
    with closing(sqlite3.connect(target)) as copy:
        written = content(copy)
    assert written is not None
    return f"{target}: {written.decisions} decisions, {written.rewards} rewards"


def content(connection: sqlite3.Connection) -> Content | None:
    """Of a database of linmed; None of any other file."""
    try:
        bandits = connection.execute("SELECT name, created FROM bandits").fetchall()
        (decisions,) = connection.execute("SELECT coalesce(max(number), 0) FROM decisions").fetchone()
        (rewards,) = connection.execute("SELECT coalesce(max(seq), 0) FROM rewards").fetchone()
    except sqlite3.DatabaseError:
        return None
    return Content(frozenset(bandits), decisions, rewards)


def _refuse_to_lose(target: Path, source: Path, known: Content) -> None:
    """Raise where the copy would take the place of anything but an older copy."""
    if not os.path.lexists(target):
        return
    if not target.is_file():  # to open a pipe would be to wait for its other end
        raise DatabaseError(f"{target} exists and is no file: give the copy another name")
    if target.samefile(source):
        raise DatabaseError(f"{target} is the database itself: give the copy another name")
    if Path(f"{target}-wal").exists():
        raise DatabaseError(f"{target} seems to be in use ({target}-wal exists): give the copy another name")
    with closing(sqlite3.connect(f"{target.absolute().as_uri()}?mode=ro", uri=True)) as before:
        held = content(before)
    if held is None or not held.bandits <= known.bandits:
        raise DatabaseError(f"{target} exists and is no copy of {source}: give the copy another name")
    if not known.grew_from(held):
        raise DatabaseError(
            f"{target} holds {held.decisions} decisions and {held.rewards} rewards, more than {source} "
            f"({known.decisions} and {known.rewards}): give the copy another name"
        )
