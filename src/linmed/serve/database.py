"""Define the tables, open a database, and pack arrays for it.

Order matters in one place: rewards are numbered without gaps under a lock that is held until their
transaction is visible, so a server that has read all rewards up to `seq` never meets an earlier one later.
On SQLite the lock is the write transaction itself, on PostgreSQL an advisory lock."""

import os
import shutil
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from shutil import copymode
from typing import Any, BinaryIO, Literal, TypeVar, overload

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

from linmed.files import write_atomically
from linmed.validation import Floats

metadata = sa.MetaData()
Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # only INTEGER is SQLite's own row number
Double: sa.Double[float] = sa.Double()

schema = sa.Table("linmed_schema", metadata, sa.Column("version", sa.Integer, nullable=False))

bandits = sa.Table(
    "bandits",
    metadata,
    sa.Column("id", Number, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("dim", sa.Integer, nullable=False),
    sa.Column("settings", sa.Text, nullable=False),  # JSON: map, reward_range, log_arms
    sa.Column("catalogue", sa.Integer),  # its version; null where there is none
    sa.Column("item_count", sa.Integer),  # of that version
    sa.Column("version", sa.Integer, nullable=False),  # of the policy
    sa.Column("revision", sa.Integer, nullable=False),  # grows with every change
    sa.Column("archived", sa.Boolean, nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),  # microseconds since 1970, as every time here
)

policies = sa.Table(
    "policies",
    metadata,
    sa.Column("bandit", Number, sa.ForeignKey("bandits.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("config", sa.Text, nullable=False),  # JSON of Policy.to_dict
    sa.Column("created", sa.BigInteger, nullable=False),
)

items = sa.Table(
    "items",  # of catalogues: one row for each item and each of its features' forms
    metadata,
    sa.Column("number", Number, primary_key=True),
    sa.Column("bandit", Number, sa.ForeignKey("bandits.id"), nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("place", sa.Integer, nullable=False),  # items are offered in this order
    sa.Column("features", sa.LargeBinary, nullable=False),  # float64 little-endian (f,)
    sa.Column("since", sa.Integer, nullable=False),  # the first version of the catalogue that has it
    sa.Column("until", sa.Integer),  # the first that has it no more
    sa.Index("items_of_bandit", "bandit", "since"),
    sa.Index("items_until", "bandit", "until"),
    sa.Index("items_by_id", "bandit", "id"),
    sa.Index("items_by_place", "bandit", "place"),
)

decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("number", Number, primary_key=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("bandit", Number, sa.ForeignKey("bandits.id"), nullable=False),
    sa.Column("key", sa.Text),  # the client's
    sa.Column("digest", sa.LargeBinary),  # of the request that came with the key
    sa.Column("version", sa.Integer, nullable=False),  # of the policy
    sa.Column("absorbed", sa.BigInteger, nullable=False),  # rewards in the state that decided
    sa.Column("time", sa.BigInteger, nullable=False),
    sa.Column("arm", sa.Integer, nullable=False),
    sa.Column("arm_id", sa.Text),
    sa.Column("arm_count", sa.Integer, nullable=False),
    sa.Column("best", sa.Integer, nullable=False),  # the arm with the largest estimate ⟨θ̂, a⟩
    sa.Column("log_probability", Double, nullable=False),  # 0 where `fallback` is true: there is none
    sa.Column("control", sa.Boolean),  # whether the control group's law drew it; null: there is none
    sa.Column("control_share", Double),  # how probable that was
    sa.Column("shadow", sa.Text),  # JSON: how probable the arm was to each shadow policy
    sa.Column("value", Double),  # what a unit of the arm's reward is worth, and what playing it costs …
    sa.Column("cost", Double),
    sa.Column("every_value", sa.LargeBinary),  # … and of all arms, (K,) float64 little-endian
    sa.Column("every_cost", sa.LargeBinary),
    sa.Column("fallback", sa.Boolean),  # by which route the item was found; null: by none, among all arms
    # Arms given by the request: float64 little-endian.
    sa.Column("features", sa.LargeBinary, nullable=False),  # (d,) of the arm; empty where it is an item
    sa.Column("kept", sa.LargeBinary),  # (d,) what the policy's learn needs, where that is not `features`
    sa.Column("log_probabilities", sa.LargeBinary),  # (K,); float32 where the arms are items
    sa.Column("arms", sa.LargeBinary),  # (K,d)
    # Arms of the catalogue: what they were made from.
    sa.Column("catalogue", sa.Integer),  # its version
    sa.Column("item", Number, sa.ForeignKey("items.number")),  # the arm
    sa.Column("offered", sa.LargeBinary),  # (K,) places in it, uint32; null: all of it
    sa.Column("context", sa.LargeBinary),  # (c,) by `pack`; null: none
    sa.Index("decisions_of_bandit", "bandit", "number"),
)
_KEYED = sa.text("key IS NOT NULL")
_by_key = sa.Index("decisions_by_key", decisions.c.bandit, decisions.c.key, unique=True, sqlite_where=_KEYED)

rewards = sa.Table(
    "rewards",
    metadata,
    sa.Column("seq", Number, primary_key=True, autoincrement=False),
    sa.Column("decision", Number, sa.ForeignKey("decisions.number"), nullable=False),
    sa.Column("bandit", Number, sa.ForeignKey("bandits.id"), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # one of KINDS
    sa.Column("reward", Double, nullable=False),
    sa.Column("outcomes", sa.Text),  # JSON: other numbers that came back, by name
    sa.Column("time", sa.BigInteger, nullable=False),  # when it came, or the deadline
    sa.UniqueConstraint("decision", "kind"),
    sa.Index("rewards_of_bandit", "bandit", "seq"),
)

KINDS = ("reward", "held", "late", "due", "missing")
"""What a row of `rewards` is: a reward that is learned as it comes; one that came before its deadline and is
held until then; one that came after it; the deadline of one that is held; that of a decision without any."""
CAME = KINDS[:3]
"""Those that somebody sent: one for each decision."""

waiting = sa.Table(
    "waiting",  # decisions whose deadline is to come
    metadata,
    sa.Column("decision", Number, sa.ForeignKey("decisions.number"), primary_key=True),
    sa.Column("bandit", Number, sa.ForeignKey("bandits.id"), nullable=False),
    sa.Column("deadline", sa.BigInteger, nullable=False, index=True),
    sa.Column("missing", Double, nullable=False),  # the reward that none by then means
    sa.Column("hold", sa.Boolean, nullable=False),  # whether one that comes before is learned at the deadline
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    sa.Column("bandit", Number, sa.ForeignKey("bandits.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True),
    sa.Column("state", sa.LargeBinary, nullable=False),  # npz, read without pickle
    sa.Column("time", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),  # SHA-256 of the row's place and state
)

origins = sa.Table(  # what a bandit had learned before its log begins
    "origins",
    metadata,
    sa.Column("bandit", Number, sa.ForeignKey("bandits.id"), primary_key=True),
    sa.Column("state", sa.LargeBinary, nullable=False),  # npz, read without pickle
    sa.Column("digest", sa.LargeBinary(32), nullable=False),  # SHA-256 of `state`
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("hash", sa.LargeBinary, nullable=False),  # SHA-256 of 256 random bits
    sa.Column("scopes", sa.Text, nullable=False),  # space-separated
    sa.Column("bandit", sa.Text),  # a bandit's name, or null for all
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("revoked", sa.BigInteger),  # a server that ever had tokens stays closed, so the row stays
)


VERSION = 5
"""Of the schema; a database of another version is refused."""
ROOM = 8000 * 4096
"""Free bytes with which a SQLite database counts as full: what its WAL takes between two checkpoints."""
_LOCK = 0x6C696E6D6564  # "linmed"
_probe = sa.Table("linmed_probe", sa.MetaData(), sa.Column("content", sa.LargeBinary))
_NETWORK = {  # a connection whose other end has vanished is noticed, not waited for
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def now() -> int:
    """Tell the time in microseconds since 1970."""
    return time.time_ns() // 1000


class DatabaseError(RuntimeError):
    """Say why the database cannot be used as it is."""


_OURS = (sa.exc.IntegrityError, sa.exc.DataError, sa.exc.ProgrammingError, sa.exc.NotSupportedError)


def trouble(error: BaseException) -> bool:
    """Say whether the database is the reason (stopped, full, out of connections), not the request."""
    return isinstance(error, (sa.exc.DBAPIError, sa.exc.TimeoutError)) and not isinstance(error, _OURS)


def cause(error: BaseException) -> str:
    """Repeat what the database itself said, without the statement and its values: for the log."""
    original = getattr(error, "orig", None) or error
    return f"{type(original).__name__}: {original}".strip().partition("\n")[0]


class Database:
    """Hold one writing connection and a pool of reading ones."""

    def __init__(self, url: str):
        try:
            self.url = sa.make_url(url)
        except sa.exc.ArgumentError:
            raise DatabaseError("database must be a URL such as sqlite:///linmed.db") from None
        backend = self.url.get_backend_name()
        if backend not in ("sqlite", "postgresql"):
            raise DatabaseError(f"database must be a sqlite or postgresql URL, got {backend!r}")
        self.sqlite = backend == "sqlite"
        if self.sqlite and self.url.database in (None, "", ":memory:"):
            raise DatabaseError("database must be a file: one in memory would forget its decisions")
        if not self.sqlite:
            self.url = self.url.set(drivername="postgresql+psycopg")
        try:
            self.writer = self._engine("BEGIN IMMEDIATE", StaticPool if self.sqlite else QueuePool)
            self.reader = self._engine("BEGIN", NullPool if self.sqlite else QueuePool)
        except ModuleNotFoundError as error:
            raise DatabaseError(
                f"a postgresql database needs {error.name}: pip install 'linmed[postgres]'"
            ) from None

    def open(self) -> None:
        """Make the tables where there are none, or refuse a database of another version."""
        try:
            with self.writer.begin() as connection:
                self.lock(connection)
                create_tables(connection)
        except sa.exc.DBAPIError as error:
            raise DatabaseError(f"cannot open the database {self.shown}: {error.orig}") from None

    def lock(self, connection: Connection) -> None:
        """Let no other server number rewards from here to the commit."""
        if not self.sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))

    def probe(self) -> None:
        """Write something and take it away again: fails where decisions could not be written either."""
        with self.writer.begin() as connection:
            self.lock(connection)
            _probe.drop(connection, checkfirst=True)
            _probe.create(connection)
            connection.execute(sa.insert(_probe).values(content=os.urandom(2**18)))  # nothing compresses it
        with self.writer.begin() as connection:
            self.lock(connection)
            _probe.drop(connection, checkfirst=True)

    @property
    def room(self) -> bool:
        """Say whether the disk has room for what is written next, as far as can be seen from here."""
        try:
            return not self.sqlite or shutil.disk_usage(self.file.parent).free >= ROOM
        except OSError:  # not even the folder
            return False

    @property
    def file(self) -> Path:
        """Return the path of SQLite's file."""
        assert self.url.database is not None
        return Path(self.url.database).absolute()

    def checkpoint(self, how: Literal["PASSIVE", "TRUNCATE"] = "PASSIVE") -> bool:
        """Move what SQLite's WAL holds into the file itself; return whether all of it was moved.

        What readers still need stays; TRUNCATE waits for them, a second at most.
        """
        if not self.sqlite:
            return True
        connection = self.writer.raw_connection()
        try:
            cursor = connection.cursor()
            if how == "TRUNCATE":
                cursor.execute("PRAGMA busy_timeout=1000")
            _, pages, moved = cursor.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
            return bool(pages == moved)
        finally:
            connection.close()

    def close(self) -> None:
        """Close every connection."""
        self.writer.dispose()
        self.reader.dispose()

    @property
    def shown(self) -> str:
        """Return the URL without its password."""
        return self.url.render_as_string(hide_password=True)

    def _engine(self, begin: str, pool: Any) -> Engine:
        if not self.sqlite:
            # A server that hangs must not hold the lock for ever.
            options = "-c idle_in_transaction_session_timeout=30000 -c lock_timeout=30000"
            sizes = {"pool_size": 1, "max_overflow": 0} if begin == "BEGIN IMMEDIATE" else {"pool_size": 4}
            return sa.create_engine(
                self.url,
                poolclass=pool,
                pool_pre_ping=True,
                connect_args={"options": options, **_NETWORK},
                isolation_level="READ COMMITTED" if begin == "BEGIN IMMEDIATE" else "REPEATABLE READ",
                **sizes,
            )
        engine = sa.create_engine(
            self.url, poolclass=pool, connect_args={"timeout": 30.0, "check_same_thread": False}
        )

        @sa.event.listens_for(engine, "connect")
        def configure(connection: sqlite3.Connection, _: Any) -> None:
            connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")  # a commit survives a loss of power
            connection.execute("PRAGMA wal_autocheckpoint=8000")  # pages: fewer, larger checkpoints
            connection.execute(f"PRAGMA journal_size_limit={2 * ROOM}")  # a WAL that a long reader kept
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA busy_timeout=30000")

        @sa.event.listens_for(engine, "begin")
        def start(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        return engine


def create_tables(connection: Connection) -> None:
    """Make the tables of an empty database; refuse one of another version."""
    found = None
    if sa.inspect(connection).has_table(schema.name):
        found = connection.execute(sa.select(schema.c.version)).scalar_one_or_none()
    if found is None:
        if connection.dialect.name == "postgresql":  # named above it would be imported with every server
            _by_key.dialect_options["postgresql"]["where"] = _KEYED
        metadata.create_all(connection)
        connection.execute(sa.insert(schema).values(version=VERSION))
    elif found != VERSION:
        which = "a newer" if found > VERSION else "an older"
        text = f"the database has schema version {found}, written by {which} linmed"
        raise DatabaseError(f"{text}; this release reads version {VERSION}")


# Arrays as the tables hold them

CHUNK = 1000
"""Values in one IN (...): both databases take more."""
_LITTLE = np.dtype("<f8")

T = TypeVar("T")


@overload
def blob(array: Floats) -> bytes: ...
@overload
def blob(array: None) -> None: ...
def blob(array: Floats | None) -> bytes | None:
    """Write an array as float64, little-endian."""
    return None if array is None else array.astype(_LITTLE, copy=False).tobytes()


def vector(content: bytes) -> Floats:
    """Read what `blob` wrote."""
    return np.frombuffer(content, dtype="<f8").astype(np.float64)


def pack(array: Floats) -> bytes:
    """Write numbers in few bytes: contexts are mostly zeros, ones and small numbers."""
    return zlib.compress(blob(array), 1)


def unpack(content: bytes) -> Floats:
    """Read what `pack` wrote."""
    return vector(zlib.decompress(content))


def parts(values: Sequence[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """Cut `values` into pieces."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


# A copy while servers write


def backup(database: Database, target: Path) -> str:
    """Copy a database as it is at one moment; return what was done."""
    if not database.sqlite:
        raise DatabaseError(
            f"--backup copies SQLite databases; of PostgreSQL's pg_dump makes a consistent copy: "
            f"pg_dump --format=custom --file={target} {database.shown.replace('+psycopg', '')}"
        )
    source = database.file
    if not source.is_file():
        raise DatabaseError(f"there is no database {source} to copy")
    with closing(sqlite3.connect(source, timeout=30.0)) as origin:
        known = _content(origin)
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
        written = _content(copy)
    assert written is not None
    return f"{target}: {written[1]} decisions, {written[2]} rewards"


def _content(connection: sqlite3.Connection) -> tuple[set[Any], int, int] | None:
    """Read which bandits a database of linmed has, how many decisions and rewards; None of any other file."""
    try:
        bandits = connection.execute("SELECT name, created FROM bandits").fetchall()
        (decisions,) = connection.execute("SELECT coalesce(max(number), 0) FROM decisions").fetchone()
        (rewards,) = connection.execute("SELECT coalesce(max(seq), 0) FROM rewards").fetchone()
    except sqlite3.DatabaseError:
        return None
    return set(bandits), decisions, rewards


def _refuse_to_lose(target: Path, source: Path, known: tuple[set[Any], int, int]) -> None:
    """Refuse where the copy would take the place of anything but an older copy."""
    if not os.path.lexists(target):
        return
    why = "exists and is no file"
    if target.is_file():  # to open a pipe would be to wait for its other end
        with closing(sqlite3.connect(f"{target.absolute().as_uri()}?mode=ro", uri=True)) as before:
            held = _content(before)
        older = held is not None and held[0] <= known[0] and held[1:] <= known[1:] and held[2] <= known[2]
        if target.samefile(source) or Path(f"{target}-wal").exists():
            why = "is in use"
        elif older:
            return
        else:
            why = f"exists and is no older copy of {source}"
    raise DatabaseError(f"{target} {why}: give the copy another name")
