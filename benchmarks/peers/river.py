from importlib.metadata import version

from river.bandit import LinUCBDisjoint

from peers.common import Entry, Play, Problem, serve


def linucb(given: Problem) -> Play:
    policy = LinUCBDisjoint(seed=1)
    arms = range(len(given.arms))
    contexts = [dict(enumerate(row)) for row in given.contexts.tolist()]

    def play(t: int) -> None:
        arm = policy.pull(arms, context=contexts[t])
        policy.update(arm, contexts[t], given.reward(t, arm))

    return play


if __name__ == "__main__":
    serve("river", version("river"), {"LinUCB": Entry(linucb, "no", "disjoint")})
