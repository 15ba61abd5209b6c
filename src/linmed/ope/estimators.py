"""Estimators of a target's value from logged decisions.

Notation: decision t offered arms with features, the logging policy played a_t with probability p_t(a_t),
the reward was r_t; the target π would have played a with probability π_t(a). The weight is
w_t = π_t(a_t) / p_t(a_t); q̂_t is a reward model fitted on decisions before t only, and
q̂_t(π) = Σ_a π_t(a) q̂_t(a).

Every estimate is  mean(x) + Σ y / Σ z  for three numbers per decision, so a log of any length is
summarised by the moments of (x, y, z), which merge.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from linmed import checks
from linmed.checks import Floats


def importance_weights(probability: ArrayLike, target: ArrayLike) -> Floats:
    """w = π(a)/p(a), any shape. `probability` must be positive, `target` lie in [0, 1]."""
    p, pi = np.asarray(probability, dtype=np.float64), np.asarray(target, dtype=np.float64)
    for name, array, wrong in (
        ("probability", p, ~((p > 0) & (p <= 1))),
        ("target", pi, ~((pi >= 0) & (pi <= 1))),
    ):
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            bounds = "(0, 1]" if name == "probability" else "[0, 1]"
            raise ValueError(
                f"{name} must lie in {bounds}: entry {where} is {array[where]} "
                f"({int(wrong.sum())} such in all)"
            )
    weight: Floats = pi / p
    return weight


def ipw(reward: ArrayLike, probability: ArrayLike, target: ArrayLike, axis: int = -1) -> Any:
    """Inverse-probability weighting on arrays, mean of w·r along `axis`: the value of `target`.

    Shapes broadcast, so (trials, n) evaluates many logs at once. With estimated probabilities in place of
    exact ones the estimate is biased by 1/p̂: that is a property of the log, not of this function.

    >>> round(float(ipw([1.0, 0.0, 1.0], [0.5, 0.25, 0.5], 0.5)), 12)
    0.666666666667
    """
    return np.mean(importance_weights(probability, target) * np.asarray(reward, dtype=np.float64), axis=axis)


def snipw(reward: ArrayLike, probability: ArrayLike, target: ArrayLike, axis: int = -1) -> Any:
    """Self-normalised inverse-probability weighting on arrays: Σ w r / Σ w along `axis`."""
    weight = importance_weights(probability, target)
    total = weight.sum(axis=axis)
    if np.any(total == 0):
        raise ValueError("the target never agrees with the log: every weight is zero")
    return (weight * np.asarray(reward, dtype=np.float64)).sum(axis=axis) / total


class Sample(NamedTuple):
    """What estimators see of n decisions, each (n,)."""

    weight: Floats
    reward: Floats
    model_played: Floats | None = None  # q̂_t(a_t)
    model_value: Floats | None = None  # q̂_t(π)
    marginal_weight: Floats | None = None  # of the arm's embedding


@dataclass(frozen=True)
class Estimator(ABC):
    """A rule that turns a sample into (x, y, z)."""

    name: ClassVar[str]
    model: ClassVar[bool] = False
    """Whether it uses the reward model."""
    unbiased: ClassVar[bool] = True
    """Whether the estimate is a mean of terms with the value as expectation, also on adaptive logs."""

    @abstractmethod
    def terms(self, sample: Sample) -> tuple[Floats | None, Floats | None, Floats | None]:
        """(x, y, z), None for zero."""

    def __call__(self, sample: Sample) -> float:
        """The estimate on arrays."""
        x, y, z = self.terms(sample)
        value = 0.0 if x is None else float(np.mean(x))
        if y is not None and z is not None:
            value += _ratio(float(np.sum(y)), float(np.sum(z)))
        return value


def _ratio(y: float, z: float) -> float:
    if z == 0:
        raise ValueError("the target never agrees with the log: every weight is zero")
    return y / z


@dataclass(frozen=True)
class IPW(Estimator):
    """Inverse-probability weighting: (1/n) Σ w_t r_t.

    Unbiased if every arm the target may play had positive logged probability and the probabilities are
    exact; nothing is assumed of the rewards or of how the logging policy learned.
    Horvitz & Thompson (1952); Precup, Sutton & Singh (2000).
    """

    name: ClassVar[str] = "ipw"

    def terms(self, sample: Sample) -> tuple[Floats | None, Floats | None, Floats | None]:
        """x = w r."""
        return sample.weight * sample.reward, None, None


@dataclass(frozen=True)
class ClippedIPW(Estimator):
    """IPW with weights cut at `limit`: (1/n) Σ min(w_t, M) r_t.

    Biased towards zero by the mass above M, with bounded terms: a lower estimate for rewards ≥ 0.
    Ionides (2008); Bottou et al. (2013).
    """

    name: ClassVar[str] = "clipped"
    unbiased: ClassVar[bool] = False
    limit: float = 10.0

    def __post_init__(self) -> None:
        checks.positive("limit", self.limit)

    def terms(self, sample: Sample) -> tuple[Floats | None, Floats | None, Floats | None]:
        """x = min(w, M) r."""
        return np.minimum(sample.weight, self.limit) * sample.reward, None, None


@dataclass(frozen=True)
class SNIPW(Estimator):
    """Self-normalised IPW: Σ w_t r_t / Σ w_t.

    Consistent under IPW's assumptions, biased by O(1/n); stays within the range of the rewards and does
    not change when a constant is added to them. Swaminathan & Joachims (2015).
    """

    name: ClassVar[str] = "snipw"
    unbiased: ClassVar[bool] = False

    def terms(self, sample: Sample) -> tuple[Floats | None, Floats | None, Floats | None]:
        """y = w r, z = w."""
        return None, sample.weight * sample.reward, sample.weight


@dataclass(frozen=True)
class DM(Estimator):
    """Direct method: (1/n) Σ q̂_t(π).

    Uses no weights, so needs no overlap; it is as biased as the reward model is wrong. The model of
    decision t has seen decisions before t only. Beygelzimer & Langford (2009).
    """

    name: ClassVar[str] = "dm"
    model: ClassVar[bool] = True
    unbiased: ClassVar[bool] = False

    def terms(self, sample: Sample) -> tuple[Floats | None, Floats | None, Floats | None]:
        """x = q̂(π)."""
        return _model(sample)[1], None, None


@dataclass(frozen=True)
class DR(Estimator):
    """Doubly robust: (1/n) Σ [ q̂_t(π) + w_t (r_t − q̂_t(a_t)) ].

    Unbiased with exact probabilities whatever the model, because the model only knows the past; a good
    model reduces the variance. Dudík, Langford & Li (2011); on adaptive logs Hadad et al. (2021).
    """

    name: ClassVar[str] = "dr"
    model: ClassVar[bool] = True

    def terms(self, sample: Sample) -> tuple[Floats | None, Floats | None, Floats | None]:
        """x = q̂(π) + w (r − q̂(a))."""
        played, value = _model(sample)
        return value + sample.weight * (sample.reward - played), None, None


@dataclass(frozen=True)
class SNDR(Estimator):
    """Self-normalised doubly robust: (1/n) Σ q̂_t(π) + Σ w_t (r_t − q̂_t(a_t)) / Σ w_t.

    Consistent under DR's assumptions. Kallus & Uehara (2019).
    """

    name: ClassVar[str] = "sndr"
    model: ClassVar[bool] = True
    unbiased: ClassVar[bool] = False

    def terms(self, sample: Sample) -> tuple[Floats | None, Floats | None, Floats | None]:
        """x = q̂(π), y = w (r − q̂(a)), z = w."""
        played, value = _model(sample)
        return value, sample.weight * (sample.reward - played), sample.weight


@dataclass(frozen=True)
class SwitchDR(Estimator):
    """Switch-DR: (1/n) Σ [ q̂_t(π) + w_t 1{w_t ≤ τ} (r_t − q̂_t(a_t)) ].

    Trusts the model alone where weights exceed `threshold` τ; biased by the model's error there.
    Wang, Agarwal & Dudík (2017).
    """

    name: ClassVar[str] = "switch"
    model: ClassVar[bool] = True
    unbiased: ClassVar[bool] = False
    threshold: float = 10.0

    def __post_init__(self) -> None:
        checks.positive("threshold", self.threshold)

    def terms(self, sample: Sample) -> tuple[Floats | None, Floats | None, Floats | None]:
        """x = q̂(π) + w 1{w ≤ τ} (r − q̂(a))."""
        played, value = _model(sample)
        kept = np.where(sample.weight <= self.threshold, sample.weight, 0.0)
        return value + kept * (sample.reward - played), None, None


@dataclass(frozen=True)
class DRos(Estimator):
    """DR with optimistic shrinkage: (1/n) Σ [ q̂_t(π) + (λ w_t / (w_t² + λ)) (r_t − q̂_t(a_t)) ].

    λ = `shrinkage` → ∞ is DR, λ → 0 the direct method; biased by the model's error where weights are
    large against √λ. Su, Dimakopoulou, Krishnamurthy & Dudík (2020).
    """

    name: ClassVar[str] = "dros"
    model: ClassVar[bool] = True
    unbiased: ClassVar[bool] = False
    shrinkage: float = 100.0

    def __post_init__(self) -> None:
        checks.positive("shrinkage", self.shrinkage)

    def terms(self, sample: Sample) -> tuple[Floats | None, Floats | None, Floats | None]:
        """x = q̂(π) + λw/(w² + λ) (r − q̂(a))."""
        played, value = _model(sample)
        shrunk = self.shrinkage * sample.weight / (sample.weight**2 + self.shrinkage)
        return value + shrunk * (sample.reward - played), None, None


@dataclass(frozen=True)
class MarginalIPW(Estimator):
    """Marginalised IPW over arm features: (1/n) Σ w_t(e_t) r_t,  w_t(e) = π_t(e) / p_t(e).

    π_t(e) and p_t(e) sum π_t(a) and p_t(a) over the arms with embedding e(a) = e.

    For very many arms. `embedding` maps arms (K, d) to K labels, or lists the features that matter; None
    groups arms whose features are equal. Unbiased if the reward depends on the arm only through e(a) (no
    direct effect) and every e the target reaches was logged; needs `probabilities` and `arms` in the log.
    Saito & Joachims (2022).
    """

    name: ClassVar[str] = "mips"
    embedding: Callable[[Floats], Any] | Sequence[int] | None = None

    def terms(self, sample: Sample) -> tuple[Floats | None, Floats | None, Floats | None]:
        """x = w(e) r."""
        if sample.marginal_weight is None:
            raise ValueError(
                "mips needs marginal weights: every arm's logged and target probability, and the arms"
            )
        return sample.marginal_weight * sample.reward, None, None

    def marginal(self, target: Floats, logged: Floats, arms: Floats, arm: int) -> float:
        """w(e) of one decision.  target, logged (K,); arms (K, d)."""
        if callable(self.embedding):
            label = np.asarray(self.embedding(arms))
        else:
            chosen = arms if self.embedding is None else arms[:, list(self.embedding)]
            label = np.unique(chosen, axis=0, return_inverse=True)[1].reshape(-1)
        if label.shape != (arms.shape[0],):
            raise ValueError(
                f"embedding must give one label per arm: {arms.shape[0]} arms, answer of shape {label.shape}"
            )
        same = label == label[arm]
        return float(target[same].sum() / logged[same].sum())


def _model(sample: Sample) -> tuple[Floats, Floats]:
    if sample.model_played is None or sample.model_value is None:
        raise ValueError("this estimator needs the reward model's predictions: model_played and model_value")
    return sample.model_played, sample.model_value


ESTIMATORS: dict[str, type[Estimator]] = {
    kind.name: kind for kind in (IPW, ClippedIPW, SNIPW, DM, DR, SNDR, SwitchDR, DRos, MarginalIPW)
}


def as_estimators(estimators: Any) -> list[Estimator]:
    """Names or instances, one or several."""
    several = [estimators] if isinstance(estimators, (str, Estimator)) else list(estimators)
    if not several:
        raise ValueError("estimators is empty: at least one estimator is needed")
    found: list[Estimator] = []
    for one in several:
        if isinstance(one, Estimator):
            found.append(one)
        elif isinstance(one, str) and one in ESTIMATORS:
            found.append(ESTIMATORS[one]())
        else:
            raise ValueError(f"estimators must be among {', '.join(ESTIMATORS)} or instances, got {one!r}")
    return found


class Moments:
    """Count, means and centred second moments of (x, y, z): merges exactly, streams in one pass."""

    def __init__(self) -> None:
        self.n = 0
        self.ratio = False  # whether there are y and z
        self.mean = np.zeros(3)
        self.scatter = np.zeros((3, 3))

    def add(self, x: Floats | None, y: Floats | None, z: Floats | None) -> None:
        """Absorb n decisions."""
        columns = [column for column in (x, y, z) if column is not None]
        present = [i for i, column in enumerate((x, y, z)) if column is not None]
        other = Moments()
        other.n = columns[0].size
        other.ratio = z is not None
        means = [float(np.mean(column)) for column in columns]
        other.mean[present] = means
        centred = [column - mean for column, mean in zip(columns, means, strict=True)]
        for a, left in zip(present, centred, strict=True):
            for b, right in zip(present, centred, strict=True):
                # Not a BLAS product: its threads cost more than this sum.
                other.scatter[a, b] = np.einsum("i,i->", left, right)
        self.merge(other)

    def merge(self, other: "Moments") -> None:
        """Absorb another summary (Chan, Golub & LeVeque 1983)."""
        if other.n == 0:
            return
        self.ratio |= other.ratio
        total = self.n + other.n
        step = other.mean - self.mean
        self.scatter += other.scatter + np.outer(step, step) * (self.n * other.n / total)
        self.mean = self.mean + step * (other.n / total)
        self.n = total

    @property
    def estimate(self) -> float:
        """mean(x) + Σ y / Σ z."""
        x, y, z = map(float, self.mean)
        return x + _ratio(y, z) if self.ratio else x

    @property
    def standard_error(self) -> float:
        """By the delta method: the term of decision t is x_t + (y_t − R z_t)/mean(z), R = Σ y / Σ z."""
        direction = np.array([1.0, 0.0, 0.0])
        if self.ratio:
            _, y, z = map(float, self.mean)
            direction[1:] = _ratio(1.0, z), -_ratio(y, z) / z
        variance = float(direction @ self.scatter @ direction) / max(self.n - 1, 1)
        return float(np.sqrt(max(variance, 0.0) / self.n))
