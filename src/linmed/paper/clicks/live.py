"""What a decision costs a live user: decide, and learn its reward, one at a time."""

import time

from linmed.agent import Agent
from linmed.environments import Environment
from linmed.paper.clicks.problems import linear, logistic, simple
from linmed.streams import stream

REPEATS = 7
"""Of every policy, in turn; the fastest counts, which what is busy beside us disturbed least."""
WARM = 20
"""Decisions before the clock starts."""


def micros(environment: Environment, decisions: int) -> dict[str, float]:
    """Microseconds of processor time a decision with its reward, by policy: the fastest repeat."""
    block = next(environment.blocks(stream(0, "environment", 0)))
    decisions = min(decisions, len(block.noise))
    policies = (*linear(), *logistic(), *simple())
    taken: dict[str, list[float]] = {policy.name: [] for policy in policies}
    for _ in range(REPEATS):
        for policy in policies:
            agent = Agent(policy, dim=block.arms.shape[-1], seed=0)
            for t in range(-min(WARM, decisions), decisions):
                if t == 0:
                    began = time.process_time()
                decision = agent.decide(block.arms[t])
                paid = environment.rewards(block.means[t, decision.arm], block.noise[t])
                agent.learn(decision, float(paid))
            taken[policy.name].append((time.process_time() - began) / decisions * 1e6)
    return {name: min(times) for name, times in taken.items()}
