import random
from functools import partial
from importlib.metadata import version

from vowpalwabbit import Workspace

from peers.common import Entry, Play, Problem, serve


def squarecb(keep: bool, given: Problem) -> Play:
    """`keep`: the examples to predict on are parsed once, which is possible while the arms stay the same."""
    workspace = Workspace("--cb_explore_adf --squarecb --quiet --random_seed 1")
    lines = ["| " + " ".join(f"{k}:{x:.9g}" for k, x in enumerate(row)) for row in given.arms.tolist()]
    offered = workspace.parse(lines) if keep else lines
    indices = list(range(len(lines)))
    rng = random.Random(1)

    def play(t: int) -> None:
        probabilities = workspace.predict(offered)
        arm = rng.choices(indices, probabilities)[0]
        labelled = lines.copy()
        labelled[arm] = f"0:{-given.reward(t, arm)}:{probabilities[arm]} {lines[arm]}"
        workspace.learn(labelled)

    return play


if __name__ == "__main__":
    entries = {
        "SquareCB": Entry(partial(squarecb, False), "yes", "shared"),
        "SquareCB, examples kept": Entry(partial(squarecb, True), "yes", "shared"),
    }
    serve("VowpalWabbit", version("vowpalwabbit"), entries)
