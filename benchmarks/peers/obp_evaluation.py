"""What the Open Bandit Pipeline says of a log: run as `python -m peers.obp_evaluation REQUEST ANSWER`.

A request is {"task": "log", "rows": n} for a log of its synthetic data set, or {"task": "values", "log": a
`bandit_feedback` dictionary, "targets", "model", "parameters", "replay"} for its estimates.
"""

import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from obp.dataset import SyntheticBanditDataset, linear_behavior_policy, logistic_reward_function
from obp.ope import (
    DirectMethod,
    DoublyRobust,
    DoublyRobustWithShrinkage,
    InverseProbabilityWeighting,
    OffPolicyEvaluation,
    RegressionModel,
    ReplayMethod,
    SelfNormalizedDoublyRobust,
    SelfNormalizedInverseProbabilityWeighting,
    SwitchDoublyRobust,
)
from sklearn.linear_model import Ridge

ARMS, DIM = 5, 3
PARTS = 3  # of the log, each predicted by a model of the others


def generate(rows: int) -> dict[str, Any]:
    """A log of a softmax policy over five arms with binary rewards."""
    dataset = SyntheticBanditDataset(
        n_actions=ARMS,
        dim_context=DIM,
        reward_function=logistic_reward_function,
        behavior_policy_function=linear_behavior_policy,
        beta=1.5,
        random_state=12345,
    )
    return dict(dataset.obtain_batch_bandit_feedback(rows))


def values(request: dict[str, Any]) -> dict[str, Any]:
    """Every estimator's number for every target, by our names, and the model that obp fitted itself."""
    feedback = {
        key: np.asarray(value) if isinstance(value, list) else value for key, value in request["log"].items()
    }
    positions = 1 if feedback["position"] is None else int(feedback["position"].max()) + 1

    def everywhere(matrix: Any) -> np.ndarray:
        return np.repeat(np.asarray(matrix, dtype=float)[:, :, None], positions, axis=2)

    limits = request["parameters"]
    plain = [
        InverseProbabilityWeighting(estimator_name="ipw"),
        InverseProbabilityWeighting(lambda_=limits["clipped"], estimator_name="clipped"),
        SelfNormalizedInverseProbabilityWeighting(estimator_name="snipw"),
    ]
    modelled = [
        DirectMethod(estimator_name="dm"),
        DoublyRobust(estimator_name="dr"),
        SelfNormalizedDoublyRobust(estimator_name="sndr"),
        SwitchDoublyRobust(lambda_=limits["switch"], estimator_name="switch"),
        DoublyRobustWithShrinkage(lambda_=limits["dros"], estimator_name="dros"),
    ]
    own = RegressionModel(
        n_actions=feedback["n_actions"],
        len_list=positions,
        action_context=feedback["action_context"],
        base_model=Ridge(),
    ).fit_predict(
        context=feedback["context"],
        action=feedback["action"],
        reward=feedback["reward"],
        position=feedback["position"],
        n_folds=PARTS,
        random_state=1,
    )
    found: dict[str, dict[str, float]] = {}
    for name, target in request["targets"].items():
        chances = everywhere(target)
        found[name] = OffPolicyEvaluation(feedback, [*plain, *modelled]).estimate_policy_values(
            chances,
            estimated_rewards_by_reg_model=everywhere(request["model"]),
        )
        theirs = OffPolicyEvaluation(feedback, modelled).estimate_policy_values(
            chances, estimated_rewards_by_reg_model=own
        )
        found[name] |= {f"{estimator}, model of obp": value for estimator, value in theirs.items()}
    for name, choices in request["replay"].items():
        replay = OffPolicyEvaluation(feedback, [ReplayMethod(estimator_name="replay")])
        found[name] = replay.estimate_policy_values(everywhere(choices))
    numbers = {name: {key: float(value) for key, value in row.items()} for name, row in found.items()}
    played = np.arange(len(own)), slice(None), 0 if feedback["position"] is None else feedback["position"]
    return {"numbers": numbers, "model of obp": own[played]}


def listed(value: Any) -> Any:
    """Arrays as lists of plain numbers."""
    if isinstance(value, dict):
        return {key: listed(one) for key, one in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[1]).read_text())
    answer = {"log": generate(asked["rows"])} if asked["task"] == "log" else values(asked)
    answer["versions"] = {name: version(name) for name in ("obp", "numpy", "scikit-learn")}
    answer["versions"]["python"] = platform.python_version()
    Path(sys.argv[2]).write_text(json.dumps(listed(answer)))
