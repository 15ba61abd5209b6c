"""Turning tables of raw features into a few well-scaled coordinates."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from linmed.validation import Floats


def standardised(table: Floats) -> Floats:
    """Columns with mean 0 and standard deviation 1; constant columns become 0.  (n, p) → (n, p)."""
    centred: Floats = table - table.mean(axis=0)
    spread = centred.std(axis=0)
    centred /= np.where(spread > 0.0, spread, 1.0)
    return centred


def principal_components(table: Floats, components: int) -> Floats:
    """Scores on the first principal components of the standardised columns.  (n, p) → (n, components).

    Every component points where its largest loading is positive, so the scores are unique.
    """
    centred = standardised(table)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:components]
    largest = np.argmax(np.abs(axes), axis=1)
    axes = axes * np.sign(axes[np.arange(len(axes)), largest])[:, None]
    scores: Floats = centred @ axes.T
    return scores


def unit_interval(table: Floats) -> Floats:
    """Columns scaled to [0, 1].  (n, p) → (n, p)."""
    low = table.min(axis=0)
    span = table.max(axis=0) - low
    scaled: Floats = (table - low) / np.where(span > 0.0, span, 1.0)
    return scaled


def digest(*arrays: NDArray[np.generic]) -> str:
    """A fingerprint of the arrays' values, shapes and types."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()
