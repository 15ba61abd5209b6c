"""`linmed warm-up`: compile everything now, for images and clusters, so that nobody waits later.

The work is many small parts: a policy among arms of one shape, a simulation, an evaluation. Each is simply
done, which compiles what it needs. Processes share them; a kernel that one of them is compiling is waited
for by the others (`linmed.kernels.cache`).
"""

import argparse
import contextlib
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import event
from numba.core.registry import cpu_target

from linmed import checks, design
from linmed.agent import Agent
from linmed.environments import Delayed, FixedArms, UnitBall
from linmed.experiments.pool import workers_of
from linmed.files import write_atomically
from linmed.kernels import cache
from linmed.log import DecisionLog
from linmed.ope import ESTIMATORS, diagnose, evaluate
from linmed.ope.intervals import VALID
from linmed.policies import ALL, Pinpoint, Policy
from linmed.policies.linmed import NOTHING_TOLD
from linmed.policies.paths import variants, walk_all
from linmed.progress import Bar
from linmed.route_paths import walk_routes
from linmed.serve.bandit import Bandit
from linmed.serve.shelf import Catalogue
from linmed.simulation import simulate
from linmed.simulation.engine import default_workers
from linmed.verdict import Verdicts


@dataclass(frozen=True)
class Part:
    """Something to be done for what it compiles."""

    name: str
    do: Callable[[], Any]

    def count(self) -> int:
        """Do it; the number of kernels that had to be compiled."""
        with event.install_recorder("numba:compile") as recorder:
            self.do()
        starts = [one for _, one in recorder.buffer if one.is_start]
        return sum(one.data["dispatcher"]._cache.cache_path is not None for one in starts)


def parts() -> list[Part]:
    """All there is, what takes longest first and neighbours as different as can be."""
    kinds = [variants(kind) for kind in sorted(ALL, key=_place_in_module)]
    first = [NOTHING_TOLD, *(policies[0] for policies in kinds)]
    others = [policy for policies in kinds for policy in policies[1:]]
    found = [Part(policy.name, partial(live, policy)) for policy in first]
    found += [Part(f"{policy.name}, simulated", partial(simulated, policy)) for policy in first]
    found += [Part(f"{interval} intervals", partial(evaluated, interval)) for interval in VALID]
    found += [Part("designs", designs), Part("verdicts", verdicts)]
    found += [Part(f"{policy.name}, all shapes", partial(everywhere, policy)) for policy in [*first, *others]]
    return found


def _place_in_module(kind: type[Policy]) -> int:
    """Policies that stand in one file share kernels: the second of them is for later."""
    return [one for one in ALL if one.__module__ == kind.__module__].index(kind)


def everywhere(policy: Policy) -> None:
    """Every path of the policy's kernels, among arms and by route."""
    for _ in chain(walk_all(policy), walk_routes(policy)):
        pass


def live(policy: Policy) -> None:
    """As an agent, and as a bandit of the service, use it."""
    arms = np.eye(3)
    agent = Agent(policy, dim=3, seed=0)
    agent.learn(agent.decide(arms), 1.0)
    agent.decide_batch([arms, arms])
    agent.probabilities(arms)
    catalogue = Catalogue.of(("a", "b", "c"), arms)
    Bandit(id=0, name="", dim=3, policy=policy, catalogue=catalogue).warm_up()


def simulated(policy: Policy) -> None:
    """As experiments use it: one set of arms for all rounds, a new one in each, rewards that come late."""
    clicks = not policy.accepts(np.array([-0.5])).all()
    link: Any = {"link": "logistic"} if clicks else {}
    same = FixedArms(np.eye(3), np.array([0.5, 0.2, 0.1]), **link)
    for problem in (same, Delayed(same, rounds=2), UnitBall(arms=10, dim=4, **link)):
        try:
            simulate(policy, problem, horizon=3, trials=2, progress=False, workers=1)
        except ValueError:  # it wants the same arms in every round, or none with features
            if problem is same:
                raise


def designs() -> None:
    """As `linmed.design` has them."""
    for arms in (np.eye(4), np.random.default_rng(0).normal(size=(40, 4)), np.ones((5, 3))):
        for weights in (design.approx_design(arms), design.optimal_design(arms)):
            design.certificate(arms, weights)


