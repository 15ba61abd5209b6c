from functools import partial
from importlib.metadata import version
from typing import Any

from coba.learners import LinTSLearner, LinUCBLearner

from peers.common import Entry, Play, Problem, serve


def linear(rule: Any, given: Problem) -> Play:
    learner = rule(features=["a"])
    actions = [tuple(row) for row in given.arms.tolist()]
    index = {id(action): i for i, action in enumerate(actions)}

    def play(t: int) -> None:
        action, probability = learner.predict(None, actions)[:2]
        learner.learn(None, action, given.reward(t, index[id(action)]), probability)

    return play


if __name__ == "__main__":
    rules = {"LinUCB": LinUCBLearner, "LinTS": LinTSLearner}
    entries = {name: Entry(partial(linear, rule), "0/1", "shared") for name, rule in rules.items()}
    serve("coba", version("coba"), entries)
