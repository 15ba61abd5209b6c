"""The bodies that the API takes and gives, with examples."""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

Finite = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, Field(pattern=r"^[^\x00]+$", max_length=200)]  # PostgreSQL's text has no NUL
ArmId = Text
Key = Text
BanditName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64, examples=["colours"])
]
DecisionId = Annotated[
    str, Field(pattern=r"^[^\x00]+$", max_length=64, examples=["18b0f0e7c2a4d1f06b1d9a64c3e2f801"])
]
Range = Annotated[list[Finite], Field(min_length=2, max_length=2)]


def _word_or_number(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """One error for the whole field, where pydantic has one for each alternative."""
    try:
        return check(value)
    except ValidationError:
        message = "must be 'stop', 'skip' or the reward that none after `mature` seconds means"
        raise PydanticCustomError("missing_reward", message) from None


Missing = Annotated[Literal["stop", "skip"] | Finite, WrapValidator(_word_or_number)]

POLICY = {"policy": "LinMED", "sigma": 0.5}
CATALOGUE = {"ids": ["red", "green"], "features": [[1.0, 0.0], [0.0, 1.0]]}
ARMS = [[1.0, 0.0], [0.6, 0.8]]


def example(value: dict[str, Any]) -> ConfigDict:
    """Strict types, no unknown fields, one example."""
    return ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [value]})


class CatalogueBody(BaseModel):
    """Arms that requests may name by id."""

    model_config = example(CATALOGUE)
    ids: list[ArmId] = Field(min_length=1, max_length=100_000)
    features: list[list[Finite]] = Field(min_length=1, description="One row for each id.")


class NewBandit(BaseModel):
    """A bandit to be created."""

    model_config = example(
        {"name": "colours", "dim": 2, "policy": POLICY, "catalogue": CATALOGUE, "reward_range": [0.0, 1.0]}
    )
    name: BanditName
    dim: int = Field(ge=1, le=1000, description="Length of an arm's vector.")
    policy: dict[str, Any] = Field(
        default={"policy": "LinMED"}, description="`Policy.to_dict()`: the class's name and its parameters."
    )
    catalogue: CatalogueBody | None = None
    map: Literal["plain", "outer"] = Field(
        default="plain",
        description="How a context joins the catalogue's features: appended to them (dim = features + "
        "context), or multiplied with each of them (dim = features · context).",
    )
    reward_range: Range | None = Field(
        default=None, description="Lowest and highest possible reward: what confidence sequences need."
    )
    log_arms: bool = Field(
        default=True, description="Keep every arm's features in the log, as evaluating a policy needs."
    )


class BanditChange(BaseModel):
    """What is to change; what is left out stays. The log stays in any case."""

    model_config = example({"policy": {"policy": "LinMED", "sigma": 0.3}})
    policy: dict[str, Any] | None = None
    catalogue: CatalogueBody | None = None
    reward_range: Range | None = None
    archived: bool | None = None


class BanditView(BaseModel):
    """A bandit."""

    name: str
    dim: int
    policy: dict[str, Any]
    policy_name: str
    policy_version: int
    catalogue: CatalogueBody | None
    map: Literal["plain", "outer"]
    reward_range: list[float] | None
    log_arms: bool
    archived: bool
    created: int = Field(description="Microseconds since 1970.")


class BanditLine(BaseModel):
    """A bandit in the list."""

    name: str
    dim: int
    policy: str
    version: int
    archived: bool
    created: int


class DecideRequest(BaseModel):
    """Arms by features (`arms`), or from the catalogue: those in `arm_ids`, or all."""

    model_config = example({"arms": ARMS, "key": "order-1847"})
    arms: list[list[Finite]] | None = Field(default=None, min_length=1)
    arm_ids: list[ArmId] | None = Field(
        default=None, description="Ids in the catalogue; or, with `arms`, names for them."
    )
    context: list[Finite] | None = Field(default=None, description="Of the user, joined to the catalogue.")
    key: Key | None = Field(
        default=None, description="The same key gives the same decision: for retries without harm."
    )


class DecideBatch(BaseModel):
    """Several decisions, all or none."""

    model_config = example({"decisions": [{"arms": ARMS, "key": "a"}, {"arms": ARMS, "key": "b"}]})
    decisions: list[DecideRequest] = Field(min_length=1)


class DecisionView(BaseModel):
    """A decision and how probable it was before it was drawn."""

    decision_id: str
    arm: int
    arm_id: str | None
    probability: float
    log_probability: float
    probabilities: list[float] | None = Field(description="Of every arm, where the policy computes them.")
    policy_version: int
    repeated: bool = Field(description="Whether the key was known and this is the earlier decision.")


class DecisionBatchView(BaseModel):
    """In the order of the request."""

    decisions: list[DecisionView]


