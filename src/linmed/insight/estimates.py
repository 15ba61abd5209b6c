"""What a policy believes of arms: estimates, and how much better than the best-looking one each can be."""

import math
from typing import Any, NamedTuple

import numpy as np

from linmed.insight.assumptions import Repeats, contradiction
from linmed.policies import Policy
from linmed.policies.posterior import Posterior
from linmed.policies.worth import Worth
from linmed.validation import Floats, Ints

REFUTED = 0.001
"""How often it may be said that the rewards refute what is right."""


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
    rewards: Floats | None = None
    """Estimates of the reward (K,), where arms have values and costs: all above is then of the utility."""
    values: Floats | None = None
    costs: Floats | None = None


def outlook(policy: Policy, state: Any, arms: Floats, worth: Worth | None = None) -> Outlook | None:
    """Say what a state of one replica knows of arms (K,d); None where it keeps no estimates."""
    seen = policy.posterior(state)
    if seen is None:
        return None
    if worth is not None:
        return _outlook_on_utility(seen, arms, *worth.both(len(arms)))
    best = int(policy.expected(state, arms).argmax())
    gains = seen.gains(arms, best)
    gains[best] = 0.0
    return Outlook(best, *seen.predict(arms), gains, *seen.weights(arms), seen.base, seen.unit)


def _outlook_on_utility(seen: Posterior, arms: Floats, values: Floats, costs: Floats) -> Outlook:
    rewards = seen.predict(arms)
    estimates, lower, upper = (values * one - costs for one in rewards)
    best = int(estimates.argmax())
    if seen.link is not None or (seen.intercept and np.ptp(values) > 0.0):
        gains = upper - lower[best]  # both lie in one confidence set: true, and wider than need be
    else:
        theta, inverse, offered = seen.compared(arms)
        scaled = offered * values[:, None]
        apart = scaled - scaled[best]
        reach = seen._reach(np.einsum("kd,de,ke->k", apart, inverse, apart))
        gains = np.vecdot(apart, theta) - (costs - costs[best]) + reach
    gains[best] = 0.0
    told = rewards.mean, values, costs
    return Outlook(best, estimates, lower, upper, gains, *seen.weights(arms), seen.base, seen.unit, *told)


def assurance(policy: Policy, state: Any, repeats: Repeats | None = None) -> Assurance:
    """Say what the intervals of a policy are worth after the rewards of a state of one replica.

    `repeats`, where somebody kept them, tell whether rewards are linear in the features.
    """
    seen = policy.posterior(state)
    if seen is None:
        doubt = f"{policy.name} has no confidence set"
        return Assurance(None, doubt, f"{doubt}: probabilities only.")
    rests, confidence, rewards = seen.grounds, seen.grounds.confidence, seen.count
    if confidence is None:
        return Assurance(None, rests.doubt, f"Intervals are those by which it decides; {rests.doubt}.")
    against = contradiction(seen, REFUTED, repeats)
    if against is not None:
        return Assurance(None, against, f"The intervals do not hold: {against}.")
    moment = "" if rests.delta is not None else f" after {rewards:,} reward{'' if rewards == 1 else 's'}"
    if confidence <= 0.0:
        words = "Before the first reward its intervals claim nothing (δ = 1)."
    elif rests.doubt_of_means is None:
        words = f"Intervals hold together with {_sure(confidence)} confidence{moment}, if {rests.sentence}."
    else:
        words = (
            f"Intervals are meant for {_sure(confidence)} confidence{moment}, without proof: "
            f"{rests.doubt_of_means}."
        )
    return Assurance(confidence, rests.doubt_of_means, words)


def _sure(confidence: float) -> str:
    """Write a confidence such as 99.5 %, and never 100 %."""
    digits = max(0, 1 - math.floor(math.log10(1.0 - confidence)) - 2) if confidence < 1.0 else 0
    return f"{math.floor(10**digits * 100 * confidence + 1e-6) / 10**digits:g} %"
