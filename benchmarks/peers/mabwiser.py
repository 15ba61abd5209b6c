from functools import partial
from importlib.metadata import version
from typing import Any

from mabwiser.mab import MAB, LearningPolicy

from peers.common import Entry, Play, Problem, serve


def linear(rule: Any, given: Problem) -> Play:
    mab = MAB(arms=list(range(len(given.arms))), learning_policy=rule, seed=1)
    rows = given.contexts[:, None, :]
    mab.fit([0], [given.reward(0, 0)], rows[0])  # it wants one observation before the first decision

    def play(t: int) -> None:
        arm = mab.predict(rows[t])
        mab.partial_fit([arm], [given.reward(t, arm)], rows[t])

    return play


if __name__ == "__main__":
    rules = {"LinUCB": LearningPolicy.LinUCB(alpha=1.0), "LinTS": LearningPolicy.LinTS(alpha=1.0)}
    entries = {name: Entry(partial(linear, rule), "no", "disjoint") for name, rule in rules.items()}
    serve("MABWiser", version("mabwiser"), entries)
