import random
from functools import partial
from importlib.metadata import version
from typing import Literal

from vowpalwabbit import Workspace

from peers.common import Entry, Play, Problem, serve


def squarecb(kept: Literal["none", "offered", "all"], given: Problem) -> Play:
    """`kept`: which examples are parsed once, as is possible while the arms stay the same.

    "offered": those to predict on; "all": also those to learn from, but for the arm with the reward.
    """
    workspace = Workspace("--cb_explore_adf --squarecb --quiet --random_seed 1")
    lines = ["| " + " ".join(f"{k}:{x:.9g}" for k, x in enumerate(row)) for row in given.arms.tolist()]
    offered = lines if kept == "none" else workspace.parse(lines)
    learned = offered if kept == "all" else lines
    indices = list(range(len(lines)))
    rng = random.Random(1)

    def play(t: int) -> None:
        probabilities = workspace.predict(offered)
        arm = rng.choices(indices, probabilities)[0]
        labelled = learned.copy()
        line = f"0:{-given.reward(t, arm)}:{probabilities[arm]} {lines[arm]}"
        labelled[arm] = workspace.parse([line])[0] if kept == "all" else line
        workspace.learn(labelled)

    return play


if __name__ == "__main__":
    entries = {
        "SquareCB": Entry(partial(squarecb, "none"), "yes", "shared"),
        "SquareCB, examples kept": Entry(partial(squarecb, "offered"), "yes", "shared"),
        "SquareCB, all examples kept": Entry(partial(squarecb, "all"), "yes", "shared"),
    }
    serve("VowpalWabbit", version("vowpalwabbit"), entries)
