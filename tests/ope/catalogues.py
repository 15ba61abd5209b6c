"""Logs of a catalogue for tests: the study's policy that learns, and one that does not."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from linmed.ope import DecisionLog


def load_study() -> ModuleType:
    """`benchmarks/ope_catalogue.py`."""
    path = Path(__file__).parents[2] / "benchmarks" / "ope_catalogue.py"
    spec = importlib.util.spec_from_file_location("ope_catalogue", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["ope_catalogue"] = found
    spec.loader.exec_module(found)
    return found


def routed(n: int, seed: int, keep: float = 0.8, size: int = 5, **more: object) -> DecisionLog:
    """Decisions of a policy that does not learn: item 0 is the best, and the others are proposed 0.08 each.

    They are accepted with probability `keep`. Item i pays 1 with probability (i + 1)/10.
    """
    return DecisionLog.from_table({**columns(n, seed, keep, size), **more})


def columns(n: int, seed: int, keep: float = 0.8, size: int = 5) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    q, f = np.full(size, 0.4 / size), np.full(size, keep)
    q[0], f[0] = 1.0 - 0.4 * (size - 1) / size, 1.0
    proposed = rng.choice(size, n, p=q)
    accepted = rng.random(n) < f[proposed]
    arm = np.where(accepted, proposed, 0)
    p = (q * f)[arm]
    return {
        "arm": arm,
        "arm_id": [f"item-{a}" for a in arm],
        "arm_count": np.full(n, size),
        "probability": [float(one) if yes else None for one, yes in zip(p, accepted, strict=True)],
        "fallback": ~accepted,
        "reward": (rng.random(n) < (arm + 1) / 10).astype(float),
    }
