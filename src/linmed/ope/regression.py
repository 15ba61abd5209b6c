"""Reward models q̂ fitted in time order: what predicts decision t has seen decisions before t only.

That keeps doubly robust terms unbiased, and their sequences valid, on logs of policies that learn.
"""

import copy
from typing import Any, Protocol

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.ope.rounds import Rounds
from linmed.policies import ridge
from linmed.policies.glm import GlmState, LogisticMED
from linmed.validation import BadType, BadValue, Floats, Ints

FIRST_FIT = 32
GROWTH = 1.5


class RewardModel(Protocol):
    """Predicts before it learns."""

    def predict_learn(self, rounds: Rounds) -> Floats:
        """q̂_t of every arm of every decision, flat (ΣK,); then learn from these decisions."""


class Ridge:
    """Ridge regression on the arms' features and a constant, updated after every decision; it starts at 0.

    Without features in the log each arm has a parameter of its own: its mean reward so far, shrunk by λ.

    >>> from linmed.ope import DecisionLog, evaluate
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> log = DecisionLog.from_table(played | {"arm_count": [2] * 200})
    >>> found = evaluate(log, "arm:1", "dr", regressor=Ridge(penalty=0.1))
    >>> round(found["estimate"][0].as_py(), 2)
    1.0
    """

    def __init__(self, penalty: float = 1.0):
        self.penalty = validation.positive("penalty", penalty)
        self._state: ridge.Ridge | None = None
        self._sums = np.zeros(0)
        self._counts = np.zeros(0)

    def predict_learn(self, rounds: Rounds) -> Floats:
        """One pass of the core."""
        offsets = rounds.offsets
        out = np.empty(offsets[-1])
        if rounds.arms is None:
            self._by_arm(False, rounds, offsets, out)
            return out
        if self._state is None:
            self._state = ridge.start_ridge(1, rounds.arms.shape[1] + 1, self.penalty)
        rows = np.concatenate([rounds.arms, np.ones((rounds.arms.shape[0], 1))], axis=1)
        core.predict_learn(core.Ridge(*self._state), rows, offsets, rounds.chosen, rounds.reward, out)
        return out

    def _by_arm(self, drawn: bool, rounds: Rounds, offsets: Ints, out: Floats) -> None:
        """Means of every arm so far, shrunk towards 0 or drawn towards that of all arms."""
        extra = int(np.max(np.diff(offsets))) - self._sums.size
        if extra > 0:
            self._sums = np.concatenate([self._sums, np.zeros(extra)])
            self._counts = np.concatenate([self._counts, np.zeros(extra)])
        core.means_predict_learn(
            self._sums, self._counts, self.penalty, drawn, offsets, rounds.arm, rounds.reward, out
        )


class Logistic(Ridge):
    """Logistic regression on the arms' features, with an intercept of its own: for rewards between 0 and 1.

    One pass, updated after every decision as `LogisticMED` is; predictions are rates, so they stay between 0
    and 1. Without features in the log each arm's rate so far is drawn towards that of all arms.

    >>> from linmed.ope import DecisionLog, evaluate
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> log = DecisionLog.from_table(played | {"arm_count": [2] * 200})
    >>> round(evaluate(log, "arm:1", "dr", regressor=Logistic())["estimate"][0].as_py(), 2)
    1.0
    """

    def __init__(self, penalty: float = 1.0):
        super().__init__(penalty)
        self._policy = LogisticMED(ridge=self.penalty)
        self._model: GlmState | None = None

    def predict_learn(self, rounds: Rounds) -> Floats:
        """One pass of the core."""
        if not self._policy.accepts(rounds.reward).all():
            wrong = rounds.reward[~self._policy.accepts(rounds.reward)][0]
            said = f"regressor='logistic' is for rewards between 0 and 1, as clicks are, got {wrong:g}"
            raise BadValue("regressor", f"{said}: use 'ridge'")
        offsets = rounds.offsets
        out = np.empty(offsets[-1])
        if rounds.arms is None:
            self._by_arm(True, rounds, offsets, out)
            return out
        if self._model is None:
            self._model = self._policy.start(1, rounds.arms.shape[1])
        belief = core.Glm(*self._model.parts())
        core.predict_learn(belief, rounds.arms, offsets, rounds.chosen, rounds.reward, out)
        return out


class Refitted:
    """Any regressor with `fit(X, y)` and `predict(X)`, refitted on the whole past at growing intervals.

    It is first fitted after 32 decisions and again whenever their number has grown by half; until the
    first fit q̂ = 0. The past is kept in memory. Without features in the log X is one-hot in the arm.

    >>> class Constant:
    ...     def fit(self, X, y):
    ...         self.level = y.mean()
    ...
    ...     def predict(self, X):
    ...         return [self.level] * len(X)
    >>> from linmed.ope import DecisionLog, evaluate
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> log = DecisionLog.from_table(played | {"arm_count": [2] * 200})
    >>> round(evaluate(log, "arm:1", "dr", regressor=Refitted(Constant()))["estimate"][0].as_py(), 2)
    1.0
    """

    def __init__(self, regressor: Any):
        for method in ("fit", "predict"):
            if not callable(getattr(regressor, method, None)):
                message = f"regressor must have fit(X, y) and predict(X), {regressor!r} has no {method}"
                raise BadType("regressor", message)
        self._prototype = regressor
        self._fitted: Any = None
        self._X: list[Floats] = []
        self._y: list[Floats] = []
        self._n = 0
        self._next = FIRST_FIT

    def predict_learn(self, rounds: Rounds) -> Floats:
        """Block by block, each predicted by the regressor of the blocks before."""
        arms = rounds.arms if rounds.arms is not None else self._one_hot(rounds)
        offsets, chosen = rounds.offsets, rounds.chosen
        out = np.zeros(offsets[-1])
        done = 0
        while done < len(rounds):
            stop = min(len(rounds), done + self._next - self._n)
            if self._fitted is not None:
                part = slice(offsets[done], offsets[stop])
                out[part] = np.asarray(self._fitted.predict(arms[part]), dtype=np.float64).reshape(-1)
            self._X.append(arms[chosen[done:stop]])
            self._y.append(rounds.reward[done:stop])
            self._n += stop - done
            done = stop
            if self._n == self._next:
                self._fitted = copy.deepcopy(self._prototype)
                self._fitted.fit(np.concatenate(self._X), np.concatenate(self._y))
                self._next = int(self._n * GROWTH)
        return out

    def _one_hot(self, rounds: Rounds) -> Floats:
        counts = np.unique(np.diff(rounds.offsets))
        if counts.size > 1:
            raise BadValue(
                "regressor",
                "a regressor on a log without arm features needs the same number of arms in every decision, "
                f"got between {counts[0]} and {counts[-1]}",
            )
        return np.eye(int(counts[0]))[rounds.arm_number]


NAMED = {"ridge": Ridge, "logistic": Logistic}


def as_model(regressor: Any) -> RewardModel:
    """None → ridge; a name or one of these models, a fresh copy; any regressor → `Refitted`."""
    if regressor is None:
        return Ridge()
    if isinstance(regressor, str):
        return NAMED[validation.option("regressor", regressor, tuple(NAMED))]()
    if isinstance(regressor, (Ridge, Refitted)):
        return copy.deepcopy(regressor)
    return Refitted(regressor)
