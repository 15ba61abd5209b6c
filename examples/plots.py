"""The figures of docs/plots.md: `python examples/plots.py docs/figures` draws them again."""

import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from linmed import Agent, Disjoint, Forgetful, LinMED, Pinpoint
from linmed.features import Catalogue, Category
from linmed.ope import DecisionLog, drift, evaluate, plot_sequences, sequence

ARMS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.6, 0.8, 0.0], [0.5, 0.5, 0.7]])
THETA = np.array([0.6, 0.35, 0.1])


def explanation() -> Axes:
    """Why this arm."""
    agent, rng = Agent(LinMED(sigma=0.3), dim=3, seed=1), np.random.default_rng(1)
    for _ in range(400):
        decision = agent.decide(ARMS)
        agent.learn(decision, ARMS[decision.arm] @ THETA + 0.3 * rng.normal())
    return agent.explain(ARMS).plot()


def items() -> Axes:
    """Why this item, by a model for each."""
    news = Catalogue.from_table([{"item_id": name} for name in ("sports", "world", "culture", "weather")])
    agent = Agent(
        Disjoint(LinMED(sigma=0.3)), catalogue=news, context=[Category("device", ["phone", "desk"])], seed=1
    )
    paid, rng = {"sports": (0.7, 0.3), "world": (0.4, 0.6), "culture": (0.3, 0.4)}, np.random.default_rng(1)
    for _ in range(600):
        desk = int(rng.integers(2))
        decision = agent.decide(context={"device": ("phone", "desk")[desk]})
        agent.learn(decision, paid.get(str(decision.item), (0.2, 0.2))[desk] + 0.3 * rng.normal())
    return agent.explain(context={"device": "phone"}).plot()


def written(folder: str) -> DecisionLog:
    """A log of 3,000 decisions."""
    rng = np.random.default_rng(2)
    with Agent(LinMED(sigma=0.3, alpha_emp=0.4), dim=3, seed=2, log=folder) as agent:
        for _ in range(3000):
            decision = agent.decide(ARMS)
            agent.learn(decision, float(np.clip(ARMS[decision.arm] @ THETA + 0.3 * rng.normal(), 0, 1)))
    return DecisionLog.open(folder)


def evaluation(log: DecisionLog) -> Axes:
    """What others would have earned."""
    targets = {"always arm 0": "arm:0", "always arm 3": "arm:3", "always arm 4": "arm:4"}
    return evaluate(log, targets, ["ipw", "snipw"]).plot()


def courses(log: DecisionLog) -> Axes:
    """How sure one became."""
    return plot_sequences({name: sequence(log, name) for name in ("arm:0", "arm:3", "arm:4")})


def verdict() -> Axes:
    """Which arm is the best."""
    agent, rng = Agent(Pinpoint(sigma=0.3), dim=3, seed=3), np.random.default_rng(3)
    for _ in range(600):
        decision = agent.decide(ARMS)
        agent.learn(decision, ARMS[decision.arm] @ THETA + 0.3 * rng.normal())
    return agent.verdict(ARMS).plot(names=["red", "green", "blue", "autumn", "winter"])


def changes() -> tuple[Axes, Axes]:
    """An agent whose world changes, and its log."""
    rng, policy = np.random.default_rng(4), Forgetful(LinMED(sigma=0.2))
    agent = Agent(policy, dim=3, seed=4)
    played, paid = [], []
    for t in range(2000):
        theta = THETA if t < 1200 else THETA[::-1]
        decision = agent.decide(ARMS)
        reward = ARMS[decision.arm] @ theta + 0.2 * rng.normal()
        agent.learn(decision, reward)
        played.append(decision)
        paid.append(reward)
    log = DecisionLog.from_table(
        {
            "arm": [one.arm for one in played],
            "probability": [one.probability for one in played],
            "features": [one.features.tolist() for one in played],
            "reward": paid,
        }
    )
    return agent.drift().plot(), drift(log, policy).plot()


def main(folder: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        log = written(place)
        drawn = {"evaluation": evaluation(log), "sequences": courses(log)}
    drawn["explanation"], drawn["items"], drawn["verdict"] = explanation(), items(), verdict()
    drawn["drift"], drawn["drift-log"] = changes()
    for name, ax in drawn.items():
        assert isinstance(ax.figure, Figure)
        ax.figure.savefig(Path(folder) / f"plots-{name}.png", dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main(sys.argv[1])
