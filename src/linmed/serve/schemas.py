"""Describe the bodies that the API takes and gives, with examples."""

import functools
import json
import operator
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    create_model,
)
from pydantic_core import PydanticCustomError

from linmed import deadlines
from linmed.question import DEFAULTS, OPTIONS, json_types
from linmed.serve.items import MOST_ITEMS

EXAMPLES: Mapping[str, Any] = {
    "arms": [[1.0, 0.0], [0.6, 0.8]],
    "arm_ids": ["red", "green"],
    "context": [0.2, 0.7],
    "policy": {"policy": "LinMED", "sigma": 0.5},
    "catalogue": {"ids": ["red", "green"], "features": [[1.0, 0.0], [0.0, 1.0]]},
    "ids": ["red", "green"],
    "features": [[1.0, 0.0], [0.0, 1.0]],
    "reward_range": [0, 1],
    "decisions": [{"arms": [[1.0, 0.0], [0.6, 0.8]], "key": "visit-1"}],
    "rewards": [{"decision_id": "18b0f0e7c2a4d1f06b1d9a64c3e2f801", "reward": 1.0}],
    "targets": ["uniform", {"name": "calmer", "policy": {"policy": "LinMED", "sigma": 0.3}}],
    "estimators": ["ipw", "snipw"],
}
"""What a field could hold, by its name."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
TEXT = r"^[^\x00]+$"  # PostgreSQL's text has no NUL
Finite = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, Field(pattern=TEXT, max_length=200)]
ArmId = Text
Key = Text
BanditName = Annotated[str, Field(pattern=NAME, max_length=64, examples=["colours"])]
DecisionId = Annotated[str, Field(pattern=TEXT, max_length=64, examples=["18b0f0e7c2a4d1f06b1d9a64c3e2f801"])]
CatalogueNumber = Annotated[int, Field(ge=1, le=2**31 - 1, examples=[1])]


def _object_or(value: Any, list_of_numbers: Any) -> Any:
    """An object as it is: a bandit's features say what may be in it."""
    return value if isinstance(value, dict) else list_of_numbers(value)


def _as_array(value: Any, check: Callable[[Any], Any], info: ValidationInfo) -> Any:
    """Make an array of rows of numbers; where they are none, `check` says which."""
    if info.context:
        try:
            array = np.array(value)
        except (ValueError, OverflowError):  # rows of several lengths
            return check(value)
        if array.dtype.kind in "fi" and array.ndim == 2 and array.size and np.isfinite(array).all():
            return array.astype(np.float64, copy=False)
    return check(value)


_EITHER = {"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "object"}]}
Context = Annotated[list[Finite], WrapValidator(_object_or), WithJsonSchema(_EITHER)]
"""Numbers or, for a bandit with features, fields by their names."""
OfArms = Annotated[list[Finite], WrapValidator(_object_or), WithJsonSchema(_EITHER)]
"""A number for each arm in their order, or by their ids."""
ItemRow = Annotated[list[Finite], WrapValidator(_object_or), WithJsonSchema(_EITHER)]
Arms = Annotated[list[list[Finite]], Field(min_length=1), WrapValidator(_as_array)]
"""An array (K, d) where a body is read (`parsing.parse`), else lists."""
ItemRows = Annotated[list[ItemRow], Field(min_length=1), WrapValidator(_as_array)]
Range = Annotated[list[Finite], Field(min_length=2, max_length=2)]

PREFIX = "/v1/bandits"
MICROSECONDS = "Microseconds since 1970 (UTC)."
LISTED = 1000
"""Items up to which a bandit's description lists its catalogue."""
PAGE = 10_000
"""Items of a catalogue in one answer."""

UNTOLD: dict[str, Any] = {
    "policy": "LinMED",
    "sigma": "unknown",
    "ridge": "learned",
    "intercept": True,
    "ties": "even",
}
"""The policy of a bandit that is given none, `policies.linmed.NOTHING_TOLD`: it needs no unit."""
POLICY, CATALOGUE, ARMS = EXAMPLES["policy"], EXAMPLES["catalogue"], EXAMPLES["arms"]


def example(value: dict[str, Any]) -> ConfigDict:
    """Strict types, no unknown fields, one example."""
    return ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [value]})


class CatalogueBody(BaseModel):
    """Items that requests may name by id."""

    model_config = example(CATALOGUE)
    ids: list[ArmId] = Field(min_length=1, max_length=MOST_ITEMS)
    features: ItemRows = Field(
        description="One for each id: numbers or, where the bandit has `features`, an object.",
    )