class StoredDecision(DecisionView):
    """A decision as the log has it."""

    reward: float | None
    time: int
    reward_time: int | None
    arm_count: int
    absorbed: int = Field(description="Rewards in the state that took it.")


class RewardRequest(BaseModel):
    """The reward of one decision."""

    model_config = example({"decision_id": "18b0f0e7c2a4d1f06b1d9a64c3e2f801", "reward": 1.0})
    decision_id: DecisionId
    reward: Finite


class RewardBatch(BaseModel):
    """Several rewards, all or none."""

    model_config = example({"rewards": [{"decision_id": "18b0f0e7c2a4d1f06b1d9a64c3e2f801", "reward": 1.0}]})
    rewards: list[RewardRequest] = Field(min_length=1)


class RewardView(BaseModel):
    """A reward that is in the log."""

    decision_id: str
    reward: float
    repeated: bool = Field(description="Whether it was in the log already.")


class RewardBatchView(BaseModel):
    """In the order of the request."""

    rewards: list[RewardView]


class TrainedTarget(BaseModel):
    """A policy that learns from the rewards of the first decisions and is judged on the decisions since."""

    model_config = example(
        {"name": "calmer", "policy": {"policy": "LinMED", "alpha_emp": 0.99, "alpha_opt": 0.005}}
    )
    name: Annotated[str, Field(min_length=1, max_length=100)]
    policy: dict[str, Any]


class EvaluateRequest(BaseModel):
    """What would these targets have earned?"""

    model_config = example({"targets": ["uniform", "logged", "greedy"], "estimators": ["ipw", "snipw"]})
    targets: list[
        Annotated[str, Field(pattern=r"^(uniform|logged|greedy|arm:[0-9]{1,9})$")] | TrainedTarget
    ] = Field(default=["uniform", "greedy"], min_length=1, max_length=20)
    estimators: list[Annotated[str, Field(max_length=40)]] = Field(
        default=["ipw"], min_length=1, max_length=10
    )
    interval: Literal[
        "betting", "bernstein", "mixture", "asymptotic", "adaptive", "normal", "bootstrap", "none"
    ] = "betting"
    confidence: float = Field(default=0.95, gt=0.0, lt=1.0)
    reward_range: Range | None = Field(default=None, description="The bandit's own where left out.")
    missing: Missing = Field(
        default="stop",
        description="Of decisions without a reward: 'stop' judges the log up to the first of them, which "
        "assumes nothing; 'skip' leaves them out, which is right if lateness has nothing to do with the "
        "reward; a number is the reward that none after `mature` seconds means.",
    )
    mature: Annotated[Finite, Field(ge=0.0)] | None = Field(
        default=None,
        description="Seconds: only decisions that are at least so much older than the newest decision or "
        "reward of the log are judged.",
    )
    drift: bool | None = Field(
        default=None, description="Whether values may change over time; false promises that they do not."
    )
    smallest_probability: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None, description="The promise that no arm a target may play was less probable in the log."
    )


class Estimate(BaseModel):
    """One target × estimator."""

    target: str
    estimator: str
    estimate: float | None
    lower: float | None
    upper: float | None
    n: int
    effective_n: float | None
    valid: str


class EvaluateView(BaseModel):
    """The estimates, and what they rest on."""

    results: list[Estimate]
    trained_on: int = Field(
        description="Rewards that trained targets learned from, all of the first decisions: the rest of the "
        "answer is about the decisions since."
    )
    decisions: int
    waiting: int = Field(description="Decisions that are old enough and have no reward yet.")
    judged: int = Field(description="Decisions that the estimates rest on.")
    warnings: list[str] = Field(description="What should make one hesitate, in words.")


class Point(BaseModel):
    """One span of time."""

    time: int
    decisions: int
    rewards: int
    mean_reward: float | None
    exploration_rate: float | None


class Share(BaseModel):
    """How often an arm was played recently."""

    arm: str
    share: float


class Version(BaseModel):
    """A version of the policy."""

    version: int
    name: str
    created: int


class StatisticsView(BaseModel):
    """Counts over the whole log; shares and curves over the recent decisions."""

    name: str
    policy: str
    policy_version: int
    policy_versions: list[Version]
    archived: bool
    decisions: int
    rewards: int
    pending: int
    mean_reward: float | None
    recent: int
    exploration_rate: float | None = Field(
        description="Share of decisions for another arm than the best estimate."
    )
    arm_shares: list[Share]
    over_time: list[Point]


class StateView(BaseModel):
    """What this server has learned."""

    policy_version: int
    count: int = Field(description="Rewards absorbed.")
    seq: int = Field(description="Number of the last reward considered.")
    theta: list[float | None]
    arrays: dict[str, Any] = Field(description="Every array of the state.")


class ErrorDetail(BaseModel):
    """What was wrong and where."""

    status: int
    message: str
    field: str | None = None


class ErrorView(BaseModel):
    """Every answer that is not 2xx."""

    error: ErrorDetail
