"""The same problem for every library, and the loop that times it. Needs NumPy alone.

A peer's file says how one round is played; `serve` then answers one request per line of standard input
with one line of JSON, so that the benchmark can interleave the repeats of all peers.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Play = Callable[[int], None]
WARM_UP = 5  # rounds not timed: compilation, caches, and what a library sets up at its first reward


@dataclass(frozen=True)
class Problem:
    """K arms on the unit sphere, fixed; the reward of arm i in round t is ⟨a_i, θ*⟩ + noise_t."""

    arms: np.ndarray  # (K, d)
    contexts: np.ndarray  # (n, d) unit vectors, for libraries whose arms have no features
    means: list[float]  # K
    noise: list[float]  # n

    @property
    def rounds(self) -> int:
        return len(self.noise)

    def reward(self, t: int, arm: int) -> float:
        return self.means[arm] + self.noise[t]


class Entry(NamedTuple):
    """One policy of a library."""

    make: Callable[[Problem], Play]
    """A fresh learner for the problem, as a function that plays round t: decide, be paid, learn."""
    propensity: str
    """yes | no | 0/1: the library answers 1 for what a random draw of its own had already decided."""
    model: str
    """shared: one θ for all arms, arms have features. disjoint: one θ per arm, the round has features."""


def problem(arms: int, dim: int, rounds: int, seed: int = 1) -> Problem:
    rng = np.random.default_rng(seed)

    def directions(n: int) -> np.ndarray:
        rows = rng.standard_normal((n, dim))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    matrix, theta = directions(arms), directions(1)[0]
    noise = rng.standard_normal(rounds)
    return Problem(matrix, directions(rounds), (matrix @ theta).tolist(), noise.tolist())


def measure(make: Callable[[Problem], Play], given: Problem, seconds: float) -> tuple[int, float, float]:
    """Rounds played, µs per round, and µs of processor time: all rounds, or as many as fit into `seconds`."""
    clock = time.perf_counter
    play, began, first = make(given), clock(), 0
    while first < WARM_UP and (first == 0 or clock() - began < seconds):
        play(first)
        first += 1
    rounds = 0
    processor, began = time.process_time(), clock()
    for t in range(first, given.rounds):
        play(t)
        rounds += 1
        now = clock()
        if now - began > seconds:
            break
    processor = time.process_time() - processor
    return rounds, (now - began) / rounds * 1e6, processor / rounds * 1e6


def serve(peer: str, version: str, policies: Mapping[str, Entry]) -> None:
    """Say what there is to measure, then answer requests until standard input ends."""
    out, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not mix with the answers

    def answer(**fields: object) -> None:
        print(json.dumps(fields), file=out, flush=True)

    answer(peer=peer, version=version, policies=list(policies))
    for line in sys.stdin:
        request = json.loads(line)
        entry = policies[request["policy"]]
        given = problem(request["arms"], request["dim"], request["rounds"])
        same = {"peer": peer, "version": version, "policy": request["policy"]}
        same |= {"propensity": entry.propensity, "model": entry.model}
        same |= {"arms": request["arms"], "dim": request["dim"]}
        try:
            rounds, wall, cpu = measure(entry.make, given, request["seconds"])
            answer(**same, rounds=rounds, us_per_round=[wall], cpu_us_per_round=[cpu])
        except Exception as error:  # a peer that fails is a row of the table, not the end of the run
            answer(**same, error=f"{type(error).__name__}: {error}"[:300])