class ItemBody(BaseModel):
    """An item that is to be in the catalogue."""

    model_config = example({"features": [0.6, 0.8]})
    features: ItemRow = Field(description="Numbers or, where the bandit has `features`, an object.")


class ItemIds(BaseModel):
    """Items by id."""

    model_config = example({"ids": EXAMPLES["catalogue"]["ids"][:1]})
    ids: list[ArmId] = Field(min_length=1, max_length=MOST_ITEMS)


class CatalogueView(BaseModel):
    """One version of a catalogue, or a part of it."""

    version: int
    ids: list[str]
    features: list[list[float]]
    next: str | None = Field(
        description="If there are more items: the last of these, to be sent as `after` with the path "
        "`…/catalogue/{version}`. Null at the end."
    )


class PageQuery(BaseModel):
    """Which part of a catalogue."""

    model_config = ConfigDict(extra="forbid")
    limit: int = Field(default=PAGE, ge=1, le=PAGE, description="Items in the answer, at most.")
    after: ArmId | None = Field(default=None, description="The item behind which the answer begins: `next`.")


class VersionView(BaseModel):
    """What a change of items leads to."""

    catalogue_version: int
    items: int = Field(description="How many there are in this version.")


class NewBandit(BaseModel):
    """A bandit to be created."""

    model_config = example(
        {"name": "colours", "dim": 2, "policy": POLICY, "catalogue": CATALOGUE, "reward_range": [0.0, 1.0]}
    )
    name: BanditName
    dim: int | None = Field(
        default=None, ge=1, le=1000, description="Length of an arm's vector; left out where `features` tell."
    )
    policy: dict[str, Any] = Field(
        default=UNTOLD, description="`Policy.to_dict()`: the class's name and its parameters."
    )
    catalogue: CatalogueBody | None = None
    map: Literal["plain", "outer"] = Field(
        default="plain",
        description="How a context joins the catalogue's features: appended to them (dim = features + "
        "context), or multiplied with each of them (dim = features · context).",
    )
    features: dict[str, Any] | None = Field(
        default=None,
        description="`linmed.features.Features.to_dict()`, instead of `dim` and `map`: how the fields of a "
        "context and of an item become numbers. Categories and scales must be known (`Features.fit`).",
    )
    reward_range: Range | None = Field(
        default=None, description="Lowest and highest possible reward: what confidence sequences need."
    )
    control: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        default=0.0, description="Share of the decisions that a control group's law draws."
    )
    control_policy: int | Text | dict[str, Any] = Field(
        default="uniform",
        description="That law: 'uniform', the id of the item that it plays (the number of an arm where there "
        "is no catalogue), or a policy, which learns from all rewards.",
    )
    shadow: dict[Text, dict[str, Any]] | None = Field(
        default=None,
        min_length=1,
        max_length=20,
        description="Policies by name that learn the same rewards and decide nothing.",
    )
    wait: Finite | Annotated[str, Field(max_length=20)] | None = Field(
        default=None,
        description="Seconds, or a time such as '1d', after which a decision without a reward is learned "
        "with `missing`.",
    )
    missing: Finite = Field(
        default=deadlines.Waiting.missing, description="The reward that none by the deadline means."
    )
    early: Literal["hold", "learn"] = Field(
        default=deadlines.Waiting.early,
        description="Whether a reward that comes before is held until the deadline, or learned at once.",
    )
    late: Literal["correct", "ignore"] = Field(
        default=deadlines.Waiting.late,
        description="Whether one that comes after takes the place of `missing`, where the policy can "
        "correct, or is only logged.",
    )
    log_arms: bool = Field(
        default=True,
        description="Keep the features of every arm that a request gives, as evaluating a policy needs; "
        "those of the catalogue are always known.",
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
    catalogue: CatalogueBody | None = Field(
        description=f"Where it has at most {LISTED} items; larger ones are read in parts, by GET …/catalogue."
    )
    catalogue_version: int | None
    items: int = Field(description="How many the catalogue has.")
    map: Literal["plain", "outer"] | None
    features: dict[str, Any] | None = Field(description="Instead of `map`.")
    reward_range: list[float] | None
    log_arms: bool
    control: float
    control_policy: int | str | dict[str, Any]
    shadow: dict[str, dict[str, Any]] | None
    wait: float | None = Field(description="Seconds.")
    missing: float
    early: str
    late: str
    archived: bool
    created: int = Field(description=MICROSECONDS)


class BanditLine(BaseModel):
    """A bandit in the list."""

    name: str
    dim: int
    policy: str
    version: int
    archived: bool
    created: int = Field(description=MICROSECONDS)


class DecideRequest(BaseModel):
    """Arms by features (`arms`), or from the catalogue: those in `arm_ids`, or all."""

    model_config = example({"arms": ARMS, "key": "order-1847"})
    arms: Arms | None = None
    arm_ids: list[ArmId] | None = Field(
        default=None, description="Ids in the catalogue; or, with `arms`, names for them."
    )
    context: Context | None = Field(
        default=None,
        description="Of the user, joined to the catalogue: numbers, or an object where the bandit has "
        "`features`.",
    )
    values: OfArms | None = Field(
        default=None,
        description="What a unit of each arm's reward is worth, above 0: in the order of the arms, or by "
        "their ids. The bandit then maximises value · reward − cost, and learns the reward.",
    )
    costs: OfArms | None = Field(
        default=None, description="What playing each arm costs, 0 or more: as `values`."
    )
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
    arm: int = Field(
        description="Which of the arms that were offered; among a whole catalogue by route (CatalogueMED) a "
        "number that the item keeps, and that may be larger than their count."
    )
    arm_id: str | None
    probability: float | None = Field(
        description="Null where `fallback` is true. Of an item that was found among a whole catalogue by "
        "route (CatalogueMED) it is that of being played by any route but the fallback."
    )
    log_probability: float | None
    fallback: bool = Field(
        description="Whether the item that was proposed was not accepted and the best known one is played."
    )
    probabilities: list[float] | None = Field(
        description="Of every arm, where the policy computes them and the log has them: of arms given by "
        "features always, of up to 128 items to seven digits."
    )
    control: bool | None = Field(
        description="Whether the control group's law drew the arm; null where there is no control group. The "
        "probabilities are those of both sides together."
    )
    shadow: dict[str, float] | None = Field(
        description="How probable the arm was to each shadow policy, where there are any."
    )
    policy_version: int
    catalogue_version: int | None = Field(description="That the arms were taken from.")
    repeated: bool = Field(description="Whether the key was known and this is the earlier decision.")


class DecisionBatchView(BaseModel):
    """In the order of the request."""

    decisions: list[DecisionView]


class StoredDecision(DecisionView):
    """A decision as the log has it."""

    reward: float | None = Field(
        description="The one that came, or the one that was assumed at the deadline."
    )
    time: int = Field(description=f"When it was taken. {MICROSECONDS}")
    reward_time: int | None = Field(description=f"When its reward came, or the deadline. {MICROSECONDS}")
    deadline: int | None = Field(description=f"While the bandit waits for it (`wait`). {MICROSECONDS}")
    missing: bool = Field(description="Whether no reward had come by the deadline.")
    outcomes: dict[str, float] | None = Field(description="Other numbers that came with the reward.")
    arm_count: int
    absorbed: int = Field(description="Rewards in the state that took it.")


class RewardRequest(BaseModel):
    """The reward of one decision."""

    model_config = example({"decision_id": "18b0f0e7c2a4d1f06b1d9a64c3e2f801", "reward": 1.0})
    decision_id: DecisionId
    reward: Finite
    outcomes: dict[Text, Finite] | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Other numbers that came back, by name: they are logged, and not learned.",
    )

    @property
    def given(self) -> tuple[str, float, str | None]:
        """As the engine takes it."""
        more = None if self.outcomes is None else json.dumps(self.outcomes, sort_keys=True)
        return self.decision_id, self.reward, more


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


class ErrorDetail(BaseModel):
    """What was wrong and where."""

    status: int
    message: str
    field: str | None = None


class ErrorView(BaseModel):
    """Every answer that is not 2xx."""

    error: ErrorDetail


# Reports


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
    """One error for the whole target; `parsing` says what it could be."""
    try:
        return check(value)
    except ValidationError:
        raise PydanticCustomError("wrong_target", "") from None


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


class DeadlineCounts(BaseModel):
    """What became of deadlines."""

    held: int = Field(description="Rewards that came, and are held until their deadline.")
    missing: int = Field(description="Decisions whose reward had not come by the deadline.")
    late: int = Field(description="Rewards that came after it.")


class Side(BaseModel):
    """The recent decisions of one side."""

    decisions: int
    rewards: int
    mean_reward: float | None


class ControlView(BaseModel):
    """The control group beside the policy: who decided was drawn, so the two can be compared."""

    share: float
    control: Side
    policy: Side


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
    deadlines: DeadlineCounts | None
    control: ControlView | None
    shadow: list[str] = Field(description="Names of policies that learn the same rewards and decide nothing.")
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
