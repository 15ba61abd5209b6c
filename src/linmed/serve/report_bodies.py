"""The bodies of reports: what may be asked about a log, and what the answers hold."""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from linmed.serve.parsing import TOLD, explained, shown
from linmed.serve.schemas import EXAMPLES, MICROSECONDS, Finite, Range, example


def _word_or_number(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """One error for the whole field, where pydantic has one for each alternative."""
    try:
        return check(value)
    except ValidationError:
        message = 'must be "stop", "skip" or the reward that none after `mature` seconds means'
        raise PydanticCustomError("missing_reward", message) from None


Missing = Annotated[Literal["stop", "skip"] | Finite, WrapValidator(_word_or_number)]


def _number_or_time(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """The same of where decisions begin."""
    try:
        return check(value)
    except ValidationError:
        message = "must be a decision's number, a time such as 2026-05-01, or how long before the end, as 30d"
        raise PydanticCustomError("since", message) from None


Since = Annotated[
    Annotated[int, Field(strict=True)] | Annotated[str, Field(max_length=100)], WrapValidator(_number_or_time)
]


def _number_or_length(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """The same of how decisions count."""
    try:
        return check(value)
    except ValidationError:
        message = "must be a number of decisions, at least 1, or a length of time such as 7d"
        raise PydanticCustomError("half_life", message) from None


HalfLife = Annotated[
    Annotated[float, Field(strict=True, ge=1.0, le=1e12)] | Annotated[str, Field(max_length=100)],
    WrapValidator(_number_or_length),
]


class TrainedTarget(BaseModel):
    """A policy that learns from the rewards of the first decisions and is judged on the decisions since."""

    model_config = example(EXAMPLES["targets"][1])
    name: Annotated[str, Field(min_length=1, max_length=100)]
    policy: dict[str, Any]


def _known_or_trained(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """One error for the whole target, which says what it could be."""
    try:
        return check(value)
    except ValidationError:
        told = {"example": json.dumps(EXAMPLES["targets"][1]), "reason": f"it is {shown(value)}"}
        message = (
            'must be "uniform", "logged", "greedy", an arm such as "arm:0", an item such as "item:red", or a '
            "policy such as {example}"
        )
        if isinstance(value, dict):
            message = "must be such as {example}"
            try:
                TrainedTarget.model_validate(value)
            except ValidationError as error:
                told["reason"] = explained(error, "it")[1]
        raise PydanticCustomError(TOLD, message + ": {reason}", told) from None


Known = Annotated[str, Field(pattern=r"^(uniform|logged|greedy|arm:[0-9]{1,9}|item:[^\x00]{1,200})$")]
Target = Annotated[Known | TrainedTarget, WrapValidator(_known_or_trained)]


class EvaluateRequest(BaseModel):
    """What would these targets have earned?"""

    model_config = example({"targets": ["uniform", "logged", "greedy"], "estimators": ["ipw", "snipw"]})
    targets: list[Target] = Field(default=["uniform", "greedy"], min_length=1, max_length=20)
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
    regressor: Literal["ridge", "logistic"] = Field(
        default="ridge", description="The reward model of 'dm', 'dr' and the like; 'logistic' is for clicks."
    )
    since: Since | None = Field(
        default=None,
        description="Only decisions from here on are judged, and the answer is the average since: a "
        "decision's number (the last ones where negative), a time such as '2026-05-01', or how long before "
        "the log's end, such as '30d'. It must not have been chosen by looking at what came after it.",
    )
    half_life: HalfLife | None = Field(
        default=None,
        description="Decisions count by their age, half as much after every so many of them, or after such a "
        "length of time ('7d'). The interval, 'betting' or 'mixture', is then proved for one look.",
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
    value: str = Field(description="What the estimates are about: 'average so far', 'average of the last …'.")
    warnings: list[str] = Field(description="What should make one hesitate, in words.")


class TrendRequest(BaseModel):
    """How decisions without a reward are to be judged, as in an evaluation."""

    model_config = example({"missing": 0.0, "mature": 86400.0})
    missing: Missing = Field(default="stop", description="As in an evaluation.")
    mature: Annotated[Finite, Field(ge=0.0)] | None = Field(default=None, description="As in an evaluation.")


class TrendPoint(BaseModel):
    """What the first n decisions say; the bounds are null where they say nothing."""

    n: int
    estimate: float | None
    lower: float | None
    upper: float | None


class TrendValue(TrendPoint):
    """What a target would have earned per decision: now, and as it was known after fewer decisions."""

    target: Literal["logged", "uniform", "greedy"] = Field(
        description="'greedy' plays the best estimate of the decisions before, at every time."
    )
    curve: list[TrendPoint]


class TrendDifference(TrendPoint):
    """How much more a target would have earned than another; the differences hold all at once."""

    target: str
    baseline: str


class Overplayed(BaseModel):
    """An arm that was played more often than its probabilities say."""

    arm: int
    times: float


class MeanWeight(BaseModel):
    """The mean of (1/K)/p over all decisions: 1 if the logged probabilities are true."""

    curve: list[TrendPoint]
    refuted: bool = Field(description="Whether the probabilities cannot be true.")
    overplayed: Overplayed | None


class TrendView(BaseModel):
    """Which policy is better, how sure that is, and whether the log is sound."""

    decisions: int
    waiting: int
    judged: int
    values: list[TrendValue]
    differences: list[TrendDifference]
    warnings: list[str] = Field(description="What should make one hesitate, in words.")
    notes: list[str] = Field(description="What could not be said, and why.")
    reason: str | None = Field(description="Why there are no values at all.")
    weights: MeanWeight


class ArmOutlook(BaseModel):
    """What the bandit believes of an arm."""

    id: str
    place: int = Field(description="In the catalogue.")
    features: list[float]
    described: list[str] | None = Field(
        description="The same by the names of the item's fields, as they came, where the bandit has features."
    )
    estimate: float | None
    lower: float | None = Field(description="Of the policy's confidence set, where it has one.")
    upper: float | None
    share: float = Field(description="Of the recent decisions.")


class OutlookView(BaseModel):
    """The catalogue's arms, those with the largest estimates first."""

    policy: str
    forgets: bool = Field(description="Whether the policy watches for changes: GET /drift has more.")
    rewards: int = Field(description="Behind the estimates.")
    count: int = Field(description="Arms in the catalogue.")
    context_size: int
    context_fields: list[str] | None = Field(description="Of a context, where the bandit has features.")
    context: list[float] | None = Field(
        description="The mean of the recent contexts, for which the estimates are, where arms depend on one."
    )
    context_described: list[str] | None = Field(description="The same by the names of its fields.")
    reward_range: list[float] | None
    arms: list[ArmOutlook]


class Point(BaseModel):
    """One span of time."""

    time: int = Field(description=f"When it begins. {MICROSECONDS}")
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
    created: int = Field(description=MICROSECONDS)


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
