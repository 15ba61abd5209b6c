"""`drift`: has the world changed while this log was written? Whoever chose what was played."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from linmed import checks
from linmed.checks import BadType, Floats
from linmed.drift import Drift, drift_of
from linmed.log import BATCH
from linmed.ope.learn import lessons
from linmed.ope.request import Log, as_log
from linmed.ope.rounds import require
from linmed.policies import Forgetful, LinMED

WATCH = Forgetful(LinMED(sigma="unknown", norm_bound="unknown"))
"""Tells the noise and the size of θ* from the rewards themselves."""
FEW = 10
"""So many different rewards, or fewer, are no Gaussian's."""


@dataclass(frozen=True)
class LogDrift:
    """What a log says of changes.

    >>> import numpy as np
    >>> from linmed.ope import DecisionLog, drift
    >>> paid = np.random.default_rng(0).normal([0.5, 0.0] * 100, 0.1)
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": paid}
    >>> found = drift(DecisionLog.from_table(played | {"features": [[1.0, 0.0], [0.0, 1.0]] * 100}))
    >>> found.drift.changed, found.doubt
    (False, None)
    """

    drift: Drift
    doubt: str | None
    """Why the level of the alarms may not hold, where the rewards themselves show it."""

    def __str__(self) -> str:
        return str(self.drift) + (f" But {self.doubt}." if self.doubt else "")


def drift(
    log: Log,
    policy: Forgetful = WATCH,
    *,
    missing: str | float = "skip",
    mature: float | timedelta | None = None,
    batch: int = BATCH,
    progress: Callable[[int], object] | None = None,
) -> LogDrift:
    """Whether the rewards of a log can all come from one θ, and since when they cannot.

    One pass in the log's order with the estimates and the test of `policy`, of which the rule plays no part,
    and neither do the log's probabilities. `missing` and `mature` are as in `learn_from`.

    >>> from linmed.ope import DecisionLog
    >>> rng = np.random.default_rng(0)
    >>> paid = rng.normal([0.5, 0.0] * 200 + [0.0, 0.5] * 200, 0.1)
    >>> played = {"arm": [0, 1] * 400, "probability": [0.5] * 800, "reward": paid}
    >>> log = DecisionLog.from_table(played | {"features": [[1.0, 0.0], [0.0, 1.0]] * 400})
    >>> [alarm.reward for alarm in drift(log).drift.alarms]
    [405]
    """
    if not isinstance(policy, Forgetful):
        raise BadType("policy", f"policy must be Forgetful, which watches for changes, got {policy!r}")
    log = as_log(log)
    if policy.on_clock:
        require(log, ["time"], "half-lives that are durations", "log")
    state, seen = None, _Seen()
    for vectors, rewards, times in lessons(
        log, missing=missing, mature=mature, batch=batch, progress=progress
    ):
        if state is None:
            state = policy.start(1, vectors.shape[1])
        rows = (
            checks.for_kernels(vectors),
            checks.for_kernels(rewards),
            np.zeros(len(rewards), dtype=np.int64),
        )
        if times is None:
            policy.learn(state, *rows)
        else:
            policy.learn_at(state, *rows, times)
        seen.add(rewards)
    assert state is not None
    return LogDrift(drift_of(policy, state), seen.doubt(policy))


class _Seen:
    """Which rewards there were, as long as they are few; and their range."""

    def __init__(self) -> None:
        self.values: set[float] = set()
        self.low, self.high = np.inf, -np.inf

    def add(self, rewards: Floats) -> None:
        self.low, self.high = min(self.low, rewards.min()), max(self.high, rewards.max())
        if len(self.values) <= FEW:
            self.values.update(np.unique(rewards)[: FEW + 1].tolist())

    def doubt(self, policy: Forgetful) -> str | None:
        if getattr(policy.asked, "sigma", None) != "unknown" or len(self.values) > FEW:
            return None
        enough = (self.high - self.low) / 2.0
        clicks = ", and for clicks there is family logistic" if self.values <= {0.0, 1.0} else ""
        return (
            f"rewards take {len(self.values)} values only, and where sigma is unknown the level is that of "
            f"Gaussian noise; sigma = {enough:g} is enough for rewards between {self.low:g} and "
            f"{self.high:g}, whatever their noise{clicks}"
        )
