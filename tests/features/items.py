"""Catalogues of rows of numbers, for tests of indexes and of decisions by route."""

import numpy as np

from linmed.features import Catalogue


def of_rows(matrix):
    """Items 0, 1, … with these features."""
    return Catalogue(range(len(matrix)), matrix)


def add(catalogue, rows):
    """New items with these features, and the next numbers as ids."""
    used = len(catalogue.matrix)
    catalogue.add([{"id": used + i, "features": row} for i, row in enumerate(rows.tolist())])


def following(index, catalogue):
    """The index, up to the catalogue."""
    index.follow(catalogue.snapshot())
    return index


def on_sphere(rng, count, dim):
    rows = rng.standard_normal((count, dim))
    return rows / np.sqrt(np.einsum("kd,kd->k", rows, rows))[:, None]
