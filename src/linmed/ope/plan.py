"""Settle a question on a log, once: what is read, what carries intervals, which decisions are judged.

A sequence may begin anywhere, as long as nobody chose the place by looking at what follows it: reward models
may know the decisions before, everything else begins there.
"""

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from linmed import validation
from linmed.log import DecisionLog
from linmed.log.views import moment
from linmed.ope.estimators import Estimator, as_estimators
from linmed.ope.log_facts import (
    WORTH,
    begins_with,
    ended,
    fixed_shares,
    has_some,
    holds,
    of_catalogue,
    require,
)
from linmed.ope.scan import Reader, Reading, RewardRange, Rounds, possible_rewards
from linmed.ope.sequences import SHARES
from linmed.ope.targets import COUNTED, Target, as_targets
from linmed.question import OPTIONS, VALID, Question
from linmed.validation import BadType, BadValue, Floats

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LENGTHS = {86400.0: "day", 3600.0: "hour", 60.0: "minute", 1.0: "second"}
USUAL = ("ipw", "snipw", "dr")
"""Estimators where none is named; `dr` only where the log and the targets tell of every arm."""

Part = tuple[Rounds, list[Floats]]
"""Decisions, and each target's probability of every arm or of the arm played."""


class Asked(NamedTuple):
    """One estimator of a plan. Unbiased terms are "ipw", or "dr" where a reward model is in them."""

    label: str
    estimator: Estimator
    source: str
    """What its own terms are made from."""
    form: str
    """The terms that carry its interval."""


@dataclass(frozen=True)
class Scan:
    """The part of a plan that needs no order, and travels to workers: reading, and asking the targets."""

    reader: Reader
    targets: tuple[Target, ...]
    all_arms: bool

    def parts(self, log: DecisionLog, reading: Reading) -> Iterator[Part]:
        """Yield the log, or a part of it, in batches."""
        for rounds in self.reader.scan(log, reading):
            wrong = reading.problems
            chances = [
                target.probabilities(rounds, wrong) if self.all_arms else target.played(rounds, wrong)
                for target in self.targets
            ]
            if not wrong:
                yield rounds, chances

    def collect(self, log: DecisionLog) -> tuple[list[Part], Reading]:
        """Collect all of a part of the log, without what was only needed to ask the targets."""
        reading = Reading()
        found = list(self.parts(log, reading))
        if not self.all_arms:
            found = [(dataclasses.replace(rounds, arms=None, extra={}), chances) for rounds, chances in found]
        return found, reading


