"""Running tasks on any `concurrent.futures.Executor`, with a bar that tells rate and time left."""

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing import get_context

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Task as RichTask
from rich.text import Text

from linmed.simulation.batch import Outcome, Stopped, Task, run_batch


def default_workers() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes(workers: int | None = None) -> ProcessPoolExecutor:
    """An executor of fresh processes, for many small problems where threads get in each other's way.

    Call it from a program whose main part is guarded by `if __name__ == "__main__":`.
    """
    return ProcessPoolExecutor(workers or default_workers(), mp_context=get_context("spawn"))


def execute(
    tasks: Sequence[Task], executor: Executor | None, workers: int, progress: bool, title: str
) -> Iterator[tuple[Task, Outcome]]:
    """Every task with its outcome, in the order they finish.

    Without an executor, threads: the kernels run outside the interpreter lock. On Ctrl-C the threads
    stop at the next block, what has finished is still handed out, and the interrupt goes on.
    """
    stop = threading.Event()
    with _Bar(progress, title, sum(task.horizon * len(task.trials) for task in tasks)) as bar:

        def tick(replica_rounds: int) -> None:
            if stop.is_set():
                raise Stopped
            bar.advance(replica_rounds)

        own = ThreadPoolExecutor(workers, thread_name_prefix="linmed") if executor is None else None
        futures: dict[Future[Outcome], Task] = {}
        try:
            for task in tasks:
                if own is not None:
                    futures[own.submit(run_batch, task, tick)] = task
                else:
                    assert executor is not None
                    futures[executor.submit(run_batch, task)] = task
            for future in as_completed(list(futures)):
                task = futures.pop(future)
                try:
                    outcome = future.result()
                except Exception as error:
                    error.add_note(f"while simulating {task.policy.name} on {task.environment.name}")
                    raise
                if own is None:
                    bar.advance(task.horizon * len(task.trials))
                yield task, outcome
        except KeyboardInterrupt:
            stop.set()
            for future in futures:
                future.cancel()
            for future, task in futures.items():
                if future.done() and not future.cancelled() and future.exception() is None:
                    yield task, future.result()
            raise
        finally:
            stop.set()
            for future in futures:
                future.cancel()
            if own is not None:
                own.shutdown(wait=True)


class _Rate(ProgressColumn):
    def render(self, task: RichTask) -> Text:
        return Text(
            "" if task.speed is None else f"{task.speed / 1e6:.2f} M rounds/s", style="progress.data.speed"
        )


class _Bar:
    """A progress bar on standard error, shown only where someone can see it."""

    def __init__(self, wanted: bool, title: str, total: int) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"),
            _Rate(), TimeRemainingColumn(),
            console=console, disable=not (wanted and console.is_terminal), transient=True,
        )  # fmt: skip
        self._task = self._progress.add_task(title, total=total)

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def advance(self, replica_rounds: int) -> None:
        self._progress.advance(self._task, replica_rounds)
