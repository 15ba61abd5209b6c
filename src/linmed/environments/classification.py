"""A classification data set as a contextual bandit: playing the right class pays 1, another 0."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from linmed import validation
from linmed.environments.base import Block, Environment
from linmed.environments.reduction import digest, principal_components
from linmed.validation import Floats, Ints


@dataclass(frozen=True)
class Classification(Environment):
    """A random row x of X a round; arm k is x in the k-th of K slots (d = K·p), reward 1{k = y}.

    The slots give every class its own linear model. It is only an approximation to 1{k = y}, so this
    problem shows policies on data that no linear model fits. Regret counts the mistakes.

    >>> rows, labels = [[0.0, 1.0], [1.0, 0.0], [0.9, 0.1]], ["cat", "dog", "dog"]
    >>> problem = Classification((rows, labels), components=None)
    >>> block = next(problem.blocks(np.random.default_rng(0)))
    >>> problem.dim, block.arms.shape[1:], sorted(set(block.means.sum(axis=1).tolist()))
    (6, (2, 6), [1.0])
    """

    data: str | tuple[ArrayLike, ArrayLike] = field(default="digits", compare=False)
    """(X, y) with X (n, features) and y (n,) of any labels, or "digits": 8×8 images of handwritten
    digits, 1,797 rows, from scikit-learn."""
    components: int | None = 8
    """Principal components kept (p is one more: a constant); None keeps all features."""

    label: str = field(default="", init=False, repr=False)
    digest: str = field(default="", init=False, repr=False)
    _rows: Floats = field(init=False, repr=False, compare=False)  # (n, p), norms at most 1
    _labels: Ints = field(init=False, repr=False, compare=False)  # (n,)
    _classes: int = field(init=False, repr=False, compare=False)

    _block_numbers: ClassVar[int] = 1 << 16  # feature values in a block, so that blocks stay small

    def __post_init__(self) -> None:
        if isinstance(self.data, str):
            validation.option("data", self.data, ("digits",))
        X, y, label = _digits() if isinstance(self.data, str) else _given(self.data)
        classes, labels = np.unique(y, return_inverse=True)
        # Of the data as they came: the components' last digits depend on the processor.
        self._set("digest", digest(X, labels))
        if self.components is not None:
            self._set("components", min(validation.whole("components", self.components), X.shape[1]))
            X = principal_components(X, self.components)
        rows = np.hstack([np.ones((len(X), 1)), X / max(np.abs(X).max(), 1e-300)])
        rows /= np.linalg.norm(rows, axis=1).max()
        if len(classes) < 2:
            raise ValueError(f"y must have at least two classes, got {len(classes)}")
        self._set("label", label)
        self._set("_rows", rows)
        self._set("_labels", labels.astype(np.int64))
        self._set("_classes", len(classes))

    @property
    def block_rounds(self) -> int:  # type: ignore[override]
        """Shorter blocks for more features."""
        return max(1, min(1024, self._block_numbers // (self._classes * self.dim)))

    @property
    def dim(self) -> int:
        """d = K·p."""
        return self._classes * int(self._rows.shape[1])

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """Rows drawn with replacement."""
        rounds, K, p = self.block_rounds, self._classes, self._rows.shape[1]
        while True:
            row = rng.integers(len(self._rows), size=rounds)
            arms = np.zeros((rounds, K, K, p))
            arms[:, np.arange(K), np.arange(K)] = self._rows[row, None]
            means = np.zeros((rounds, K))
            means[np.arange(rounds), self._labels[row]] = 1.0
            yield Block(arms.reshape(rounds, K, K * p), means, np.zeros(rounds))

    @property
    def name(self) -> str:
        """Which data, and how many components."""
        return f"Classification({self.label}, components={self.components})"

    def to_dict(self) -> dict[str, Any]:
        """Built-in data by name; data of one's own cannot be made again from its digest."""
        data = self.data if isinstance(self.data, str) else f"sha256:{self.digest}"
        return {"environment": "Classification", "data": data, "components": self.components}

    def identity(self) -> dict[str, Any]:
        """The digest of the data instead of the name."""
        return {**self.to_dict(), "data": f"sha256:{self.digest}"}


def _given(data: Any) -> tuple[Floats, Any, str]:
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise TypeError(f"data must be 'digits' or a pair (X, y), got {type(data).__name__}")
    X = validation.floats("X", data[0])
    y = np.asarray(data[1])
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"X must have shape (rows, features) with at least one of each, got {X.shape}")
    if y.shape != (len(X),):
        raise ValueError(f"y must have one label for each of the {len(X)} rows of X, got shape {y.shape}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("y has labels that are not finite")
    return X, y, f"{len(X)} rows"


def _digits() -> tuple[Floats, Any, str]:
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Classification('digits') reads the data from scikit-learn: pip install 'linmed[data]'"
        ) from None
    X, y = load_digits(return_X_y=True)
    return validation.floats("X", X), y, "digits"
