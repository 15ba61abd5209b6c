"""Off-policy evaluation on logs of policies that learn: what would another policy have earned?"""

from linmed.extras import require

require("linmed.ope", "ope")

from linmed.log import DecisionLog
from linmed.ope.catalogue_logs import complete
from linmed.ope.choose import Choice, Guardrail, choose
from linmed.ope.compare import compare
from linmed.ope.diagnostics import Diagnosis, diagnose
from linmed.ope.estimators import (
    DM,
    DR,
    ESTIMATORS,
    IPW,
    SNDR,
    SNIPW,
    ClippedIPW,
    DRos,
    Estimator,
    Logistic,
    Refitted,
    Ridge,
    Sample,
    SwitchDR,
    ipw,
)
from linmed.ope.evaluate import difference, evaluate, plot_sequences, sequence
from linmed.ope.intervals import OPEWarning
from linmed.ope.learning import Arms, LogDrift, LogVerdict, drift, learn_from, verdict
from linmed.ope.list_estimators import estimate_examination
from linmed.ope.replay import Replay, ReplayResult
from linmed.ope.targets import Frozen, Target, as_target
from linmed.question import Question

__all__ = [
    "DM",
    "DR",
    "ESTIMATORS",
    "IPW",
    "SNDR",
    "SNIPW",
    "Arms",
    "Choice",
    "ClippedIPW",
    "DRos",
    "DecisionLog",
    "Diagnosis",
    "Estimator",
    "Frozen",
    "Guardrail",
    "LogDrift",
    "LogVerdict",
    "Logistic",
    "OPEWarning",
    "Question",
    "Refitted",
    "Replay",
    "ReplayResult",
    "Ridge",
    "Sample",
    "SwitchDR",
    "Target",
    "as_target",
    "choose",
    "compare",
    "complete",
    "diagnose",
    "difference",
    "drift",
    "estimate_examination",
    "evaluate",
    "ipw",
    "learn_from",
    "plot_sequences",
    "sequence",
    "verdict",
]
