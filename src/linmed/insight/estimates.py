"""What a policy believes of arms: estimates, and how much better than the best-looking one each can be."""

import math
from typing import Any, NamedTuple

import numpy as np

from linmed.insight.assumptions import UNITS, Repeats, contradiction, grounds, set_name
from linmed.policies import Forgetful, GLMPolicy, Policy, RidgePolicy
from linmed.policies.per_item import ModelPolicy
from linmed.policies.thompson import Sampled
from linmed.validation import Floats, Ints

REFUTED = 0.001
"""How often it may be said that the rewards refute what is right."""
_CHUNK = 64  # arms with models of their own that are compared with the best one at a time


class Assurance(NamedTuple):
    """What the intervals are worth."""

    confidence: float | None
    """1 − δ, with which all hold together at this moment; None where they were never meant to."""
    doubt: str | None
    """Why that is not proved; None where it is."""
    words: str
    """A sentence."""


class Outlook(NamedTuple):
    """What a belief says of the arms, (K,) each."""

    best: int
    estimates: Floats
    lower: Floats
    upper: Floats
    gains: Floats
    """How much better than the best-looking arm each can be, at most."""
    weights: Floats  # (n,d) of the features …
    rows: Ints  # (K,) … and which of them is the arm's
    base: float | None
    """The intercept, where the model has one of its own."""
    unit: str
    """What contributions are in, where that is not the rewards' own unit."""


def _leading(policy: Policy, state: Any) -> tuple[Policy, Any]:
    """The policy and the state that decide: of several memories the heaviest."""
    if isinstance(policy, Forgetful):
        return policy.asked, policy.of_one(state, state.leader)
    return policy, state


def standard_errors(policy: Policy, state: Any, arms: Floats) -> Floats | None:
    """Standard errors of the probabilities (K,), where they are integrals."""
    policy, state = _leading(policy, state)
    offered = arms[None]
    if isinstance(policy, ModelPolicy) and not policy.compiled_rounds:
        state, offered = policy.shown(state, offered)
        policy = policy.base
    return policy.propensity_error(state, offered)[0] if isinstance(policy, Sampled) else None


def outlook(policy: Policy, state: Any, arms: Floats) -> Outlook | None:
    """What a state of one replica says of arms (K,d); None where it keeps no estimates with intervals."""
    policy, state = _leading(policy, state)
    predicted = policy.predict(state, arms)
    if predicted is None:
        return None
    best = int(policy.expected(state, arms).argmax())
    rows, base, unit = np.zeros(len(arms), dtype=np.int64), None, ""
    weights: Floats = np.array(state.theta)
    if isinstance(policy, ModelPolicy):
        gains = _gains_of_models(policy, state, arms, best)
        weights, rows = _weights_of_models(policy, state, arms)
    elif isinstance(policy, GLMPolicy):
        model, apart = policy.estimate(state), arms - arms[best]
        z = np.vecdot(apart, model.theta[0])
        width = np.sqrt(np.maximum(np.einsum("kd,de,ke->k", apart, model.inverse[0], apart), 0.0))
        base = float(state.intercept[0]) if policy.intercept else None
        unit = UNITS[policy.family]
        here = np.full(1, np.vecdot(arms[best], model.theta[0]) + (base or 0.0))
        gains = policy.mean(here + z + policy.radius(state) * width) - policy.mean(here)
    elif isinstance(policy, RidgePolicy) and policy.intercept:
        inverse, apart = policy.estimate(state).inverse[0], arms - arms[best]
        width = np.sqrt(np.maximum(np.einsum("kd,de,ke->k", apart, inverse, apart), 0.0))
        base = float(state.level[0] - np.vecdot(state.middle[0], weights[0]))
        with np.errstate(invalid="ignore"):  # of equal arms, where nothing is known
            gains = np.vecdot(apart, weights[0]) + np.nan_to_num(policy.radius(state) * width, posinf=np.inf)
    else:  # what is linear in the arm is so in a difference of arms
        difference = policy.predict(state, arms - arms[best])
        assert difference is not None
        gains = difference.upper
    gains[best] = 0.0
    return Outlook(best, *predicted, gains, weights, rows, base, unit)


