from functools import partial
from importlib.metadata import version
from typing import Any

from obp.policy import LinEpsilonGreedy, LinTS, LinUCB

from peers.common import Entry, Play, Problem, serve


def linear(rule: Any, given: Problem) -> Play:
    policy = rule(dim=given.arms.shape[1], n_actions=len(given.arms), random_state=1)
    rows = given.contexts[:, None, :]

    def play(t: int) -> None:
        arm = int(policy.select_action(rows[t])[0])
        policy.update_params(arm, given.reward(t, arm), rows[t])

    return play


if __name__ == "__main__":
    rules = {
        "LinUCB": partial(LinUCB, epsilon=1.0),
        "LinTS": LinTS,
        "ε-greedy": partial(LinEpsilonGreedy, epsilon=0.1),
    }
    entries = {name: Entry(partial(linear, rule), "no", "disjoint") for name, rule in rules.items()}
    serve("obp", version("obp"), entries)
