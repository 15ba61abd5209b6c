"""Run Vowpal Wabbit behind a pipe, by an interpreter that has it: python vw_process.py REPLICAS ARGUMENTS.

Standard input holds requests, one byte each with what follows, numbers little-endian:
`p` replica, K, d (int32) and K·d float64: the features of a decision's arms; K float64 are answered, their
probabilities. `k` replica, arm (int32): that arm was played; the decision is kept until its reward comes.
`l` replica (int32), number (int64) of the decision, reward (float64): learn it. Numbers count from 0.
"""

import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from vowpalwabbit import Workspace

SMALLEST = 1e-4
"""Features that are smaller are left out: most of the time goes into reading them."""


def lines_of(arms: Any) -> list[str]:
    """Write every arm as a line of VW's text."""
    lines = []
    for row in arms:
        places = np.flatnonzero(np.abs(row) >= SMALLEST)
        values = row[places].tolist()
        lines.append("| " + " ".join([f"{k}:{x:.6g}" for k, x in zip(places.tolist(), values, strict=True)]))
    return lines


class Learner:
    """One workspace, and the decisions whose rewards have not come."""

    def __init__(self, arguments: str) -> None:
        self.workspace = Workspace(f"--cb_explore_adf {arguments} --quiet --random_seed 1")
        self.kept: dict[int, tuple[list[str], int, float]] = {}
        self.count = 0

    def predict(self, arms: Any) -> Any:
        """Predict the probabilities of one decision's arms."""
        self.lines = lines_of(arms)
        self.chances = self.workspace.predict(self.lines)
        return np.asarray(self.chances, dtype=np.float64)

    def keep(self, arm: int) -> None:
        """Keep what VW needs of a decision: all its arms, which was played, and how probable that was."""
        self.kept[self.count] = self.lines, arm, self.chances[arm]
        self.count += 1

    def learn(self, number: int, reward: float) -> None:
        """Learn a cost, which lies in [0, 1], as SquareCB takes them to be."""
        lines, arm, chance = self.kept.pop(number)
        labelled = lines.copy()
        labelled[arm] = f"0:{1.0 - reward}:{chance} {lines[arm]}"
        self.workspace.learn(labelled)


def serve(
    replicas: int, arguments: str, read: Callable[[int], bytes], write: Callable[[bytes], None]
) -> None:
    """Answer until the input ends."""
    learners = [Learner(arguments) for _ in range(replicas)]
    while request := read(1):
        if request == b"p":
            replica, count, dim = struct.unpack("<3i", read(12))
            arms = np.frombuffer(read(8 * count * dim), dtype="<f8").reshape(count, dim)
            write(learners[replica].predict(arms).astype("<f8").tobytes())
        elif request == b"k":
            replica, arm = struct.unpack("<2i", read(8))
            learners[replica].keep(arm)
        else:
            replica, number, reward = struct.unpack("<iqd", read(20))
            learners[replica].learn(number, reward)


if __name__ == "__main__":

    def answer(content: bytes) -> None:
        """Write it and do not wait."""
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()

    serve(int(sys.argv[1]), sys.argv[2], sys.stdin.buffer.read, answer)
