"""Rare rewards in a real log: the value of the uniform policy from a Thompson sampler's clicks.

    LINMED_OPEN_BANDIT=... python benchmarks/ope_rare.py

The Open Bandit Dataset, campaign "men": 10,000 decisions of Bernoulli Thompson sampling with 0.5 % clicks and
only the played item's probability, and 10,000 of a uniform policy, whose mean click is what to compare with.
Every interval by `evaluate`, plainly, and betting with `smallest_probability` set to the smallest of the log
and to a tenth of it. That promise is taken from the log itself, where it must come from whoever ran the
policy: for it to be true no item that was not played may have had less. The rows show what such a promise
would be worth, not what the log proves.

The rule, fixed before the first run: an interval that is valid for such a log must meet the uniform log's own
95 % interval, else it is marked with an asterisk; the widths are compared with 0.129 (vw-estimators'
Cressie–Read, asymptotic) and 0.110 (a control variate with the largest weight known).
"""

import os
import warnings
from pathlib import Path

from linmed.ope import DecisionLog, diagnose, evaluate
from linmed.ope.intervals import OPEWarning

INTERVALS = ("betting", "asymptotic", "adaptive", "normal")
ESTIMATORS = ("ipw", "snipw", "dr")


def main() -> None:
    warnings.simplefilter("ignore", OPEWarning)
    folder = Path(os.environ["LINMED_OPEN_BANDIT"])
    learned = DecisionLog.from_open_bandit(folder / "bts/men/men.csv")
    uniform = DecisionLog.from_open_bandit(folder / "random/men/men.csv")
    own = evaluate(uniform, "logged", "ipw", interval="normal").to_pylist()[0]
    print(f"the uniform policy's own log: {own['estimate']:.4f} ({own['lower']:.4f} – {own['upper']:.4f})")
    found = diagnose(learned, "uniform")
    smallest = found.smallest_probability
    print(f"worth {found.effective_n:.0f} decisions, smallest probability {smallest:.3g}", end="")
    print(f", largest weight {found.largest_weight:.1f}\n")
    print("| interval | " + " | ".join(ESTIMATORS) + " |\n|---|" + "---|" * len(ESTIMATORS))
    rows = [(interval, interval, {}) for interval in INTERVALS]
    for number, share in enumerate((1.0, 0.1), 1):
        promise = {"smallest_probability": smallest * share}
        rows.insert(number, (f"betting, smallest_probability={smallest * share:.2g}", "betting", promise))
    for label, interval, options in rows:
        results = evaluate(learned, "uniform", ESTIMATORS, interval=interval, **options).to_pylist()
        cells = []
        for row in results:
            near = row["lower"] <= own["upper"] and row["upper"] >= own["lower"]
            width = row["upper"] - row["lower"]
            cells.append(f"{row['lower']:.4f} – {row['upper']:.4f} ({width:.4f}){'' if near else ' *'}")
        print(f"| {label} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