@dataclass(frozen=True, kw_only=True)
class Plan(Question):
    """Hold a question with how one log answers it: the targets, what is read, what carries intervals."""

    log: InitVar[DecisionLog]
    targets: tuple[Target, ...]
    estimators: tuple[Asked, ...]
    paired: bool = False
    """Whether targets are compared with each other, for which all arms' probabilities are wanted."""
    watchful: bool = False
    """Whether the answer follows the log's order, so that rows which do not are to be named."""
    possible: RewardRange | None = field(init=False)
    guarded: bool = field(init=False)
    """Whether every arm's logged probability is known, or bounded: then sequences may use reward models."""
    logged: bool = field(init=False)
    """Whether the log holds every arm's probability."""
    whole: bool = field(init=False)
    """Whether every target's probability of every arm is known."""
    left_out: str | None = field(init=False)
    """Why dr is not among the estimators, where none were named."""
    scan: Scan = field(init=False)

    @classmethod
    def of(cls, question: Question, log: DecisionLog, targets: Any, estimators: Any, **more: Any) -> "Plan":
        """Settle a question on a log; `more` are further fields, or options that differ from its own."""
        options = {name: getattr(question, name) for name in OPTIONS}
        return cls(log=log, targets=targets, estimators=estimators, **{**options, **more})

    def __post_init__(self, log: DecisionLog) -> None:
        self._set("targets", tuple(target.settled(log) for target in as_targets(self.targets)))
        super().__post_init__()
        self._set("possible", possible_rewards(self.reward_range, needed=self.interval == "betting"))
        utility = self.reward is not None
        if self.reward_range is not None and not isinstance(self.missing, str) and not utility:
            assert self.possible is not None
            low, high, _ = self.possible
            if not low <= self.missing <= high:
                raise BadValue(
                    "missing", f"missing must lie in reward_range [{low:g}, {high:g}], got {self.missing!r}"
                )
        unlisted = of_catalogue(log)
        counted = not set(COUNTED).isdisjoint(log.columns) and not unlisted
        unknown = next((one for one in self.targets if not (counted and one.knows_all_arms(log))), None)
        self._set("whole", unknown is None)
        self._set("logged", holds(log, "probabilities"))
        weighing = self.whole and self.interval == "adaptive"
        shares = None
        if self.whole and self.interval in ("betting", "adaptive") and not self.logged:
            shares = fixed_shares(log)
        if self.smallest_probability is not None and not self.whole:
            raise BadValue(
                "smallest_probability",
                f"smallest_probability is of use only where {log.name} and the targets tell of every arm",
            )
        if self.interval == "adaptive" and not (weighing and (self.logged or shares is not None)):
            raise BadValue(
                "interval",
                f"interval='adaptive' weighs decisions by every arm's probability, and {log.name} (its "
                "column 'probabilities') or a target tells only the played arm's: use 'betting'",
            )
        known = self.smallest_probability is not None or self.logged or shares is not None
        self._set("guarded", self.whole and self.interval == "betting" and known)
        self._set("left_out", None)
        if self.estimators is None and unknown is not None:
            whose = f"target {unknown.name!r}" if counted else log.name
            self._set("left_out", f"dr is left out: {whose} does not tell the probability of every arm")
        played = utility and any(has_some(log, one) and not has_some(log, f"{one}s") for one in WORTH)
        unpriced = f"{log.name} has only the played arm's value and cost (log_arms=True logs all)"
        if self.estimators is None and played and not self.left_out:
            self._set("left_out", f"dr is left out: {unpriced}")
        self._ask(USUAL[: 2 if self.left_out else 3] if self.estimators is None else self.estimators)
        for asked in self.estimators if unlisted else ():
            if asked.source == "dr":
                raise BadValue(
                    "estimators",
                    f"{asked.label} needs the features of every arm of a decision, and {log.name} is a "
                    "catalogue's, which lists no items (the column 'arms' is not in every row): use 'ipw' or "
                    "'snipw'",
                )
        if played and self.modelled:
            text = (
                f"a reward model of reward='utility' needs every arm's, and {unpriced}: use 'ipw' or 'snipw'"
            )
            raise BadValue("estimators", text)
        extra = dict.fromkeys(name for target in self.targets for name in target.extra)
        reader = Reader(
            columns=self._columns(log), extra=tuple(extra), possible=self.possible, missing=self.missing,
            mature=self.mature, smallest_probability=self.smallest_probability, shares=shares,
            utility=utility, watchful=self.watchful or self.modelled, batch=self.batch,
            every_arm=self.all_arms,
        ).settled(log)  # fmt: skip
        self._set("scan", Scan(reader, self.targets, self.all_arms))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _ask(self, estimators: Any) -> None:
        """Every estimator with what it is made from and what carries its interval."""
        carried = "dr" if self.interval == "adaptive" or self.guarded else "ipw"
        asked = [
            Asked(label, one, "dr", carried) if one.model else Asked(label, one, "ipw", "ipw")
            for label, one in as_estimators(estimators).items()
        ]
        self._set("estimators", tuple(asked))

    @property
    def modelled(self) -> bool:
        """Whether a reward model is asked."""
        return any(asked.source == "dr" for asked in self.estimators)

    @property
    def all_arms(self) -> bool:
        """Whether every arm's probability is needed, not only the played one's."""
        several = self.guarded or self.overlap or self.interval == "adaptive"
        return self.modelled or several or (self.paired and self.whole)

    @property
    def overlap(self) -> bool:
        """Whether a limit theorem is to be told what of a target's mass could not be logged."""
        return self.whole and self.logged and self.interval in ("normal", "asymptotic")

    @property
    def ordered(self) -> bool:
        """Whether decisions must be absorbed in the log's order: models and running means know the past."""
        return self.modelled or self.interval == "adaptive"

    @property
    def valid(self) -> str:
        """When its intervals hold, in words."""
        return VALID[self.interval]

    def stakes(self, form: str) -> tuple[float, ...]:
        """Shares of a betting sequence's stake: on constant reward models, then on the one that learns."""
        if not self.guarded:
            return (1.0,)
        return (*(0.5 * share for share in SHARES), 0.5) if form == "dr" else SHARES

    def _columns(self, log: DecisionLog) -> tuple[str, ...]:
        everything = self.all_arms
        columns: dict[str, None] = {}
        for target in self.targets:
            columns.update(dict.fromkeys(target.reads(log, everything)))
        if everything and "arm_count" in log.columns:
            columns["arm_count"] = None
        if self.modelled and begins_with(log, "arms"):
            columns["arms"] = None
        if self.modelled and self.reward is not None:
            columns.update((f"{one}s", None) for one in WORTH if f"{one}s" in log.columns)
        # Every arm's logged probability lets sequences use models, and stabilised weights are made of it.
        if self.logged and (self.guarded or self.overlap or self.interval == "adaptive"):
            columns["probabilities"] = None
        if self.modelled and set(COUNTED).isdisjoint(columns):
            message = f"a reward model needs the number of arms: {log.name} has no column arm_count"
            raise BadValue("estimators", message)
        if self.adaptive is None and VALID[self.interval] in ("independent", "asymptotic"):
            columns.update(dict.fromkeys(name for name in ("policy", "version") if name in log.columns))
        return tuple(columns)


