"""Metrics for Prometheus.

Workers that share a port count in files of one folder (PROMETHEUS_MULTIPROC_DIR, which their parent made), so
that whichever of them is asked answers for all, the ones that have ended included.
"""

import os
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from linmed.insight.drift import Drift
from linmed.policies.half_lives import written

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Everything `/metrics` shows."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: Any = {"registry": self.registry}
        self.requests = Counter("linmed_requests", "Requests answered", ["route", "status"], **own)
        self.seconds = Histogram(
            "linmed_request_seconds", "Time to answer", ["route"], buckets=_BUCKETS, **own
        )
        self.decisions = Counter("linmed_decisions", "Decisions committed", ["bandit"], **own)
        self.rewards = Counter("linmed_rewards", "Rewards committed", ["bandit"], **own)
        self.commits = Counter("linmed_commits", "Transactions of decisions and rewards", **own)
        self.commit_seconds = Histogram(
            "linmed_commit_seconds", "Time of a transaction", buckets=_BUCKETS, **own
        )
        self.refused = Counter("linmed_refused", "Requests refused for load or rate", ["reason"], **own)
        self._labelled: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.waiting = Gauge(
            "linmed_waiting",
            "Decisions and rewards waiting for their commit",
            multiprocess_mode="livesum",
            **own,
        )
        self.broken = Gauge(
            "linmed_broken_bandits", "Bandits that cannot be loaded", multiprocess_mode="livemax", **own
        )
        self.reports = Gauge(
            "linmed_reports_waiting", "Reports waiting for a process", multiprocess_mode="livesum", **own
        )

        last: Any = {**own, "multiprocess_mode": "livemostrecent"}
        self.weight = Gauge(
            "linmed_drift_weight",
            "Weight of a memory among those of a bandit",
            ["bandit", "half_life"],
            **last,
        )
        self.evidence = Gauge(
            "linmed_drift_log_e", "Evidence of a change since the last alarm, a logarithm", ["bandit"], **last
        )
        self.alarms = Gauge("linmed_drift_alarms", "Alarms that a bandit has raised", ["bandit"], **last)
        self.adoptions = Gauge(
            "linmed_drift_adoptions",
            "How often memories of a bandit restarted from another",
            ["bandit"],
            **last,
        )
        self.memory = Gauge(
            "linmed_drift_memory", "Rewards that a bandit has in mind when it decides", ["bandit"], **last
        )

    def drifted(self, bandit: str, found: Drift) -> None:
        """What a bandit knows of changes."""
        for half_life, weight in found.weights.items():
            self.weight.labels(bandit, written(half_life)).set(weight)
        self.evidence.labels(bandit).set(found.log_e)
        self.alarms.labels(bandit).set(found.alarm_count)
        self.adoptions.labels(bandit).set(found.adoption_count)
        self.memory.labels(bandit).set(found.memory)

    def known(self, bandit: str) -> None:
        """Show its counters, be they 0."""
        self.decisions.labels(bandit)
        self.rewards.labels(bandit)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request is done."""
        if (route, status) not in self._labelled:
            self._labelled[route, status] = self.requests.labels(route, status), self.seconds.labels(route)
        requests, times = self._labelled[route, status]
        requests.inc()
        times.observe(seconds)

    def committed(self, decisions: Mapping[str, int], rewards: Mapping[str, int], seconds: float) -> None:
        """A transaction with so many of each bandit is done."""
        for counter, counts in ((self.decisions, decisions), (self.rewards, rewards)):
            for bandit, count in counts.items():
                counter.labels(bandit).inc(count)
        self.commits.inc()
        self.commit_seconds.observe(seconds)

    def text(self) -> bytes:
        """In Prometheus's text format."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        every = CollectorRegistry()
        MultiProcessCollector(every)  # type: ignore[no-untyped-call]
        return generate_latest(every)
