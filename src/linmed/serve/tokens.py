"""Who may do what. A token is shown once; the database has its hash, compared in constant time."""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

import sqlalchemy as sa

from linmed.serve.database import Database, now, tokens
from linmed.serve.schemas import NAME

LONGEST = 200
"""Characters of a label."""
SCOPES = ("read", "decide", "admin")
_FORM = re.compile(r"lm_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True)
class Caller:
    """Who asks: what they may do, and with which bandit (None: all)."""

    id: str
    scopes: frozenset[str]
    bandit: str | None = None

    def may(self, scope: str, bandit: str | None) -> bool:
        """Admin may do everything, but each only with its own bandit."""
        return (scope in self.scopes or "admin" in self.scopes) and self.bandit in (None, bandit)


class Tokens:
    """The tokens of a database, as of the last `refresh`."""

    def __init__(self, database: Database):
        self.database = database
        self._known: dict[str, tuple[bytes, Caller]] = {}
        self._made = 0

    def __len__(self) -> int:
        """How many were ever made: a server whose tokens are all revoked lets nobody in, not everybody."""
        return self._made

    def refresh(self) -> None:
        """Read them again."""
        with self.database.reader.begin() as connection:
            rows = connection.execute(sa.select(tokens)).all()
        self._known = {
            row.id: (row.hash, Caller(row.id, frozenset(row.scopes.split()), row.bandit))
            for row in rows
            if row.revoked is None
        }
        self._made = len(rows)

    def identify(self, token: str) -> Caller | None:
        """Whose token this is."""
        match = _FORM.fullmatch(token)
        stored, caller = self._known.get(match[1] if match else "", (b"\0" * 32, None))
        right = hmac.compare_digest(stored, _hash(match[2] if match else ""))
        return caller if right else None


def create(database: Database, scopes: list[str], bandit: str | None = None, label: str = "") -> str:
    """A new token: what is returned is stored nowhere."""
    wrong = [scope for scope in scopes if scope not in SCOPES]
    if wrong or not scopes:
        raise ValueError(f"scopes must be some of {', '.join(SCOPES)}, got {', '.join(wrong) or 'none'}")
    if not label.isprintable() or len(label) > LONGEST:
        raise ValueError(
            f"label must be one line of at most {LONGEST} printable characters, got {label[:80]!r}"
        )
    if bandit is not None and re.fullmatch(NAME, bandit) is None:
        raise ValueError(
            f"bandit must be a bandit's name, got {bandit[:80]!r}: no bandit could have that one"
        )
    identifier, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    values = {"id": identifier, "hash": _hash(secret), "scopes": " ".join(scopes), "created": now()}
    with database.writer.begin() as connection:
        connection.execute(sa.insert(tokens).values(**values, bandit=bandit, label=label))
    return f"lm_{identifier}_{secret}"


def revoke(database: Database, identifier: str) -> bool:
    """Let nobody in any more with the token of this id (between its underscores).

    Servers take notice within their staleness. The row stays, as the sign that this database is closed, but
    without the hash: to servers of an older release too, which read nothing else, the token is wrong.
    """
    when = sa.func.coalesce(tokens.c.revoked, now())
    end = sa.update(tokens).where(tokens.c.id == identifier).values(revoked=when, hash=b"")
    with database.writer.begin() as connection:
        return connection.execute(end).rowcount > 0


def listing(database: Database) -> list[dict[str, object]]:
    """Every token but its secret."""
    shown = tokens.c["id", "scopes", "bandit", "label", "created", "revoked"]
    query = sa.select(*shown).order_by(tokens.c.created)
    with database.reader.begin() as connection:
        return [row._asdict() for row in connection.execute(query)]


def _hash(secret: str) -> bytes:
    """One round is enough: the secret has 256 random bits, not a human's."""
    return hashlib.sha256(secret.encode()).digest()
