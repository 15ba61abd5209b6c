"""Read a policy's state: why this arm, which arm is best, and whether the world has changed."""

from linmed.insight.best_arm import Difference, Verdict, Verdicts, VerdictWarning
from linmed.insight.drift import Adoption, Alarm, Drift
from linmed.insight.explain import Contribution, Explanation

__all__ = [
    "Adoption",
    "Alarm",
    "Contribution",
    "Difference",
    "Drift",
    "Explanation",
    "Verdict",
    "VerdictWarning",
    "Verdicts",
]
