"""Off-policy evaluation on logs of policies that learn: what would another policy have earned?"""

from linmed.extras import require

require("linmed.ope", "ope")

from linmed.log import DecisionLog
from linmed.ope.catalogue_logs import Relearned, by_routes, complete, relearned
from linmed.ope.choose import Choice, choose
from linmed.ope.compare import compare
from linmed.ope.diagnostics import Diagnosis, calibration, diagnose
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
    MarginalIPW,
    Refitted,
    Ridge,
    Sample,
    SwitchDR,
    importance_weights,
    ipw,
    snipw,
)
from linmed.ope.evaluate import difference, evaluate, plot_sequences, sequence
from linmed.ope.history import History, history
from linmed.ope.intervals import OPEWarning
from linmed.ope.learning import Arms, LogDrift, LogVerdict, drift, learn_from, verdict
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
    "History",
    "LogDrift",
    "LogVerdict",
    "Logistic",
    "MarginalIPW",
    "OPEWarning",
    "Question",
    "Refitted",
    "Relearned",
    "Replay",
    "ReplayResult",
    "Ridge",
    "Sample",
    "SwitchDR",
    "Target",
    "as_target",
    "by_routes",
    "calibration",
    "choose",
    "compare",
    "complete",
    "diagnose",
    "difference",
    "drift",
    "evaluate",
    "history",
    "importance_weights",
    "ipw",
    "learn_from",
    "plot_sequences",
    "relearned",
    "sequence",
    "snipw",
    "verdict",
]
