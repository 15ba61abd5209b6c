import random
from importlib.metadata import version

from vowpalwabbit import Workspace

from peers.common import Entry, Play, Problem, serve


def squarecb(given: Problem) -> Play:
    workspace = Workspace("--cb_explore_adf --squarecb --quiet --random_seed 1")
    lines = ["| " + " ".join(f"{k}:{x:.9g}" for k, x in enumerate(row)) for row in given.arms.tolist()]
    indices = list(range(len(lines)))
    rng = random.Random(1)

    def play(t: int) -> None:
        probabilities = workspace.predict(lines)
        arm = rng.choices(indices, probabilities)[0]
        labelled = lines.copy()
        labelled[arm] = f"0:{-given.reward(t, arm)}:{probabilities[arm]} {lines[arm]}"
        workspace.learn(labelled)

    return play


if __name__ == "__main__":
    serve("VowpalWabbit", version("vowpalwabbit"), {"SquareCB": Entry(squarecb, "yes", "shared")})
