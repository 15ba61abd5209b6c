"""`simulate`: policies × environment × trials."""

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Literal

import numpy as np

from linmed import validation
from linmed.environments import Environment
from linmed.policies.base import Policy
from linmed.progress import Bar
from linmed.simulation.batch import Task, checkpoints
from linmed.simulation.engine import Interrupted, compute, default_workers
from linmed.simulation.environment_batch import EnvironmentBatch
from linmed.simulation.results import Ends, Results, Run
from linmed.simulation.stopping import Decided, as_until
from linmed.simulation.store import Finished, Store
from linmed.streams import stream

LARGEST_BATCH = 256
"""Replicas that go through the loop together; beyond this the cost of a round is all arithmetic."""
UNKNOWN_BATCH = 32
"""The same for an executor of unknown size: enough to share a loop, few enough to spread over a cluster."""
MOST_TRIALS = 10**8
SMALLEST_ROUND = 1000
"""Replicas × arms × features in a round below which threads wait for the interpreter lock longer than
they work, for policies that play round by round (benchmarks/simulation.py)."""


class SimulationInterrupted(KeyboardInterrupt):
    """Ctrl-C during a simulation. `results` holds the trials that had finished.

    >>> from linmed import LinMED
    >>> from linmed.environments import LargeGap
    >>> class Impatient(LargeGap):
    ...     def blocks(self, rng):
    ...         raise KeyboardInterrupt  # as Ctrl-C does
    >>> try:
    ...     simulate(LinMED(), Impatient(), horizon=100, trials=2, progress=False)
    ... except SimulationInterrupted as stopped:
    ...     print(len(stopped.results.run("LinMED").trials), "trials had finished")
    0 trials had finished
    """

    def __init__(self, results: Results) -> None:
        super().__init__(
            "interrupted; the finished trials are in .results and, if one was given, in the store"
        )
        self.results = results


def simulate(
    policies: Policy | Sequence[Policy],
    environment: Environment,
    horizon: int,
    trials: int,
    seed: int = 0,
    executor: Executor | None = None,
    store: Store | str | Path | None = None,
    progress: bool | Bar = True,
    *,
    workers: int | None = None,
    batch: int | None = None,
    points: int = 200,
    until: Decided | Literal["decided"] | None = None,
) -> Results:
    """Play every policy for `horizon` rounds in `trials` independent trials.

    Trial i meets the same arms, noise and θ* under every policy. The numbers depend on the policy, the
    environment, `horizon` and `seed` alone: not on how the work is cut or where it is done.

    executor: any `concurrent.futures.Executor`; None uses `workers` threads (default: all processors
        where a round is long enough to be worth it). `processes()` makes one of processes.
    store: a directory that keeps finished batches; what it already holds is not computed again.
    progress: whether to show a bar, or a `linmed.progress.Bar` that several simulations share.
    batch: trials that go through the loop together (default: as many as keep all workers busy).
    points: regret is written down at about this many rounds.
    until: "decided" or `Decided(delta=…)` ends each trial when it is decided which arm is the best, at the
        horizon at the latest; `Results.decided` and `Results.right` tell when, and whether the verdict was
        right. Regret and pulls then count until that round.

    Ctrl-C raises `SimulationInterrupted`, which carries the results so far.

    >>> from linmed import LinMED, Uniform, simulate
    >>> from linmed.environments import LargeGap
    >>> results = simulate([LinMED(), Uniform()], LargeGap(), horizon=100, trials=20, progress=False)
    >>> bool(results.mean("LinMED")[-1] < results.mean("Uniform")[-1])
    True
    """
    policies = _named(policies)
    if not isinstance(environment, Environment):
        raise TypeError(f"environment must be an Environment, got {environment!r}")
    horizon = validation.whole("horizon", horizon)
    trials = int(validation.between("trials", validation.whole("trials", trials), 1, MOST_TRIALS))
    seed = validation.whole("seed", seed, at_least=0)
    points = validation.whole("points", points, at_least=2)
    until = as_until(until)
    if until is not None:
        for policy in policies:
            until.by(policy)
    if executor is not None and not isinstance(executor, Executor):
        raise TypeError(f"executor must be a concurrent.futures.Executor, got {executor!r}")
    if executor is not None and workers is not None:
        raise ValueError("give workers or an executor, not both: an executor has its own number of workers")
    if workers is not None:
        workers = validation.whole("workers", workers)
    if batch is not None:
        batch = validation.whole("batch", batch)
    if store is not None and not isinstance(store, Store):
        store = Store(store)

    marks = checkpoints(horizon, points)
    if workers is None and executor is None:
        workers = _worthwhile_threads(environment, seed, batch or trials, policies)
    if batch is None:
        batch = _batch_size(workers or getattr(executor, "_max_workers", None), trials, len(policies))
    every = tuple(range(trials))
    tasks = [Task(environment, horizon, seed, every, policy, marks, until) for policy in policies]

    def results(finished: Sequence[Finished]) -> Results:
        runs = {task.policy.name: _run(task, done) for task, done in zip(tasks, finished, strict=True)}
        return Results(environment, horizon, seed, marks, runs)

    try:
        return results(compute(tasks, batch, executor, workers or 1, store, progress, environment.name))
    except Interrupted as interrupt:
        raise SimulationInterrupted(results(interrupt.finished)) from None


def _run(task: Task, done: Finished) -> Run:
    if len(done.trials) == 0:
        nothing, none = np.empty((0, len(task.checkpoints))), np.empty(0, dtype=np.int64)
        ends = None if task.until is None else Ends(none, none, none > 0)
        return Run(task.policy, done.trials, nothing, np.empty((0, 0), dtype=np.int64), 0.0, ends)
    arrays = done.arrays
    ends = None if task.until is None else Ends(*(arrays[name] for name in Ends._fields))
    seconds = float(arrays["seconds"].sum())
    return Run(task.policy, done.trials, arrays["regret"], arrays["pulls"], seconds, ends)


def _named(policies: Policy | Iterable[Policy]) -> list[Policy]:
    chosen = [policies] if isinstance(policies, Policy) else list(policies)
    if not chosen:
        raise ValueError("policies is empty: at least one is needed")
    for policy in chosen:
        if not isinstance(policy, Policy):
            raise TypeError(f"policies must hold policies, got {policy!r}")
    names = [policy.name for policy in chosen]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{names.count(name)} policies are named {name!r}; give each a label of its own")
    return chosen


def _batch_size(workers: int | None, trials: int, policies: int) -> int:
    """Trials that share a loop: as many as leave work for every worker."""
    if workers is None:  # an engine that does not say how large it is
        return min(UNKNOWN_BATCH, trials)
    return min(LARGEST_BATCH, math.ceil(trials / math.ceil(workers / policies)))


def _worthwhile_threads(environment: Environment, seed: int, trials: int, policies: Sequence[Policy]) -> int:
    """All processors, or 1 where a round is so short that threads would only wait for each other."""
    workers = default_workers()
    if all(policy.compiled_rounds for policy in policies):
        return workers  # the interpreter lock is seldom asked for
    environments = EnvironmentBatch(environment, [stream(seed, "environment", 0)])
    environments.advance()
    replicas = _batch_size(workers, trials, len(policies))
    return workers if replicas * math.prod(environments.shape) >= SMALLEST_ROUND else 1
