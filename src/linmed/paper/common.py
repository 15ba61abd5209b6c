"""What several of the paper's experiments share: noise levels and rivals."""

import math

from linmed.paper.lineup import Variant

MATCHED, OVER, UNDER = "σ² = σ*²", "σ² = 2σ*²", "σ² = 0.1σ*²"
FACTOR: dict[Variant, dict[str, float]] = {
    "text": {MATCHED: 1.0, OVER: math.sqrt(2.0), UNDER: math.sqrt(0.1)},
    "as-run": {MATCHED: 1.0, OVER: 2.0, UNDER: 0.1},
}
"""σ / σ*: the public code multiplies the standard deviation where the text multiplies the variance."""

RIVALS = ("OFUL", "LinTS-Freq", "LinTS-Bayes", "LinIMED-1", "LinIMED-3")