def verdicts() -> None:
    """As agents, logs and simulations come to them."""
    arms, policy = np.eye(3), Pinpoint()
    Agent(policy, dim=3, seed=0).verdict(arms).differences()
    asked, state = Verdicts(arms), policy.start(1, 3)
    asked.learn(policy, state, np.eye(3), np.zeros(3)).estimates  # noqa: B018
    problem = FixedArms(arms, np.array([0.5, 0.2, 0.1]))
    simulate(policy, problem, horizon=3, trials=2, progress=False, workers=1, until="decided")


def evaluated(interval: str) -> None:
    """As off-policy evaluation reads logs, with the arms' features and without."""
    rng = np.random.default_rng(0)
    columns = {
        "arm": rng.integers(3, size=60),
        "probability": np.full(60, 1 / 3),
        "reward": rng.integers(2, size=60).astype(float),
        "probabilities": np.full((60, 3), 1 / 3),
    }
    plain = DecisionLog.from_table(columns)
    whole = DecisionLog.from_table({**columns, "arms": rng.normal(size=(60, 3, 2))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the log is of no consequence
        evaluate(plain, ["uniform"], ["ipw", "dr"], interval)
        evaluate(whole, ["uniform"], list(ESTIMATORS), interval)
        diagnose(whole, "uniform")


def add_parser(subparsers: Any) -> None:
    """Add `warm-up` to the subcommands."""
    parser = subparsers.add_parser(
        "warm-up",
        help="compile everything now",
        description="Compile everything now, in parallel, so that no first decision waits for it: for images "
        "and clusters. The kernels are kept beside the installed files, or where NUMBA_CACHE_DIR says.",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per processor)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Carry out the command; 0 if everything is compiled, 1 if something could not be."""
    workers = default_workers() if args.workers is None else checks.whole("workers", args.workers)
    folder = cache.folder()
    if folder is None:
        raise ValueError(
            "there is no folder to keep compiled kernels in: the installed files cannot be written to, and "
            "neither can the user's own folder of caches; set NUMBA_CACHE_DIR to one that can"
        )
    began, todo = time.perf_counter(), parts()
    record = Record(Path(folder), [part.name for part in todo])
    compiled, failures = (0, []) if record.complete() else warm_up(todo, workers)
    for failure in failures:
        print(f"linmed warm-up: {failure}", file=sys.stderr)
    if not failures:
        record.write()
    took = f"compiled {compiled} kernels in {time.perf_counter() - began:.0f} s"
    print(f"{took if compiled or failures else 'everything is there'}, kept in {folder}")
    return 1 if failures else 0


class Record:
    """What a complete run has left in the folder: which files, for which source, processor and numba."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder, self.path = folder, folder / "warm-up.json"
        seen = hashlib.sha256(repr((names, numba.__version__, _processor())).encode())
        for file in sorted(Path(__file__).parent.rglob("*.py")):
            seen.update(file.read_bytes())
        self.key = seen.hexdigest()

    def complete(self) -> bool:
        """Whether all of it is still there."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            return found["key"] == self.key and set(found["files"]) <= set(self._files())
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def write(self) -> None:
        """Everything is compiled."""
        write_atomically(self.path, json.dumps({"key": self.key, "files": self._files()}).encode())

    def _files(self) -> list[str]:
        return sorted(file.name for file in self.folder.glob("*.nbc"))


def _processor() -> Any:
    return cpu_target.target_context.codegen().magic_tuple()


def warm_up(todo: Sequence[Part], workers: int) -> tuple[int, list[str]]:
    """Do every part; how many kernels had to be compiled, and what failed and why."""
    compiled, failures = 0, []
    with Bar(True, "parts", "compiling", len(todo)) as bar:
        for part, outcome in _outcomes(todo, workers):
            bar.begin(f"compiled {part.name}")
            bar.advance(1)
            try:
                compiled += outcome()
            except BrokenProcessPool:
                failures.append(
                    "a process was ended from outside, perhaps for want of memory: try --workers 1"
                )
                break
            except Exception as error:
                failures.append(f"{part.name}: {error}")
    return compiled, failures


def _outcomes(todo: Sequence[Part], workers: int) -> Iterator[tuple[Part, Callable[[], int]]]:
    """Each part with what tells its outcome, in the order in which they are done."""
    with workers_of(workers, None) as pool:
        if pool is None:
            yield from ((part, part.count) for part in todo)
            return
        futures: dict[Future[int], Part] = {}
        with contextlib.suppress(BrokenProcessPool):
            for part in todo:
                futures[pool.submit(part.count)] = part
        for future in as_completed(futures):
            yield futures[future], future.result
