"""The bodies of reports: what may be asked about a log, and what the answers hold."""

import functools
import json
import operator
import typing
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
)
from pydantic_core import PydanticCustomError

from linmed.question import DEFAULTS, OPTIONS, json_types
from linmed.serve.parsing import TOLD, explained, shown
from linmed.serve.schemas import EXAMPLES, MICROSECONDS, Range, example


def _body_field(name: str) -> tuple[Any, Any]:
    """Make type and field of a body from an option of `Question`."""
    option, default = OPTIONS[name], DEFAULTS[name]
    limits: Any = option.limits
    kinds = json_types(name)
    if tuple in {typing.get_origin(kind) for kind in kinds}:
        kinds = (Range, None)
    elif option.words and (Any in kinds or str in kinds):
        kinds = (
            Literal[option.words],
            *(kind for kind in kinds if kind is float),
            *[None] * (default is None),
        )
    known = {
        float: Annotated[float, Field(allow_inf_nan=False, **limits)],
        int: Annotated[int, Field(strict=True)],
        str: Annotated[str, Field(max_length=100)],
    }
    kind: Any = functools.reduce(operator.or_, (known.get(one, one) for one in kinds))
    if option.right:

        def one_error(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
            """One error for the whole field, where pydantic has one for each alternative."""
            try:
                return check(value)
            except ValidationError:
                raise PydanticCustomError(f"wrong_{name}", f"must be {option.right}") from None

        kind = Annotated[kind, WrapValidator(one_error)]
    return kind, Field(default=default, description=option.meaning)


def _body(title: str, names: Iterable[str]) -> Any:
    """Make a model whose fields are options of `Question`."""
    fields: Any = {name: _body_field(name) for name in names}
    return create_model(title, **fields)


if TYPE_CHECKING:
    Asked = BaseModel
    Waiting = BaseModel
else:
    Asked = _body("Asked", (name for name, option in OPTIONS.items() if option.served))
    Waiting = _body("Waiting", ("missing", "mature"))


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


class EvaluateRequest(Asked):
    """What would these targets have earned?"""

    model_config = example({"targets": ["uniform", "logged", "greedy"], "estimators": ["ipw", "snipw"]})
    targets: list[Target] = Field(default=["uniform", "greedy"], min_length=1, max_length=20)
    estimators: list[Annotated[str, Field(max_length=40)]] = Field(
        default=["ipw"], min_length=1, max_length=10
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


class TrendRequest(Waiting):
    """How decisions without a reward are to be judged, as in an evaluation."""

    model_config = example({"missing": 0.0, "mature": 86400.0})


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
