"""The policies of the paper's experiments by the names in its legends, as the text has them or as run."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal

from linmed.paper.as_run.exp2 import Exp2AsRun
from linmed.paper.as_run.policies import (
    ArmZero,
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
TUNED = ("SpannerIGW", "EXP2")
"""Told the horizon: how their regret grows with it shows only between horizons."""
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


def policies(names: Sequence[str], sigma: float, horizon: int, variant: Variant) -> list[Policy]:
    """The policies of these names in the legends, given σ."""
    known = {**policy_makers(), **(AS_RUN if variant == "as-run" else {})}
    made = []
    for name in names:
        cls, parameters = known[name]
        told = {"horizon": horizon} if name in TUNED else {}
        shared = {"sigma": sigma, "delta": DELTA}
        known_here = shared if shared.keys() <= {field.name for field in fields(cls)} else {}
        made.append(cls(label=name, **{**known_here, **told, **parameters}))
    return made
