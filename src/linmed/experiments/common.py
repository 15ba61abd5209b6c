"""What several of the paper's experiments share: noise levels, rivals, and a claim."""

import math

from linmed.checks import Floats
from linmed.experiments.claims import CLOSE, Between, Claim, Part, Sample, final, of
from linmed.experiments.experiment import Findings, Key
from linmed.experiments.lineup import Variant
from linmed.experiments.statistics import Estimate, jackknife

MATCHED, OVER, UNDER = "σ² = σ*²", "σ² = 2σ*²", "σ² = 0.1σ*²"
FACTOR: dict[Variant, dict[str, float]] = {
    "text": {MATCHED: 1.0, OVER: math.sqrt(2.0), UNDER: math.sqrt(0.1)},
    "as-run": {MATCHED: 1.0, OVER: 2.0, UNDER: 0.1},
}
"""σ / σ*: the public code multiplies the standard deviation where the text multiplies the variance."""

RIVALS = ("OFUL", "LinTS-Freq", "LinTS-Bayes", "LinIMED-1", "LinIMED-3")


def among_best(found: Findings, where: str, cells: list[tuple[str, Key]]) -> Claim:
    """LinIMED-3 has nearly the lowest regret in every one of these settings."""
    return Claim(
        f"LinIMED-3 is among the best{where} (at most {CLOSE:g} times the lowest regret of the others)",
        [
            Part(label, of(_over_lowest, *imed_and_others(found, key)), Between(high=CLOSE))
            for label, key in cells
        ],
    )


def imed_and_others(found: Findings, key: Key) -> list[Sample]:
    """Final regrets of a setting, LinIMED-3's first."""
    others = [name for name in found.names(*key) if name != "LinIMED-3"]
    return [final(name, *key) for name in ("LinIMED-3", *others)]


def _over_lowest(own: Floats, *others: Floats) -> Estimate:
    return jackknife(lambda x, *rest: x.mean() / min(y.mean() for y in rest), own, *others)
