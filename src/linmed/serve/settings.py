"""What one server is told when it starts."""

import ipaddress
from dataclasses import dataclass

from linmed import checks

LARGEST = 1e12
"""Largest magnitude of a feature or a reward that the service accepts."""


@dataclass(frozen=True)
class Settings:
    """How to listen, where the log is, and the limits."""

    database: str = "sqlite:///linmed.db"
    """SQLAlchemy URL: sqlite:///FILE or postgresql://USER@HOST/NAME."""
    host: str = "127.0.0.1"
    port: int = 8000
    staleness: float = 1.0
    """Seconds within which rewards taken by other servers are part of this one's state."""
    max_arms: int = 1000
    """Arms in one decision."""
    max_batch: int = 1000
    """Decisions or rewards in one batch request."""
    max_body: int = 4 * 2**20
    """Bytes of one request."""
    max_waiting: int = 4096
    """Decisions and rewards waiting for their commit; beyond it requests are answered 429."""
    rate: float = 10_000.0
    """Requests a second of one caller (a token, or an address); 0 is no limit."""
    snapshot_every: int = 10_000
    """Rewards between snapshots of a bandit's state."""

    def __post_init__(self) -> None:
        checks.whole("port", self.port, at_least=0)
        for name in ("max_arms", "max_batch", "max_body", "max_waiting", "snapshot_every"):
            checks.whole(name, getattr(self, name))
        checks.between("staleness", self.staleness, 0.01, 3600.0)
        checks.between("rate", self.rate, 0.0, 1e9)

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
