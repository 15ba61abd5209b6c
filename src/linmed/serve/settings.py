"""What one server is told when it starts."""

import ipaddress
from dataclasses import dataclass
from functools import cached_property

from linmed import validation

LARGEST = 1e12
"""Largest magnitude of a feature or a reward that the service accepts."""


@dataclass(frozen=True)
class Settings:
    """How to listen, where the log is, and the limits."""

    database: str = "sqlite:///linmed.db"
    """SQLAlchemy URL: sqlite:///FILE or postgresql://USER@HOST/NAME."""
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    """Processes that share the port and the database."""
    staleness: float = 1.0
    """Seconds within which rewards taken by other servers are part of this one's state."""
    max_arms: int = 1000
    """Arms in one decision."""
    max_batch: int = 1000
    """Decisions or rewards in one batch request."""
    max_body: int = 4 * 2**20
    """Bytes of one request."""
    max_work: int = 4_000_000
    """Numbers in the arms of one request, Σ K·d over its decisions."""
    max_waiting: int = 4096
    """Decisions and rewards waiting for their commit; beyond it requests are answered 429."""
    reporters: int = 2
    """Processes that evaluate and export."""
    max_reports: int = 16
    """Evaluations and exports waiting for such a process; beyond it requests are answered 429."""
    max_connections: int = 2000
    """Open connections; further ones are answered 503 and closed."""
    head_seconds: float = 10.0
    """Within which a connection's first byte and a request's line and headers must have arrived."""
    body_seconds: float = 30.0
    """Within which a request's body must have arrived, and some of an answer been taken."""
    idle_seconds: float = 30.0
    """For which a connection is kept between two requests."""
    stop_seconds: float = 10.0
    """From SIGTERM to the end: requests under way have three fifths of them, then they are answered 503."""
    rate: float = 10_000.0
    """Requests a second of one caller (a token, or an address); 0 is no limit."""
    snapshot_every: int = 10_000
    """Rewards between snapshots of a bandit's state."""

    def __post_init__(self) -> None:
        validation.whole("port", self.port, at_least=0)
        for name in ("workers", "reporters", "max_connections", "snapshot_every"):
            validation.whole(name, getattr(self, name))
        for name in ("max_arms", "max_batch", "max_body", "max_work", "max_waiting"):
            validation.whole(name, getattr(self, name))
        validation.whole("max_reports", self.max_reports, at_least=0)
        for name in ("head_seconds", "body_seconds", "idle_seconds", "stop_seconds"):
            validation.between(name, getattr(self, name), 0.01, 86_400.0)
        validation.between("staleness", self.staleness, 0.01, 3600.0)
        validation.between("rate", self.rate, 0.0, 1e9)

    @cached_property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
