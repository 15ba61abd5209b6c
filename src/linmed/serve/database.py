"""The tables, how a database is opened, and how its schema moves from one version to the next.

Order matters in one place: rewards are numbered without gaps under a lock that is held until their
transaction is visible, so a server that has read all rewards up to `seq` never meets an earlier one later.
On SQLite the lock is the write transaction itself, on PostgreSQL an advisory lock.
"""

import sqlite3
import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

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
    sa.Column("settings", sa.Text, nullable=False),  # JSON: catalogue, map, reward_range, log_arms
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

decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("number", Number, primary_key=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("bandit", Number, sa.ForeignKey("bandits.id"), nullable=False),
    sa.Column("key", sa.Text),  # the client's
    sa.Column("digest", sa.LargeBinary),  # of the arms that came with the key
    sa.Column("version", sa.Integer, nullable=False),  # of the policy
    sa.Column("absorbed", sa.BigInteger, nullable=False),  # rewards in the state that decided
    sa.Column("time", sa.BigInteger, nullable=False),
    sa.Column("arm", sa.Integer, nullable=False),
    sa.Column("arm_id", sa.Text),
    sa.Column("arm_count", sa.Integer, nullable=False),
    sa.Column("best", sa.Integer, nullable=False),  # the arm with the largest estimate ⟨θ̂, a⟩
    sa.Column("log_probability", Double, nullable=False),
    sa.Column("features", sa.LargeBinary, nullable=False),  # float64 little-endian (d,)
    sa.Column("kept", sa.LargeBinary),  # (d,) what the policy's learn needs, where that is not `features`
    sa.Column("log_probabilities", sa.LargeBinary),  # (K,)
    sa.Column("arms", sa.LargeBinary),  # (K,d)
    sa.Index("decisions_of_bandit", "bandit", "number"),
    sa.Index(
        "decisions_by_key",
        "bandit",
        "key",
        unique=True,
        sqlite_where=sa.text("key IS NOT NULL"),
        postgresql_where=sa.text("key IS NOT NULL"),
    ),
)

rewards = sa.Table(
    "rewards",
    metadata,
    sa.Column("seq", Number, primary_key=True, autoincrement=False),
    sa.Column("decision", Number, sa.ForeignKey("decisions.number"), nullable=False, unique=True),
    sa.Column("bandit", Number, sa.ForeignKey("bandits.id"), nullable=False),
    sa.Column("reward", Double, nullable=False),
    sa.Column("time", sa.BigInteger, nullable=False),
    sa.Index("rewards_of_bandit", "bandit", "seq"),
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    sa.Column("bandit", Number, sa.ForeignKey("bandits.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True),
    sa.Column("state", sa.LargeBinary, nullable=False),  # npz, read without pickle
    sa.Column("time", sa.BigInteger, nullable=False),
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
)


def _first(connection: Connection) -> None:
    metadata.create_all(connection)


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_first,)
"""MIGRATIONS[v] takes a database from schema version v to v + 1."""

_LOCK = 0x6C696E6D6564  # "linmed"


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class DatabaseError(RuntimeError):
    """The database cannot be used as it is."""


class Database:
    """One writing connection and a pool of reading ones."""

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
        self.writer = self._engine("BEGIN IMMEDIATE", StaticPool if self.sqlite else QueuePool)
        self.reader = self._engine("BEGIN", NullPool if self.sqlite else QueuePool)

    def open(self) -> None:
        """Bring the schema to this release's version, or refuse."""
        try:
            with self.writer.begin() as connection:
                self.lock(connection)
                migrate(connection)
        except sa.exc.OperationalError as error:
            raise DatabaseError(f"cannot open the database {self.shown}: {error.orig}") from None

    def lock(self, connection: Connection) -> None:
        """From here to the commit no other server numbers rewards."""
        if not self.sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))

    def close(self) -> None:
        """Close every connection."""
        self.writer.dispose()
        self.reader.dispose()

    @property
    def shown(self) -> str:
        """The URL without its password."""
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
                connect_args={"options": options, "connect_timeout": 10},
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
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA busy_timeout=30000")

        @sa.event.listens_for(engine, "begin")
        def start(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        return engine


def migrate(connection: Connection) -> None:
    """Run the migrations that this database has not had."""
    current = 0
    if sa.inspect(connection).has_table(schema.name):
        current = connection.execute(sa.select(schema.c.version)).scalar_one_or_none() or 0
    if current > len(MIGRATIONS):
        raise DatabaseError(
            f"the database has schema version {current}, written by a newer linmed; this release knows "
            f"versions up to {len(MIGRATIONS)}: upgrade linmed"
        )
    for step in MIGRATIONS[current:]:
        step(connection)
    if current < len(MIGRATIONS):
        connection.execute(sa.delete(schema))
        connection.execute(sa.insert(schema).values(version=len(MIGRATIONS)))