class Recent(NamedTuple):
    """A log in two parts."""

    judged: DecisionLog
    earlier: DecisionLog | None
    """What reward models may know besides."""


def recent(log: DecisionLog, question: Question) -> Recent:
    """Divide a log into the decisions that a question is about and those before."""
    since = question.since
    if since is None:
        return Recent(log, None)
    asked = as_since(since)
    if isinstance(asked, int):
        start = asked if asked >= 0 else max(asked + len(log), 0)
        parts = Recent(log[start:], log[:start])
    else:
        require(log, ["time"], "since", "since")
        if isinstance(asked, timedelta):
            asked = EPOCH + timedelta(microseconds=ended(log, "since")) - asked
        parts = Recent(log.after(asked), log.before(asked))
    if next(parts.judged.batches(["arm"], 1), None) is None:
        raise BadValue("since", f"since must leave decisions to judge: {log.name} has none since {since!r}")
    return parts


def as_since(since: Any) -> int | datetime | timedelta:
    """What was said: a number, text such as "30d", "1000" or "2026-05-01", a time or a length of time."""
    if isinstance(since, str):
        if re.fullmatch(r"\s*[+-]?\d+\s*", since):
            return int(since)
        if re.fullmatch(r"\s*[\d.]+\s*[smhd]\s*", since):
            return timedelta(seconds=validation.seconds("since", since))
        return EPOCH + timedelta(microseconds=moment("since", since.strip()))
    if isinstance(since, datetime):
        return EPOCH + timedelta(microseconds=moment("since", since))
    if isinstance(since, timedelta):
        if since <= timedelta(0):
            raise BadValue("since", f"since must be a length of time above 0, got {since!r}")
        return since
    if isinstance(since, bool) or not isinstance(since, int):
        raise BadType(
            "since",
            "since must be a decision's number, a time, or how long before the log's end, such as 1000, "
            f"'2026-05-01' or '30d', got {since!r}",
        )
    return since


def in_words(question: Question) -> str:
    """Say what an estimate is about: "average so far", "average of the last 30 days", …"""
    if question.since is None:
        return "average so far"
    asked = as_since(question.since)
    if isinstance(asked, timedelta):
        return f"average of the last {length(asked.total_seconds())}"
    if isinstance(asked, datetime):
        return f"average since {asked.isoformat(' ', 'auto' if asked.microsecond else 'seconds')}"
    if asked < 0:
        return f"average of the last {-asked:,} decisions"
    return f"average since decision {asked:,}"


def length(seconds: float) -> str:
    """Write a length of time in the largest unit that it has whole: "30 days"; "1 day" is "day"."""
    for unit, name in LENGTHS.items():
        count = seconds / unit
        if count >= 1.0 and count == round(count):
            return name if count == 1.0 else f"{count:,.0f} {name}s"
    return f"{seconds:g} seconds"
