from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from contextualbandits.online import LinTS, LinUCB

from peers.common import Entry, Play, Problem, serve


def linear(rule: Any, given: Problem) -> Play:
    policy = rule(nchoices=len(given.arms), fit_intercept=False, random_state=1, njobs=1)
    rows = given.contexts[:, None, :]

    def play(t: int) -> None:
        arm = policy.predict(rows[t])
        policy.partial_fit(rows[t], arm, np.array([given.reward(t, int(arm[0]))]))

    return play


if __name__ == "__main__":
    entries = {rule.__name__: Entry(partial(linear, rule), "no", "disjoint") for rule in (LinUCB, LinTS)}
    serve("contextualbandits", version("contextualbandits"), entries)
