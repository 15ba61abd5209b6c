"""Offline evaluation: what the uniform policy earns, estimated from logs of LinMED-50 and LinTS-Freq.

An M-sample Monte-Carlo estimate of a probability p counts X ~ Binomial(M, p) hits. So one exact
log suffices: the counts are drawn from it, and every way to turn them into a propensity is scored on the
same decisions.
"""

import hashlib
import json
import os
import time
import uuid
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linmed import __version__
from linmed.checks import Floats
from linmed.environments import FixedArms
from linmed.experiments.lineup import DELTA, Variant
from linmed.ope import ipw
from linmed.policies import LinMED, LinTS, Policy
from linmed.simulation.schedule import ENVIRONMENT, POLICY, stream
from linmed.simulation.stacking import Rounds

ORACLE = 0.8
"""Mean reward of the uniform policy: (1 + 0.6)/2."""
SAMPLES = (1_000, 10_000, 100_000)
"""M."""
COUNTS = 2
"""The third random stream of a trial: Monte-Carlo counts."""
BATCH = 500

LINMED_EXACT = "LinMED-50"
LINTS_EXACT = "LinTS-Freq, exact"


def floor_column(M: int) -> str:
    """LinTS-Freq's log with propensities max(X, 0.5)/M, as in the public code."""
    return f"LinTS-Freq, floor 0.5/M, M={M}"


def plus_one_column(M: int) -> str:
    """LinTS-Freq's log with propensities (X + 1)/(M + 1)."""
    return f"LinTS-Freq, plus one, M={M}"


@dataclass(frozen=True)
class OfflineSetting:
    """All that the scores depend on, the trials aside."""

    environment: FixedArms
    linmed: LinMED
    lints: LinTS
    horizon: int
    seed: int

    def key(self) -> str:
        """A hash of the whole configuration."""
        configuration = {
            "environment": self.environment.identity(),
            "policies": [self.linmed.to_dict(), self.lints.to_dict()],
            "horizon": self.horizon,
            "seed": self.seed,
            "samples": SAMPLES,
            "linmed": __version__,
        }
        return hashlib.sha256(json.dumps(configuration, sort_keys=True).encode()).hexdigest()[:16]


def offline_setting(variant: Variant, horizon: int, seed: int) -> OfflineSetting:
    """The text's setting, or the one of the authors' public code."""
    if variant == "text":
        sigma = float(np.sqrt(0.1))
        arms, shares, scale, explore = [[1.0, 0.0], [0.6, 0.8]], (0.5, 0.25), "frequentist", True
    else:
        sigma = 0.1
        arms, shares, scale, explore = [[0.6, 0.8], [1.0, 0.0]], (0.5, 0.5), "squared-radius", False
    return OfflineSetting(
        FixedArms(arms, theta=[1.0, 0.0], sigma=sigma),
        LinMED(sigma=sigma, delta=DELTA, alpha_emp=shares[0], alpha_opt=shares[1], explore=explore,
               label=LINMED_EXACT),
        LinTS(sigma=sigma, delta=DELTA, scale=scale, label="LinTS-Freq"),  # type: ignore[arg-type]
        horizon, seed,
    )  # fmt: skip


def scores(setting: OfflineSetting, trials: tuple[int, ...]) -> dict[str, Floats]:
    """IPW scores of the uniform policy, one per trial, by how the propensity was found; and the time."""
    began = time.perf_counter()
    target = 1.0 / len(np.asarray(setting.environment.arms))
    reward, probability = _log(setting, setting.linmed, trials)
    found = {LINMED_EXACT: ipw(reward, probability, target)}
    reward, probability = _log(setting, setting.lints, trials)
    found[LINTS_EXACT] = ipw(reward, probability, target)
    for M in SAMPLES:
        hits = _counts(setting.seed, trials, M, probability)
        found[floor_column(M)] = ipw(reward, np.maximum(hits, 0.5) / M, target)
        found[plus_one_column(M)] = ipw(reward, (hits + 1.0) / (M + 1.0), target)
    found["seconds"] = np.full(len(trials), (time.perf_counter() - began) / len(trials))
    return found


