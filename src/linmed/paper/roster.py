"""Name the policies, noise levels and differences that several of the paper's experiments share."""

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal

from linmed.paper.as_run import (
    ArmZero,
    Exp2AsRun,
    LinImedAsRun,
    LinMedAsRun,
    LinTsAsRun,
    OfulAsRun,
    SpannerIgwAsRun,
)
from linmed.policies import Policy
from linmed.policies.table import LEGENDS, policy_makers

Variant = Literal["text", "as-run"]
DELTA = 0.01
"""δ of every policy: the text gives none for the experiments, the authors' public code has this one."""
LINMED = ("LinMED-99", "LinMED-90", "LinMED-50")
RIVALS = ("OFUL", "LinTS-Freq", "LinTS-Bayes", "LinIMED-1", "LinIMED-3")
SPANNERS = ("SpannerIGW", "SpannerIGW-AT")
TUNED = ("SpannerIGW", "EXP2")
"""Told the horizon: how their regret grows with it shows only between horizons."""
MATCHED, OVER, UNDER = "σ² = σ*²", "σ² = 2σ*²", "σ² = 0.1σ*²"
NOISES = (MATCHED, OVER, UNDER)
FACTOR: dict[Variant, dict[str, float]] = {
    "text": {MATCHED: 1.0, OVER: math.sqrt(2.0), UNDER: math.sqrt(0.1)},
    "as-run": {MATCHED: 1.0, OVER: 2.0, UNDER: 0.1},
}
"""σ / σ*: the public code multiplies the standard deviation where the text multiplies the variance."""

AS_RUN: dict[str, tuple[type[Policy], dict[str, Any]]] = {
    **{name: (LinMedAsRun, LEGENDS[name][1]) for name in LINMED},
    "OFUL": (OfulAsRun, {}),
    "LinTS-Freq": (LinTsAsRun, {"scale": "squared-radius"}),
    "LinTS-Bayes": (LinTsAsRun, {"scale": 1.0}),
    "LinIMED-1": (LinImedAsRun, {"version": 1}),
    "LinIMED-3": (ArmZero, {}),
    "SpannerIGW": (SpannerIgwAsRun, {}),
    "SpannerIGW-AT": (SpannerIgwAsRun, {}),
    "EXP2": (Exp2AsRun, {"horizon": None}),
}
"""Where the public code differs: a class and its parameters."""
NO_HALF_STEP = "LinMED's half-step on B_t is switched off."
SCALES = "LinTS-Freq draws with the squared radius β instead of √β, LinTS-Bayes with scale 1 instead of σ."
ARM_ZERO = "LinIMED-3's index function returns nothing, so arm 0 is played after the first round."
SIGMA = "“σ² = 2σ*²” is σ = 2σ*, “σ² = 0.1σ*²” is σ = 0.1σ*."
EVEN_START = "OFUL, LinTS and LinIMED draw the first arm evenly."
LINMED_START = "LinMED's first round is α_opt·π + (1 − α_opt)/K: α_emp goes to all arms alike."
SPANNER_START = "SpannerIGW's first round is drawn from its design."
DESIGN = (
    "Designs are made in the principal axes of the centred arms, without the axes whose variance is at most "
    "1e-6, and their weights are counted from a list that is off by one."
)
SPANNER_RATES = (
    "SpannerIGW-AT has the η of round t + 1 in round t, but shrinks the arms of its design by that of round "
    "t; λ is sought in [0.4, 1.2], which changes nothing: it lies in [1/2, 1]."
)


def policies(names: Sequence[str], sigma: float, horizon: int, variant: Variant) -> list[Policy]:
    """Make the policies of these names in the legends, told σ."""
    known = {**policy_makers(), **(AS_RUN if variant == "as-run" else {})}
    made = []
    for name in names:
        cls, parameters = known[name]
        told: dict[str, Any] = {"horizon": horizon} if name in TUNED else {}
        shared = {"sigma": sigma, "delta": DELTA}
        if shared.keys() <= {field.name for field in fields(cls)}:
            told |= shared
        made.append(cls(label=name, **{**told, **parameters}))
    return made
