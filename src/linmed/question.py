"""Say what can be asked of a log: every option of an evaluation, once.

Each field of `Question` has an `Option`: what it means, how it is checked, how a command and JSON give it.
The signatures of `evaluate`, `sequence`, `difference`, `choose` and `compare`, the flags of their commands,
the body of `POST /evaluate` and the clients' `evaluate` are made of these. To add an option, write a field
here and a line in the `TypedDict` of the functions that take it, then the code that uses it.

Nothing here needs more than NumPy: clients and servers import it without the rest of `linmed.ope`.
"""

import argparse
import dataclasses
import inspect
import math
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypedDict, TypeVar

from linmed import validation
from linmed.validation import BadValue

VALID = {
    "betting": "any time",
    "asymptotic": "asymptotic",
    "adaptive": "adaptive",
    "normal": "independent",
    "none": "—",
}
"""Interval → when it holds, as the `valid` column of a result says."""
INTERVAL = "betting"
CONFIDENCE = 0.95
MISSING = "stop"
AGES = 1e12
"""Seconds, and more than any log lasts."""
UNITS = {"": 1.0, **validation.UNITS}

Since = int | str | datetime | timedelta
"""The number of a decision, counted from the end where negative; a time; or how long before the log's end."""
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """Describe one option of a question."""

    meaning: str
    """For readers of a docstring, of `--help` (which has its first sentence) and of the HTTP API."""
    check: Callable[[str, Any], Any] | None = None
    """From name and value to the value that is used; None where only a log can tell what is right."""
    words: tuple[str, ...] = ()
    """The texts that may be given, where they are few."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Of a number in JSON: gt, ge, lt, le."""
    right: str = ""
    """What JSON may hold, in words, where it may be of several types."""
    metavar: str | tuple[str, ...] = ""
    """What stands for the value in the help of a command; empty where it has no flag."""
    parse: Callable[[str], Any] = str
    """From the text that a command is given to the value."""
    served: bool = False
    """Whether the service takes it."""
    label: str = ""
    """What it is called in a report, where that names it."""
    shown: Callable[[Any], str] = str
    """From the value to what a report says."""


def option(meaning: str, **more: Any) -> dict[str, Option]:
    """Make the metadata of a field; `more` are further fields of its `Option`."""
    return {"option": Option(meaning, **more)}