def _gains_of_models(policy: ModelPolicy, state: Any, arms: Floats, best: int) -> Floats:
    gains, radius = np.empty(len(arms)), float(policy.radius(state)[0])
    for start in range(0, len(arms), _CHUNK):
        some = np.concatenate([arms[best : best + 1], arms[start : start + _CHUNK]])
        means, products = policy.look(state, some[None], distances=True)
        mean, gram = means[0], products[0]
        apart = gram.diagonal()[1:] + gram[0, 0] - 2.0 * gram[0, 1:]
        gains[start : start + _CHUNK] = mean[1:] - mean[0] + radius * np.sqrt(np.maximum(apart, 0.0))
    return gains


def _weights_of_models(policy: ModelPolicy, state: Any, arms: Floats) -> tuple[Floats, Ints]:
    """θ of every model that was learned from, and of one that was not, as weights of an arm's columns."""
    own, m = state.thetas[0], policy.shared_features
    weights = np.zeros((len(own) + 1, arms.shape[1]))
    weights[:, 1 : 1 + m] = state.arrays()["theta"][0]
    weights[:-1, 1 + m :] = own
    return weights, np.minimum(arms[:, 0].astype(np.int64), len(own))


def assurance(policy: Policy, state: Any, repeats: Repeats | None = None) -> Assurance:
    """What the intervals of a policy are worth after the rewards of a state of one replica.

    `repeats`, where somebody kept them, tell whether rewards are linear in the features.
    """
    doubt: str | None
    inside = policy.ridge_policy if isinstance(policy, ModelPolicy) else policy
    if isinstance(policy, Forgetful):
        doubt = "in a world that changes no confidence set is proved"
        return Assurance(
            None, doubt, f"Intervals are those by which it decides, by the heaviest memory; {doubt}."
        )
    if not isinstance(inside, (RidgePolicy, GLMPolicy)):
        if type(policy).predict is Policy.predict:
            doubt = f"{policy.name} has no confidence set"
            return Assurance(None, doubt, f"{doubt}: probabilities only.")
        doubt = "whether they are a confidence set is not known here"
        return Assurance(None, doubt, f"Intervals are those by which it decides; {doubt}.")
    if set_name(inside) == "FixedSet":
        doubt = "its width is the same at every δ: no confidence set"
        return Assurance(None, doubt, f"Intervals are those by which it decides; {doubt}.")
    doubt, assumes = grounds(inside)
    count = rewards = int(state.count[0])
    if isinstance(policy, RidgePolicy):
        against = contradiction(policy, state, REFUTED, repeats)
        if against is not None:
            return Assurance(None, against, f"The intervals do not hold: {against}.")
        if policy.intercept:
            count -= count > 0  # contrasts
            if doubt is None and (policy.delta is None or policy.sigma == "unknown"):
                doubt = "the intercept's share of an interval is approximate"
    confidence = 1.0 - (1.0 / (count + 1) if inside.delta is None else inside.delta)
    moment = "" if inside.delta is not None else f" after {rewards:,} reward{'' if rewards == 1 else 's'}"
    if confidence <= 0.0:
        words = "Before the first reward its intervals claim nothing (δ = 1)."
    elif doubt is None:
        words = f"Intervals hold together with {_sure(confidence)} confidence{moment}, if {assumes}."
    else:
        words = f"Intervals are meant for {_sure(confidence)} confidence{moment}, without proof: {doubt}."
    return Assurance(confidence, doubt, words)


def _sure(confidence: float) -> str:
    """99.5 %, and never 100 %."""
    digits = max(0, 1 - math.floor(math.log10(1.0 - confidence)) - 2) if confidence < 1.0 else 0
    return f"{math.floor(10**digits * 100 * confidence + 1e-6) / 10**digits:g} %"
