"""A catalogue reduced to what indexes and decisions look at."""

import numpy as np


class Plain:
    """Rows in a matrix."""

    def __init__(self, matrix):
        self.matrix = matrix
        self.live = np.ones(len(matrix), dtype=np.bool_)
        self.version = 1

    @property
    def count(self):
        return int(self.live.sum())

    def remove(self, places):
        self.live[places] = False
        self.version += 1

    def add(self, rows):
        self.matrix = np.concatenate([self.matrix, rows.astype(self.matrix.dtype)])
        self.live = np.concatenate([self.live, np.ones(len(rows), dtype=np.bool_)])
        self.version += 1


def on_sphere(rng, count, dim):
    rows = rng.standard_normal((count, dim))
    return rows / np.sqrt(np.einsum("kd,kd->k", rows, rows))[:, None]
