"""Logs for the studies of evaluation: of policies that learn, while means drift, with late rewards."""

import math
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from linmed.policies.base import Policy

K, D, LAST = 10, 4, 10_000
MATURE = 2_000.0


class Played(NamedTuple):
    """Logs of R problems."""

    arms: np.ndarray  # (R, K, d)
    means: np.ndarray  # (R, K) before any drift
    arm: np.ndarray  # (R, n)
    reward: np.ndarray  # (R, n)
    probability: np.ndarray  # (R, n, K)


def play(policy: Policy | None, count: int, factor: np.ndarray, rng: np.random.Generator) -> Played:
    """The logs of a policy that learns, means times `factor` (n,)."""
    theta = rng.dirichlet(np.ones(D), size=count)
    arms = rng.uniform(0.1, 0.9, size=(count, K, D))
    means = np.einsum("rkd,rd->rk", arms, theta)
    arms /= math.sqrt(D)
    log = Played(
        arms, means, np.empty((count, LAST), np.int64), np.empty((count, LAST)), np.empty((count, LAST, K))
    )
    everyone = np.arange(count)
    state = policy.start(count, D) if policy is not None else None
    sums, counts = np.zeros((count, K)), np.zeros((count, K))
    for t in range(LAST):
        if policy is None:
            rate = (t + 1.0) ** -0.7
            best = (sums / np.maximum(counts, 1) + (counts == 0)).argmax(axis=1)
            chance = np.full((count, K), rate / K)
            chance[everyone, best] += 1 - rate
            arm = np.where(rng.random(count) < rate, rng.integers(K, size=count), best)
        else:
            choice = policy.decide(state, arms, rng.random((count, policy.noise_size(D))))
            arm, chance = choice.arm, np.exp(choice.log_probabilities)
        reward = (rng.random(count) < means[everyone, arm] * factor[t]).astype(float)
        log.arm[:, t], log.probability[:, t], log.reward[:, t] = arm, chance, reward
        sums[everyone, arm] += reward
        counts[everyone, arm] += 1
        if policy is not None:
            policy.learn(state, choice.features, reward, everyone)
    return log


def table_of(log: Played, r: int) -> pa.Table:
    """One log as an agent would have written it."""
    n = LAST
    starts = pa.array(np.arange(0, n * K + 1, K, dtype=np.int32))
    vectors = pa.ListArray.from_arrays(
        pa.array(np.arange(0, n * K * D + 1, D, dtype=np.int32)),
        pa.array(np.tile(log.arms[r], (n, 1)).ravel()),
    )
    return pa.table(
        {
            "arm": log.arm[r],
            "arm_count": np.full(n, K),
            "probability": log.probability[r][np.arange(n), log.arm[r]],
            "probabilities": pa.ListArray.from_arrays(starts, pa.array(log.probability[r].ravel())),
            "arms": pa.ListArray.from_arrays(starts, vectors),
            "reward": log.reward[r],
        }
    )


def late(table: pa.Table, kind: str, rng: np.random.Generator) -> tuple[pa.Table, float]:
    """The log as it is known when the last decision is made, and the share of ones that count in time."""
    n = table.num_rows
    made = np.arange(n, dtype=float)
    one = table["reward"].to_numpy() == 1.0
    wait, share = {
        "timeout": (np.where(one, 0.0, MATURE), 1.0),
        "late clicks": (np.where(one, rng.uniform(0, MATURE, n), 20.0), 1.0),
        "clicks only": (np.where(one, rng.exponential(300.0, n), math.inf), 1 - math.exp(-MATURE / 300.0)),
    }[kind]
    unknown = made + wait > made[-1]
    when = np.where(unknown, 0.0, made + wait)
    stamp = pa.timestamp("us", tz="UTC")
    table = table.set_column(
        table.schema.get_field_index("reward"), "reward", pa.array(table["reward"].to_numpy(), mask=unknown)
    )
    table = table.append_column("time", pa.array((made * 1e6).astype(np.int64)).cast(stamp))
    return table.append_column(
        "reward_time", pa.array((when * 1e6).astype(np.int64), mask=unknown).cast(stamp)
    ), share
