from functools import partial

import linmed
from linmed import Agent
from linmed.policies import ALL, LinTS, MaillardSampling, Policy
from peers.common import Entry, Play, Problem, serve


def agent(policy: Policy, given: Problem) -> Play:
    maker = Agent(policy, dim=given.arms.shape[1], seed=1)
    arms = given.arms

    def play(t: int) -> None:
        decision = maker.decide(arms)
        maker.learn(decision, given.reward(t, decision.arm))

    return play


LINEAR = [cls for cls in ALL if cls is not MaillardSampling]  # which has arms without features
POLICIES = {cls.__name__: Entry(partial(agent, cls()), "yes", "shared") for cls in LINEAR}
POLICIES["LinTS, no propensity"] = Entry(partial(agent, LinTS(propensity="none")), "no", "shared")

if __name__ == "__main__":
    serve("linmed", linmed.__version__, POLICIES)
