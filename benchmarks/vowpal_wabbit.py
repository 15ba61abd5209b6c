"""Vowpal Wabbit's SquareCB on the problems of `linmed reproduce clicks`, in the same trials.

    python -m venv vw && vw/bin/pip install vowpalwabbit
    python benchmarks/vowpal_wabbit.py vw/bin/python --trials 20 --rounds 4000 --seed 1

It is a policy whose decisions are made in a process of that interpreter. What it needs of a decision is every
arm, so the process keeps them until the reward comes, and a decision is known here by its number.
"""

import argparse
import contextlib
import os
import struct
import subprocess
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.paper.logistic_clicks import NEWS, PROBLEMS
from linmed.policies import LogisticMED
from linmed.policies.base import Policy, Properties, State, decisions
from linmed.simulation import simulate
from linmed.validation import Floats, Ints

PROCESS = Path(__file__).with_name("vw_process.py")
LONGEST = 60
"""Seconds for an interpreter to say which version it has."""

ANSWERED = 1 << 15
"""Bytes of answers that are asked for before any is read: a pipe holds more than that."""


def version_of(python: str) -> str:
    """Ask for the version that this interpreter has; ValueError says what is wrong with it."""
    asking = [python, "-c", "import vowpalwabbit; print(vowpalwabbit.__version__)"]
    try:
        done = subprocess.run(asking, capture_output=True, text=True, timeout=LONGEST)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"the interpreter {python!r} for Vowpal Wabbit cannot be run: {error}") from None
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise ValueError(f"the interpreter {python!r} has no Vowpal Wabbit: {words[-1] if words else ''}")
    return done.stdout.strip()


class VowpalWabbitState(State):
    """A process with one learner for every replica."""

    __slots__ = ("__weakref__", "asked", "count", "process", "theta")

    def __init__(self, python: str, arguments: str, replicas: int, dim: int) -> None:
        self.count = np.zeros(replicas, dtype=np.int64)
        self.theta = np.full((replicas, dim), np.nan)  # which VW does not tell
        self.asked = np.zeros(replicas, dtype=np.int64)
        """Decisions made so far."""
        self.process = subprocess.Popen(
            [python, str(PROCESS), str(replicas), arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is ours: the process ends when its input does
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        weakref.finalize(self, _end, self.process)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what can be seen from here."""
        return {"count": self.count, "asked": self.asked}

    def tell(self, request: bytes) -> None:
        """Send a request."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(request)
        except BrokenPipeError:
            self._failed()

    def answers(self, count: int) -> Floats:
        """Wait for so many numbers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.flush()
        answer = self.process.stdout.read(8 * count)
        if len(answer) < 8 * count:
            self._failed()
        return np.frombuffer(answer, dtype="<f8")

    def _failed(self) -> None:
        assert self.process.stderr is not None
        words = self.process.stderr.read().decode(errors="replace").strip().splitlines()
        raise RuntimeError(f"Vowpal Wabbit stopped: {words[-1] if words else 'no message'}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """By the end of its input, and where that is not enough by force."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class VowpalWabbit(Policy):
    """`vw --cb_explore_adf` with these arguments; the arms' features are its own, and it adds a constant."""

    arguments: str = "--squarecb"
    version: str = ""
    """Which results are Vowpal Wabbit's own depends on it."""
    python: str = field(default="", compare=False, repr=False)
    """The interpreter."""

    learns_from_arms: ClassVar[bool] = False
    index_free: ClassVar[bool] = True
    properties: ClassVar[Properties] = Properties(
        reference="Foster & Rakhlin 2020, as in Vowpal Wabbit",
        minimax="√(Kn)",
        instance="unknown",
        computable="told by Vowpal Wabbit",
        all_arms="yes",
        randomised=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.text("arguments", self.arguments)
        validation.text("version", self.version)

    @property
    def scale_free(self) -> bool:
        """Costs are taken to lie in [0, 1]."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Leave out the interpreter, of which nothing depends but the version."""
        return {name: value for name, value in super().to_dict().items() if name != "python"}

    def start(self, replicas: int, dim: int) -> VowpalWabbitState:
        """Start a process; it ends with the state."""
        return VowpalWabbitState(self.python, self.arguments, replicas, dim)

    def log_probabilities(self, state: VowpalWabbitState, arms: Floats) -> Floats:
        """Ask what Vowpal Wabbit says it will do, made to sum to 1: its numbers are single precision."""
        count, dim = arms.shape[1:]
        told = np.empty((decisions(state, arms), count))
        together = max(1, ANSWERED // (8 * count))
        for first in range(0, len(told), together):
            some = range(first, min(first + together, len(told)))
            for r in some:
                offered = np.ascontiguousarray(arms[r if len(arms) > 1 else 0], dtype="<f8")
                state.tell(b"p" + struct.pack("<3i", r, count, dim) + offered.tobytes())
            told[some] = state.answers(len(some) * count).reshape(-1, count)
        told /= told.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            return np.log(told)

    def features(self, state: VowpalWabbitState, arms: Floats, arm: Ints) -> Floats:
        """Return the decision's number in its learner (R, 1); the process keeps the rest."""
        for r, played in enumerate(arm.tolist()):
            state.tell(b"k" + struct.pack("<2i", r, played))
        numbers = state.asked.astype(np.float64)[:, None]
        state.asked += 1
        return numbers

    def learn(self, state: VowpalWabbitState, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Learn in the order given."""
        for number, reward, r in zip(
            features[:, 0].tolist(), rewards.tolist(), replicas.tolist(), strict=True
        ):
            state.tell(b"l" + struct.pack("<iqd", r, int(number), reward))
            state.count[r] += 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    version = version_of(args.python)
    rivals = [
        VowpalWabbit(
            f"--squarecb --gamma_scale {scale}", version, args.python, label=f"SquareCB, γ = {scale}"
        )
        for scale in (10, 100, 1000)
    ]
    for name, problem in {**PROBLEMS, **NEWS}.items():
        print(
            name, simulate([LogisticMED(), *rivals], problem, args.rounds, args.trials, args.seed), sep="\n"
        )


if __name__ == "__main__":
    main()
