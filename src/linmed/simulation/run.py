"""Run policies × environment × trials on any executor; what a store already holds is not computed again."""

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from linmed import validation
from linmed.environments import Environment
from linmed.policies.base import Policy
from linmed.report.progress import Bar
from linmed.simulation.environment_batch import EnvironmentBatch
from linmed.simulation.executors import default_workers
from linmed.simulation.results import Ends, Results, Run
from linmed.simulation.stopping import Decided, as_until
from linmed.simulation.store import Finished, Store
from linmed.simulation.trials import Job, Outcome, Stopped, Task, checkpoints
from linmed.streams import stream


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while jobs were running; `finished` holds what was done of each."""

    def __init__(self, finished: list[Finished]) -> None:
        super().__init__("interrupted; what was finished is kept")
        self.finished = finished


def compute(
    jobs: Sequence[Job],
    batch: int,
    executor: Executor | None = None,
    workers: int = 1,
    store: Store | None = None,
    progress: bool | Bar = False,
    title: str = "",
) -> list[Finished]:
    """All trials of every job: those in the store, and the others, at most `batch` of them together.

    progress: whether to show a bar, or a bar of the caller's, which hears of what is done.
    """
    finished = [[store.load(job)] if store else [] for job in jobs]
    parts = []
    for index, job in enumerate(jobs):
        here = set(finished[index][0].trials.tolist()) if store else set()
        missing = [trial for trial in job.trials if trial not in here]
        parts += [(replace(job, trials=part), index) for part in _consecutive(missing, batch)]
    total = sum(job.rounds for job, _ in parts)
    interrupted = False
    with nullcontext(progress) if isinstance(progress, Bar) else Bar(progress, "rounds", title, total) as bar:
        try:
            for job, index, outcome in _execute(parts, executor, workers, bar):
                finished[index].append(Finished(np.array(job.trials), outcome))
                if store:
                    try:
                        store.save(job, outcome)
                    except KeyboardInterrupt:
                        store.save(job, outcome)  # the same bytes under the same name, whole this time
                        raise
        except KeyboardInterrupt:
            interrupted = True
    whole = [Finished.together([part for part in found if len(part.trials)]) for found in finished]
    if interrupted:
        raise Interrupted(whole)
    return whole


def _execute(
    parts: Sequence[tuple[Job, int]], executor: Executor | None, workers: int, bar: Bar
) -> Iterator[tuple[Job, int, Outcome]]:
    """Every job with its number and outcome, in the order they finish.

    Without an executor, threads: the core runs outside the interpreter lock. On Ctrl-C the threads
    stop at the next block, what has finished is still handed out, and the interrupt goes on.
    """
    stop = threading.Event()

    def tick(replica_rounds: int) -> None:
        if stop.is_set():
            raise Stopped
        bar.advance(replica_rounds)

    own = ThreadPoolExecutor(workers, thread_name_prefix="linmed") if executor is None else None
    futures: dict[Future[Outcome], tuple[Job, int]] = {}
    try:
        for job, index in parts:
            if own is not None:
                futures[own.submit(job.run, tick)] = job, index
            else:
                assert executor is not None
                futures[executor.submit(job.run)] = job, index
        for future in as_completed(list(futures)):
            job, index = futures.pop(future)
            try:
                outcome = future.result()
            except Exception as error:
                error.add_note(f"while simulating {job.name}")
                raise
            if own is None:
                bar.advance(job.rounds)
            yield job, index, outcome
    except KeyboardInterrupt:
        stop.set()
        for future in futures:
            future.cancel()
        for future, (job, index) in futures.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                yield job, index, future.result()
        raise
    finally:
        stop.set()
        for future in futures:
            future.cancel()
        if own is not None:
            own.shutdown(wait=True)


def _consecutive(trials: list[int], size: int) -> list[tuple[int, ...]]:
    """Runs of consecutive trials, at most `size` long."""
    parts: list[list[int]] = []
    for trial in trials:
        if parts and parts[-1][-1] == trial - 1 and len(parts[-1]) < size:
            parts[-1].append(trial)
        else:
            parts.append([trial])
    return [tuple(part) for part in parts]


LARGEST_BATCH = 256
"""Replicas that go through the loop together; beyond this the cost of a round is all arithmetic."""
UNKNOWN_BATCH = 32
"""The same for an executor of unknown size: enough to share a loop, few enough to spread over a cluster."""
MOST_TRIALS = 10**8
SMALLEST_ROUND = 1000
"""Replicas × arms × features in a round below which threads wait for the interpreter lock longer than
they work, for policies that play round by round."""


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
    progress: whether to show a bar, or a `linmed.report.progress.Bar` that several simulations share.
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