def _log(setting: OfflineSetting, policy: Policy, trials: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Rewards and the played arms' exact probabilities, (trials, rounds) each."""
    R, environment = len(trials), setting.environment
    rounds = Rounds(environment, [stream(setting.seed, trial, ENVIRONMENT) for trial in trials])
    generators = [stream(setting.seed, trial, POLICY) for trial in trials]
    replicas = np.arange(R)
    reward = np.empty((R, setting.horizon))
    log_probability = np.empty((R, setting.horizon))
    done = 0
    while done < setting.horizon:
        size = rounds.advance()
        dim = rounds.arms(0).shape[-1]
        if done == 0:
            state = policy.start(R, dim)
        shape = (size, policy.noise_size(dim))
        draw = [rng.random(shape) if policy.noise == "uniform" else rng.standard_normal(shape)
                for rng in generators]  # fmt: skip
        noise = np.stack(draw, axis=1)  # (rounds, R, size)
        for t in range(min(size, setting.horizon - done)):
            choice = policy.decide(state, rounds.arms(t), noise[t])
            means = rounds.mean_row(t).take(replicas * rounds.count + choice.arm)
            rewards = environment.rewards(means, rounds.noise[t])
            policy.learn(state, choice.features, rewards, replicas)
            reward[:, done + t] = rewards
            log_probability[:, done + t] = choice.log_probability
        done += size
    return reward, np.exp(log_probability)


def _counts(seed: int, trials: tuple[int, ...], M: int, probability: Floats) -> Floats:
    """Monte-Carlo hits X ~ Binomial(M, p), from each trial's own stream.  → (trials, rounds)."""
    rows = []
    for row, trial in enumerate(trials):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(trial, COUNTS, M)))
        rows.append(rng.binomial(M, np.minimum(probability[row], 1.0)))
    return np.array(rows, dtype=np.float64)


def evaluate_offline(
    setting: OfflineSetting, trials: int, directory: Path, executor: Executor | None = None
) -> pa.Table:
    """Scores of `trials` trials, one row each. Batches already in `directory` are not computed again."""
    directory.mkdir(parents=True, exist_ok=True)
    parts = [tuple(range(a, min(a + BATCH, trials))) for a in range(0, trials, BATCH)]
    tables = {part: _load(directory, setting, part) for part in parts}
    todo = [part for part in parts if tables[part] is None]
    if executor is None:
        for part in todo:
            tables[part] = _save(directory, setting, part, scores(setting, part))
    else:
        futures = {executor.submit(scores, setting, part): part for part in todo}
        for future in as_completed(futures):
            tables[futures[future]] = _save(directory, setting, futures[future], future.result())
    return pa.concat_tables([tables[part] for part in parts])


def _stem(setting: OfflineSetting, part: tuple[int, ...]) -> str:
    return f"{setting.key()}-{part[0]:06d}-{part[-1]:06d}"


def _save(
    directory: Path, setting: OfflineSetting, part: tuple[int, ...], found: dict[str, Floats]
) -> pa.Table:
    """Write a finished batch under a name that holds the hash of its bytes; all or nothing."""
    table = pa.table({"trial": list(part), **found})
    configuration = {
        "environment": setting.environment.to_dict(), "linmed": setting.linmed.to_dict(),
        "lints": setting.lints.to_dict(), "horizon": setting.horizon, "seed": setting.seed,
    }  # fmt: skip
    table = table.replace_schema_metadata({"configuration": json.dumps(configuration)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content = sink.getvalue().to_pybytes()
    partial = directory / f".{uuid.uuid4().hex}.part"
    partial.write_bytes(content)
    os.replace(partial, directory / f"{_stem(setting, part)}-{_digest(content)}.parquet")
    return table


def _load(directory: Path, setting: OfflineSetting, part: tuple[int, ...]) -> pa.Table | None:
    """The batch, if it is there undamaged."""
    for file in sorted(directory.glob(f"{_stem(setting, part)}-*.parquet")):
        content = file.read_bytes()
        if file.stem.rsplit("-", 1)[-1] == _digest(content):
            return pq.read_table(pa.BufferReader(content))
        file.unlink()  # damaged: computed again
    return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def columns(table: pa.Table) -> dict[str, Floats]:
    """The score columns as arrays."""
    names = [name for name in table.column_names if name not in ("trial", "seconds")]
    return {name: table[name].to_numpy() for name in names}
