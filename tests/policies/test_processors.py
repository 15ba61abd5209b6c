"""What a policy computes depends neither on the threads of BLAS nor on the instructions that it uses.

A cluster's workers have one thread of BLAS where a laptop has many, and another processor's OpenBLAS sums in
another order. The core has one order for all: tests/core/test_same_bits.py.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from linmed.policies import LinMED
from tests.policies.configurations import BEYOND, CONFIGURATIONS, FEW, Shape, situation
from tests.test_catalogue_sampler import fingerprint

SETS = [FEW, Shape("BLAS", 41, 17), Shape("a plane of 17", 20, 17, rank=2)]
LARGE = Shape("large", 1000, 100)
"""Large enough for OpenBLAS to share a product among threads."""


def digests():
    """A fingerprint of the state and of the probabilities of each configuration at each shape."""
    cases = [(policy, shape) for policy in CONFIGURATIONS for shape in SETS]
    cases += [(LinMED(), LARGE), (LinMED(), BEYOND)]
    found = {}
    for policy, shape in cases:
        state, arms = situation(policy, shape)
        sha = hashlib.sha256()
        for array in [*state.arrays().values(), policy.log_probabilities(state, arms)]:
            sha.update(np.ascontiguousarray(array).tobytes())
        found[f"{policy.name}, {shape.name}"] = sha.hexdigest()
    found["by route"] = fingerprint()
    return found


@pytest.mark.identity
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other processors have other names")
@pytest.mark.parametrize("core", ["Haswell", "Nehalem"])
def test_numbers_do_not_depend_on_the_threads_or_the_instructions_of_blas(core):
    program = "import json; from tests.policies.test_processors import digests; print(json.dumps(digests()))"
    told = {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": "1" if core == "Nehalem" else "2"}
    other = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(other.stdout) == digests()
