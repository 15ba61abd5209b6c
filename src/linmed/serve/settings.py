"""Describe the settings of one server."""

import dataclasses
import ipaddress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from linmed import validation

LARGEST = 1e12
"""Largest magnitude of a feature or a reward that the service accepts."""


def _option(default: Any, text: str) -> Any:
    """Make a field with the text that `linmed serve --help` shows for it."""
    return dataclasses.field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Settings:
    """Say how to listen, where the log is, and the limits."""

    database: str = _option(
        "sqlite:///linmed.db", "SQLAlchemy URL: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
    )
    host: str = _option("127.0.0.1", "address to listen on; any but a loopback address needs tokens")
    port: int = _option(8000, "0 takes a free one and prints it")
    workers: int = _option(1, "processes that share the port, each with its own limits")
    staleness: float = _option(1.0, "seconds within which other servers' rewards are folded")
    max_arms: int = _option(1000, "arms in one decision")
    max_batch: int = _option(1000, "decisions or rewards in one request")
    max_body: int = _option(4 * 2**20, "bytes of one request")
    max_work: int = _option(
        4_000_000, "numbers in the arms of one request: arms × dim, summed over its decisions"
    )
    max_waiting: int = _option(4096, "decisions and rewards that may wait for their commit")
    reporters: int = _option(2, "processes that evaluate and export")
    max_reports: int = _option(16, "evaluations and exports that may wait for such a process")
    max_connections: int = _option(2000, "open connections")
    head_seconds: float = _option(10.0, "seconds for a request's line and headers to arrive")
    body_seconds: float = _option(30.0, "seconds for a request's body to arrive")
    idle_seconds: float = _option(30.0, "seconds for which a connection is kept between requests")
    stop_seconds: float = _option(
        10.0, "seconds from SIGTERM to the end; what is under way after three fifths of them gets 503"
    )
    rate: float = _option(10_000.0, "requests a second of one caller, 0 for no limit")
    snapshot_every: int = _option(10_000, "rewards between two snapshots of a state")

    def __post_init__(self) -> None:
        for name in ("workers", "reporters", "max_connections", "snapshot_every"):
            validation.whole(name, getattr(self, name))
        for name in ("max_arms", "max_batch", "max_body", "max_work", "max_waiting"):
            validation.whole(name, getattr(self, name))
        for name in ("port", "max_reports"):
            validation.whole(name, getattr(self, name), at_least=0)
        for name in ("head_seconds", "body_seconds", "idle_seconds", "stop_seconds"):
            validation.between(name, getattr(self, name), 0.01, 86_400.0)
        validation.between("staleness", self.staleness, 0.01, 3600.0)
        validation.between("rate", self.rate, 0.0, 1e9)

    @cached_property
    def loopback(self) -> bool:
        """Say whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
