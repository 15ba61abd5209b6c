"""`learn_from`: an agent that begins with what a log has to teach."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import validation
from linmed.agent import Agent
from linmed.log import BATCH, DecisionLog
from linmed.log.schema import TIME
from linmed.ope.log_facts import begins_with, holds, require
from linmed.ope.plan import Log, as_log
from linmed.ope.scan import Problems, Reader, Reading, Rounds
from linmed.ope.targets import is_list
from linmed.policies.base import Policy
from linmed.validation import BadType, BadValue, Floats


def learn_from(
    log: Log,
    policy: Policy,
    *,
    dim: int | None = None,
    seed: int | None = None,
    missing: str | float = "skip",
    mature: float | timedelta | None = None,
    batch: int = BATCH,
    progress: Callable[[int], object] | None = None,
) -> Agent:
    """An agent with `policy` that has observed every rewarded decision of a log: the arm played, its reward.

    One pass, in the log's order. What was played is the column `features`, or the entry `arm` of `arms` where
    features are not in every row. `dim` need not be given; another one in the log is then refused. `seed` is
    the agent's. Wrong rows are named, and then there is no agent.

    Decisions without a reward are left out ("skip"): right if lateness, given the arm, does not depend on the
    reward. Where clicks are known at once and their absence only after a timeout, the agent would believe
    that everybody clicks: `missing=0.0` with `mature`, as in `evaluate`, says what none by then means. The
    log's probabilities play no part. The agent may be judged on other decisions, never on those it has
    learned from.

    >>> from linmed import LinMED
    >>> from linmed.ope import DecisionLog
    >>> played = {"arm": [0, 1, 0], "probability": [0.5, 0.5, 0.5], "reward": [1.0, 0.0, None]}
    >>> log = DecisionLog.from_table(played | {"features": [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]})
    >>> learn_from(log, LinMED(), seed=7).theta.tolist()
    [0.5, 0.0]
    """
    if not isinstance(policy, Policy):
        raise BadType("policy", f"policy must be a Policy such as LinMED(), got {policy!r}")
    if not policy.learns_from_arms:
        raise BadValue(
            "policy",
            f"policy must learn from arms, as LinMED() does: {policy.name} cannot learn from another "
            "policy's decisions, only from its own, at their moment (Replay lets it take them)",
        )
    if seed is not None:
        validation.whole("seed", seed, at_least=0)
    log = as_log(log)
    agent: Agent | None = None
    if policy.on_clock:
        require(log, ["time"], f"{policy.name}, which forgets by the clock", "log")
    for vectors, rewards, times in lessons(
        log, dim, missing=missing, mature=mature, batch=batch, progress=progress
    ):
        agent = agent or Agent(policy, vectors.shape[1], seed)
        try:
            agent.observe(vectors, rewards, times)
        except ValueError as error:
            raise BadValue("policy", f"{policy.name} cannot learn from {log.name}: {error}") from None
    assert agent is not None
    return agent


def lessons(
    log: DecisionLog,
    dim: int | None = None,
    *,
    missing: str | float = "skip",
    mature: float | timedelta | None = None,
    batch: int = BATCH,
    progress: Callable[[int], object] | None = None,
) -> Iterator[tuple[Floats, Floats, Floats | None]]:
    """What was played (n,d) and paid (n,), and when (n,), batch by batch; wrong rows are named at the end.

    Times are in seconds since 1970, and None where the log has none.
    """
    if dim is not None:
        dim = validation.whole("dim", dim)
    own = holds(log, "features") or ("features" in log.columns and not holds(log, "arms"))
    if not own:
        require(log, ["arms"], "learning without the column 'features'", "log")
    timed = ("time",) if begins_with(log, "time") else ()
    columns, extra = ((), ("features", *timed)) if own else (("arms",), timed)
    reader = Reader(columns=columns, extra=extra, missing=missing, mature=mature, batch=batch).settled(log)
    reading, wrong = Reading(), Problems()
    for rounds in reader.scan(log, reading):
        vectors = (_features if own else _played)(rounds, dim, wrong)
        _require_small("features", rounds, vectors, wrong)
        _require_small("reward", rounds, rounds.reward[:, None], wrong)
        times = _times(rounds, wrong) if timed else None
        if not wrong:
            dim = vectors.shape[1]
            yield vectors, rounds.reward, times
        if progress is not None:
            progress(reading.decisions)
    reading.problems.merge(wrong, 0)
    reading.finish(log)


def _features(rounds: Rounds, dim: int | None, problems: Problems) -> Floats:
    """The column `features`, (n, d)."""
    column = rounds.extra["features"]
    kind = column.type.value_type if is_list(column) else None
    if kind is None or not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise BadValue("log", f"the column 'features' must hold lists of numbers, got {column.type}")
    length = pc.list_value_length(column).fill_null(-1).to_numpy().astype(np.int64)
    size = dim or max(int(length[0]), 1)
    problems.add("features must be given in every row", rounds.row, length < 0, "none")
    problems.add(
        f"features must have dimension {size}", rounds.row, (length >= 0) & (length != size), length.item
    )
    if (length != size).any():
        return np.empty((0, size))
    return validation.for_kernels(column.flatten().to_numpy(zero_copy_only=False)).reshape(-1, size)


def _played(rounds: Rounds, dim: int | None, problems: Problems) -> Floats:
    """The vectors of the arms played, (n, d)."""
    assert rounds.arms is not None
    size = rounds.arms.shape[1]
    other = np.full(len(rounds), size != (dim or size))
    problems.add(f"arms must have dimension {dim}", rounds.row, other, str(size))
    return rounds.arms.take(rounds.chosen, axis=0)


def _times(rounds: Rounds, problems: Problems) -> Floats:
    """The column `time` (n,), in seconds."""
    column = rounds.extra["time"].cast(TIME).cast(pa.int64())
    problems.add(
        "time must be given in every row, or in none", rounds.row, ~column.is_valid().to_numpy(False), "none"
    )
    seconds: Floats = column.fill_null(0).to_numpy().astype(np.float64) / 1e6
    return seconds


def _require_small(name: str, rounds: Rounds, values: Floats, problems: Problems) -> None:
    """A problem where a row of values (n, m) has an entry that is not finite, or too large."""
    if values.size and not (values.min() >= -validation.LARGEST and values.max() <= validation.LARGEST):
        largest = np.abs(values).max(axis=1)  # NaN where one is
        rule = f"{name} must be finite and at most {validation.LARGEST:g} in size"
        problems.add(rule, rounds.row, ~(largest <= validation.LARGEST), largest.item)
