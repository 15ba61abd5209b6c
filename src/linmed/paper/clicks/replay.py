"""The uniform log of the Open Bandit Dataset, replayed to policies that learn from it."""

import warnings
from pathlib import Path

from linmed.log import DecisionLog
from linmed.ope import Replay
from linmed.paper.clicks.problems import LEARNED, LINEAR, OWN, linear, logistic
from linmed.policies import Uniform

REPLAYED = (LINEAR, LEARNED, OWN)


def replayed(folder: str | Path, campaign: str = "men") -> tuple[tuple[str, str], ...]:
    """What each would have earned, with a 95 % interval that is valid however many decisions were accepted.

    An arm's features are the log's own: 1, the user's affinity to the item, the item's number.
    """
    log = DecisionLog.from_open_bandit(Path(folder) / "random" / campaign / f"{campaign}.csv")
    items = int(log.table(["arm_count"])["arm_count"][0].as_py())
    policies = [policy for policy in (*linear(), *logistic()) if policy.name in REPLAYED]
    said = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a log leaves open, the report has the interval
        for policy in (*policies, Uniform(label="Uniform")):
            found = Replay(policy, bound=items).run(log, reward_range=(0.0, 1.0))
            clicks = f"{100 * found.estimate:.2f} % ({100 * found.lower:.2f} to {100 * found.upper:.2f} %)"
            kept = f"{found.accepted:,} of {found.offered:,} decisions, {found.rewards.sum():.0f} clicks"
            said.append((policy.name, f"{clicks}; {kept}"))
    return tuple(said)