def duration(text: str) -> float:
    """Parse seconds from "90s", "15m", "6h", "2d" or a plain number of seconds."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*([smhd]?)", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"it must be a time like 90s, 15m, 6h, 2d or seconds, got {text!r}")
    return float(match[1]) * UNITS[match[2]]


def missing(text: str) -> str | float:
    """Parse what becomes of decisions without a reward: stop, skip or a reward."""
    if text in ("stop", "skip"):
        return text
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"it must be stop, skip or a number, got {text!r}")
    return number


def _missing(name: str, value: Any) -> str | float:
    if isinstance(value, str):
        return str(validation.option(name, value, ("stop", "skip")))
    return validation.real(name, value)


def _seconds(name: str, value: Any) -> float:
    seconds = validation.real(name, value.total_seconds() if isinstance(value, timedelta) else value)
    if not 0 <= seconds <= AGES:
        raise BadValue(name, f"{name} must be 0 to {AGES:g} seconds, got {seconds:g}")
    return seconds


def _share(name: str, value: Any) -> float:
    share = validation.positive(name, value)
    if share > 1.0:
        raise BadValue(name, f"{name} must be at most 1, got {share:g}")
    return share


@dataclass(frozen=True, kw_only=True)
class Question:
    """Hold the options of an evaluation, checked.

    >>> from linmed.ope import Question
    >>> Question(confidence=0.9).interval
    'betting'
    >>> Question(confidence=95)
    Traceback (most recent call last):
    ...
    linmed.validation.BadValue: confidence must lie strictly between 0 and 1, got 95
    """

    interval: str = field(
        default=INTERVAL,
        metadata=option(
            'How sure an estimate is: "betting" holds at any time, "asymptotic" at any large one, '
            '"adaptive" where the logging policy learned slowly and every arm\'s probability is known, '
            '"normal" where it did not learn. "none" leaves intervals out.',
            check=lambda name, value: validation.option(name, value, tuple(VALID)),
            words=tuple(VALID),
            metavar="INTERVAL",
            served=True,
        ),
    )
    confidence: float = field(
        default=CONFIDENCE,
        metadata=option(
            "How probable it is that an interval holds.",
            check=lambda name, value: validation.strictly_between(name, value, 0.0, 1.0),
            limits={"gt": 0.0, "lt": 1.0},
            metavar="CONFIDENCE",
            parse=float,
            served=True,
        ),
    )
    reward_range: tuple[float, float] | None = field(
        default=None,
        metadata=option(
            'The lowest and the highest reward that are possible, which "betting" needs. '
            "[0, 1] unless given, and then a log with other rewards is refused; of a bandit of the "
            "service its own.",
            check=validation.interval,
            metavar=("LOW", "HIGH"),
            parse=float,
            served=True,
        ),
    )
    regressor: Any = field(
        default=None,
        metadata=option(
            "The reward model of dm, dr and the like: ridge unless given, logistic for clicks. See "
            "`Refitted`.",
            words=("ridge", "logistic"),
            metavar="MODEL",
            served=True,
        ),
    )
    adaptive: bool | None = field(
        default=None,
        metadata=option(
            "Whether the logging policy learned; None asks the log's columns `version` and `policy`.",
            check=validation.flag,
        ),
    )
    missing: str | float = field(
        default=MISSING,
        metadata=option(
            'What becomes of decisions without a reward: "stop" judges the log up to the first of them '
            'and assumes nothing; "skip" leaves them out, which is right if lateness has nothing to do '
            "with the reward; a number is the reward that none after `mature` means (and rewards that "
            "came later do not count).",
            check=_missing,
            words=("stop", "skip"),
            right='"stop", "skip" or the reward that none after `mature` seconds means',
            metavar="stop|skip|NUMBER",
            parse=missing,
            served=True,
            label="missing",
        ),
    )
    mature: float | timedelta | None = field(
        default=None,
        metadata=option(
            "Judge only decisions at least so many seconds (or a timedelta; of a command 90s, 15m, 6h, "
            "2d) old when the log ended.",
            check=_seconds,
            limits={"ge": 0.0},
            metavar="DURATION",
            parse=duration,
            served=True,
            label="mature",
            shown=lambda seconds: f"after {seconds:,g} s",
        ),
    )
    since: Since | None = field(
        default=None,
        metadata=option(
            "Judge only decisions from here on: the number of a decision (of the last ones where "
            "negative), a time (a datetime, '2026-05-01'), or how long before the log's end ('30d', a "
            "timedelta). The answer is then the average since; reward models also know the decisions "
            "before. A `since` that was chosen by looking at what came after it is covered by no "
            "interval.",
            right="a decision's number, a time such as 2026-05-01, or how long before the end, as 30d",
            metavar="WHEN",
            served=True,
        ),
    )
    smallest_probability: float | None = field(
        default=None,
        metadata=option(
            "The promise that no arm of any decision was less probable. With it, or with every arm's "
            "probability in the log, betting sequences use reward models: much narrower for rare rewards.",
            check=_share,
            limits={"gt": 0.0, "le": 1.0},
            metavar="P",
            parse=float,
            served=True,
            label="smallest probability",
            shown=lambda p: f"{p:g}",
        ),
    )
    outcome: str | None = field(
        default=None,
        metadata=option(
            "The outcome that stands for the reward: the name of a number that came back with it (the log's "
            "column `outcomes`). A decision without that number is one without a reward.",
            check=validation.text,
            metavar="NAME",
            served=True,
            label="outcome",
        ),
    )
    reward: str | None = field(
        default=None,
        metadata=option(
            '"utility" asks about value · reward − cost, by the columns `value` and `cost`. A decision '
            "without a value has value 1, one without a cost has cost 0. `reward_range` is then that of the "
            "utility; a number for `missing` is still a reward.",
            check=lambda name, value: validation.option(name, value, ("utility",)),
            words=("utility",),
            metavar="REWARD",
            served=True,
            label="reward",
            shown=lambda _: "value · reward − cost",
        ),
    )
    batch: int = field(
        default=65_536, metadata=option("Decisions that are read at once.", check=validation.whole)
    )

    def __post_init__(self) -> None:
        for name in OPTIONS:
            object.__setattr__(self, name, checked(name, getattr(self, name)))
        if self.reward is None:
            return
        if self.outcome is not None:
            raise BadValue(
                "reward", "reward='utility' is made of the reward: leave out outcome, or ask for each"
            )
        if self.reward_range is None and self.interval == "betting":
            raise BadValue(
                "reward_range",
                "reward_range must be given with reward='utility' and interval='betting': the lowest and the "
                "highest value · reward − cost that are possible",
            )


OPTIONS: dict[str, Option] = {
    one.name: one.metadata["option"] for one in dataclasses.fields(Question) if "option" in one.metadata
}
DEFAULTS: dict[str, Any] = {one.name: one.default for one in dataclasses.fields(Question)}
TYPES: dict[str, Any] = typing.get_type_hints(Question)


def checked(name: str, value: Any) -> Any:
    """Check the value of one option; None is what was not given, where that may be."""
    check = OPTIONS[name].check
    return value if check is None or value is DEFAULTS[name] is None else check(name, value)


class Rewards(TypedDict, total=False):
    """Options of `compare`, besides those that it names."""

    missing: str | float
    mature: float | timedelta | None
    outcome: str | None


class Lessons(Rewards, total=False):
    """Options of `learn_from`, `verdict` and `drift`, by which rewards are learned."""

    batch: int


class Models(Rewards, total=False):
    """Options of `choose`."""

    regressor: Any
    smallest_probability: float | None
    reward: str | None


class Course(Models, total=False):
    """Options of `sequence`."""

    since: Since | None


class Everything(Course, total=False):
    """Options of `evaluate` and `difference`."""

    adaptive: bool | None
    batch: int


def asks(**defaults: Any) -> Callable[[Function], Function]:
    """Give a function with `**options: Unpack[…]` the signature that names them, and their meanings.

    `defaults`: of this function, where they are not those of `Question`.
    """

    def signed(function: Function) -> Function:
        own = inspect.signature(function)
        several = typing.get_args(typing.get_type_hints(function)["options"])[0]
        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(name, keyword, default={**DEFAULTS, **defaults}[name], annotation=kind)
            for name, kind in typing.get_type_hints(several).items()
        ]
        named = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        last = [one for one in named if one.name in ("progress", "executor")]
        first = [one for one in named if one not in last]
        vars(function)["__signature__"] = own.replace(parameters=[*first, *added, *last])
        meanings = "\n\n".join(f"    `{name}`: {OPTIONS[name].meaning}" for name in options_of(function))
        function.__doc__ = f"{function.__doc__}\n    Options of `Question`:\n\n{meanings}\n    "
        return function

    return signed


def options_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """List the options that a function takes, in the order of its parameters."""
    parameters = inspect.signature(function).parameters.items()
    return tuple(name for name, one in parameters if name in OPTIONS and one.annotation == TYPES[name])


def ask(function: Callable[..., Any], **given: Any) -> Question:
    """Make the question that a function was called with."""
    known = {name: inspect.signature(function).parameters[name].default for name in options_of(function)}
    for name in given:
        if name not in known:
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}")
    return Question(**{**known, **given})


def json_types(name: str) -> tuple[Any, ...]:
    """List the types that an option may have in JSON."""
    kinds = typing.get_args(TYPES[name]) or (TYPES[name],)
    return tuple(kind for kind in kinds if kind not in (datetime, timedelta))


def in_json(name: str, value: Any) -> Any:
    """Turn the value of an option into what JSON can hold."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return f"{seconds:f}s" if str in json_types(name) else seconds
    return [float(one) for one in value] if isinstance(value, tuple) else value
