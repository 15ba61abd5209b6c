"""Running jobs on any `concurrent.futures.Executor`; what a store already holds is not computed again."""

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing import get_context

import numpy as np

from linmed.progress import Bar
from linmed.simulation.jobs import Job, Outcome, Stopped
from linmed.simulation.store import Finished, Store


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while jobs were running; `finished` holds what was done of each."""

    def __init__(self, finished: list[Finished]) -> None:
        super().__init__("interrupted; what was finished is kept")
        self.finished = finished


def default_workers() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes(workers: int | None = None) -> ProcessPoolExecutor:
    """An executor of fresh processes, for many small problems where threads get in each other's way.

    Call it from a program whose main part is guarded by `if __name__ == "__main__":`.

    >>> with processes(workers=2) as pool:  # for simulate(..., executor=pool); nothing is started before
    ...     isinstance(pool, ProcessPoolExecutor)
    True
    """
    return ProcessPoolExecutor(workers or default_workers(), mp_context=get_context("spawn"))


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
