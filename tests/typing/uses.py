"""What users write, with the types that they are promised. Checked by mypy and pyright, never run."""

from typing import Any, assert_type

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from linmed import OFUL, Agent, Decision, LinMED, LogisticMED, Policy, Uniform, Verdict, simulate
from linmed.design import approx_design, certificate
from linmed.environments import FixedArms, UnitBall
from linmed.features import Catalogue, Category, Features, Number
from linmed.ope import Choice, DecisionLog, choose, difference, evaluate, plot_sequences, sequence
from linmed.policies import EpsilonGreedy
from linmed.report.tables import Table
from linmed.serve.client import Client, ServedDecision
from linmed.simulation import Results

Floats = NDArray[np.float64]


def decide(arms: list[list[float]]) -> float:
    with Agent(LinMED(sigma=0.5, norm_bound="unknown"), dim=4, seed=7, log="decisions") as agent:
        decision = agent.decide(arms)
        agent.learn(decision, reward=True)
        agent.learn(decision.id, 1.0)
        agent.observe([0.1, 0.2, 0.3, 0.4], 1.0)
        assert_type(decision, Decision)
        assert_type(decision.arm, int)
        assert_type(decision.probability, float)
        assert_type(decision.probabilities, Floats | None)
        assert_type(decision.item, str | int | None)
        assert_type(agent.decide_batch([arms, arms]), list[Decision])
        assert_type(agent.probabilities(arms), Floats)
        assert_type(agent.mean(arms).mean, Floats)
        assert_type(agent.verdict(arms, delta=0.1), Verdict)
        assert_type(agent.theta, Floats)
        assert_type(agent.count, int)
        agent.save("agent.npz")
    assert_type(Agent.load("agent.npz"), Agent)
    return decision.log_probability


def items(rows: list[dict[str, Any]]) -> Agent:
    columns = [Category("device", ["phone", "desk"]), Number("age")]
    features = Features(context=columns, item=[Category("kind", hashed=8)], interactions=[("device", "kind")])
    catalogue = Catalogue.from_table(rows, id="id", features=features)
    assert_type(features.names, tuple[str, ...])
    return Agent(LogisticMED(), catalogue=catalogue, context=columns, seed=0)


def laboratory(theta: list[float]) -> Floats:
    policies: list[Policy] = [LinMED(), OFUL(), EpsilonGreedy()]
    world = FixedArms([[1.0, 0.0], [0.6, 0.8]], theta, sigma=0.1)
    results = simulate(policies, world, horizon=100, trials=2, progress=False)
    assert_type(results, Results)
    assert_type(simulate(Uniform(), UnitBall(arms=10, dim=5), 100, 2).summary(), Table)
    results.plot("regret.png")
    return results.regret("LinMED")


def evaluation(candidate: Agent) -> pa.Table:
    log = DecisionLog.open("decisions")
    table = evaluate(log, {"uniform": "uniform", "candidate": candidate}, estimators=["ipw"])
    assert_type(table, Table)
    assert_type(difference(log, candidate, "uniform", estimator="dr"), Table)
    assert_type(choose(log, {"candidate": candidate}), Choice)
    plot_sequences({"uniform": sequence(log, "uniform")}, "values.png")
    return table.to_arrow()


def design(arms: Floats) -> float:
    weights = approx_design(arms)
    assert_type(weights, Floats)
    return certificate(arms, weights)


def service() -> ServedDecision:
    with Client("http://127.0.0.1:8000") as client:
        client.create("articles", dim=2, policy={"policy": "LinMED"}, reward_range=(0, 1))
        decision = client.decide("articles", [[1.0, 0.0], [0.6, 0.8]])
        client.reward("articles", decision, 1.0)
    return decision
