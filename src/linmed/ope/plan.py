"""Settle a question on a log, once: what is read, what carries intervals, which decisions are judged.

A sequence may begin anywhere, as long as nobody chose the place by looking at what follows it: reward models
may know the decisions before, everything else begins there. By age a decision counts half as much after every
half-life. Its weight ω is known before its reward is, if the log's end was not chosen by looking; `sequences`
has what is then proved of Σ ω ν / Σ ω.
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
from linmed.ope.catalogue_logs import Listing
from linmed.ope.estimators import Estimator, MarginalIPW, as_estimators
from linmed.ope.log_facts import begins_with, ended, fixed_shares, holds, of_catalogue, require
from linmed.ope.scan import Fading, Reader, Reading, RewardRange, Rounds, possible_rewards
from linmed.ope.sequences import KINDS, SHARES
from linmed.ope.targets import Target, as_targets
from linmed.question import OPTIONS, VALID, Question, half_life_of
from linmed.validation import BadType, BadValue, Floats

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LENGTHS = {86400.0: "day", 3600.0: "hour", 60.0: "minute", 1.0: "second"}
USUAL = ("ipw", "snipw", "dr")
"""Estimators where none is named; `dr` only where the log and the targets tell of every arm."""
FADING = ("betting", "mixture", "none")
"""Intervals that decisions may count in by their age."""
ARM_COUNTED = frozenset({"arm_count", "probabilities", "arms"})
"""Columns of a log that tell the number of arms."""

Part = tuple[Rounds, list[Floats]]
"""Decisions, and each target's probability of every arm or of the arm played."""


class Form(NamedTuple):
    """Unbiased terms: "ipw"; "dr" by the model of that number; "mips" by that estimator's embedding."""

    kind: str
    number: int = 0


PLAIN = Form("ipw")


class Asked(NamedTuple):
    """One estimator of a plan."""

    label: str
    estimator: Estimator
    source: Form
    """What its own terms are made from."""
    form: Form
    """The terms that carry its interval."""


@dataclass(frozen=True)
class Scan:
    """The part of a plan that needs no order, and travels to workers: reading, and asking the targets."""

    reader: Reader
    targets: tuple[Target, ...]
    all_arms: bool
    kept: tuple[str, ...] = ()
    """Columns that are still needed where the parts are collected."""

    def parts(self, log: DecisionLog, reading: Reading) -> Iterator[Part]:
        """Yield the log, or a part of it, in batches."""
        for rounds in self.reader.scan(log, reading):
            wrong = reading.problems
            chances = [
                target.probabilities(rounds, wrong)
                if self.all_arms and not target.by_id
                else target.played(rounds, wrong)
                for target in self.targets
            ]
            if not wrong:
                yield rounds, chances

    def collect(self, log: DecisionLog) -> tuple[list[Part], Reading]:
        """Collect all of a part of the log, without what was only needed to ask the targets."""
        reading = Reading()
        found = list(self.parts(log, reading))
        if not self.all_arms:
            found = [(self._bare(rounds), chances) for rounds, chances in found]
        return found, reading

    def _bare(self, rounds: Rounds) -> Rounds:
        return dataclasses.replace(rounds, arms=None, extra={name: rounds.extra[name] for name in self.kept})


@dataclass(frozen=True, kw_only=True)
class Plan(Question):
    """Hold a question with how one log answers it: the targets, what is read, what carries intervals."""

    log: InitVar[DecisionLog]
    targets: tuple[Target, ...]
    estimators: tuple[Asked, ...]
    judged: InitVar[DecisionLog | None] = None
    """The part of the log that is judged, where decisions count by their age; None for all of it."""
    paired: bool = False
    """Whether targets are compared with each other, for which all arms' probabilities are wanted."""
    watchful: bool = False
    """Whether the answer follows the log's order, so that rows which do not are to be named."""
    listing: Listing | None = field(init=False)
    """Which items reward models see, where the log lists none."""
    possible: RewardRange | None = field(init=False)
    guarded: bool = field(init=False)
    """Whether every arm's logged probability is known, or bounded: then sequences may use reward models."""
    logged: bool = field(init=False)
    """Whether the log holds every arm's probability."""
    whole: bool = field(init=False)
    """Whether every target's probability of every arm is known."""
    models: tuple[Any, ...] = field(init=False)
    """The regressors of the estimators, each once."""
    left_out: str | None = field(init=False)
    """Why dr is not among the estimators, where none were named."""
    scan: Scan = field(init=False)

    @classmethod
    def of(cls, question: Question, log: DecisionLog, targets: Any, estimators: Any, **more: Any) -> "Plan":
        """Settle a question on a log; `more` are further fields, or options that differ from its own."""
        options = {name: getattr(question, name) for name in OPTIONS}
        return cls(log=log, targets=targets, estimators=estimators, **{**options, **more})

    def __post_init__(self, log: DecisionLog, judged: DecisionLog | None) -> None:
        self._set("targets", tuple(target.settled(log) for target in as_targets(self.targets)))
        super().__post_init__()
        self._set("possible", possible_rewards(self.reward_range, needed=self.interval in KINDS))
        if self.drift is None:
            self._set("drift", self.interval != "bernstein")
        if self.half_life is not None:
            self._refuse_what_cannot_fade()
        if self.reward_range is not None and not isinstance(self.missing, str):
            assert self.possible is not None
            low, high, _ = self.possible
            if not low <= self.missing <= high:
                raise BadValue(
                    "missing", f"missing must lie in reward_range [{low:g}, {high:g}], got {self.missing!r}"
                )
        unlisted = of_catalogue(log)
        self._set("listing", None)
        if self.catalogue is not None:
            if not unlisted:
                raise BadValue(
                    "catalogue", f"catalogue is for logs that list no items: {log.name} is none of those"
                )
            self._set("listing", Listing.of(self.catalogue, self.targets, self.seed, log))
            self._set("catalogue", None)  # which need not travel to workers
        counted = not ARM_COUNTED.isdisjoint(log.columns) and not unlisted
        unknown = [one for one in self.targets if not (counted and one.knows_all_arms(log))]
        self._set("whole", not unknown)
        other = next((one for one in unknown if unlisted or not one.by_id), None)
        betting = self.whole and self.interval == "betting"
        self._set("logged", holds(log, "probabilities"))
        weighing = self.whole and self.interval == "adaptive"
        shares = fixed_shares(log) if (betting or weighing) and not self.logged else None
        known = self.smallest_probability is not None or self.logged or shares is not None
        if self.smallest_probability is not None and not self.whole:
            raise BadValue(
                "smallest_probability",
                f"smallest_probability is of use only where {log.name} and the targets tell of every arm",
            )
        if self.interval == "adaptive" and not (self.whole and (self.logged or shares is not None)):
            raise BadValue(
                "interval",
                f"interval='adaptive' weighs decisions by every arm's probability, and {log.name} (its "
                "column 'probabilities') or a target tells only the played arm's: use 'betting'",
            )
        self._set("guarded", betting and known)
        if self.listing is not None:
            other = next((one for one in self.targets if not Listing.knows(one)), None)
        self._set("left_out", None)
        if self.estimators is None and other is not None:
            whose = f"target {other.name!r}" if counted or self.listing else log.name
            self._set("left_out", f"dr is left out: {whose} does not tell the probability of every arm")
        self._ask(USUAL[: 2 if self.left_out else 3] if self.estimators is None else self.estimators)
        if unlisted:
            self._refuse_what_needs_every_item(log)
        elif any(asked.source.kind == "mips" for asked in self.estimators) and not self.whole:
            raise BadValue(
                "targets", f"mips needs the probability of every arm, which target {unknown[0].name!r} does "
                f"not tell in {log.name}: use 'ipw', 'snipw' or 'dr'",
            )  # fmt: skip
        if not self.models:
            self._set("listing", None)
        kept = self.listing.columns if self.listing is not None else ("arm_id",) if self.recast else ()
        extra = dict.fromkeys([*(name for target in self.targets for name in target.extra), *kept])
        reader = Reader(
            columns=self._columns(log), extra=tuple(extra), possible=self.possible, missing=self.missing,
            mature=self.mature, smallest_probability=self.smallest_probability, shares=shares,
            watchful=self.watchful or bool(self.models), batch=self.batch, every_arm=self.all_arms,
        ).settled(log)  # fmt: skip
        if self.half_life is not None:
            reader = dataclasses.replace(reader, fading=self._fading(log, judged or log, reader.horizon))
        self._set("scan", Scan(reader, self.targets, self.all_arms, kept))

    def _refuse_what_needs_every_item(self, log: DecisionLog) -> None:
        for asked in self.estimators:
            if asked.source != PLAIN and (self.listing is None or asked.source.kind == "mips"):
                given = "" if asked.source.kind == "mips" else ", or give the catalogue"
                raise BadValue(
                    "estimators",
                    f"{asked.label} needs the features of every arm of a decision, and {log.name} is a "
                    "catalogue's, which lists no items (the column 'arms' is not in every row): use 'ipw' or "
                    f"'snipw'{given}",
                )
        if self.models and (other := next((one for one in self.targets if not Listing.knows(one)), None)):
            raise BadValue(
                "targets",
                f"target {other.name!r} is not known over all items, as a reward model needs it: 'uniform' "
                "and a few items by id are; for others use 'ipw' or 'snipw'",
            )

    def _refuse_what_cannot_fade(self) -> None:
        if self.interval not in FADING:
            raise BadValue(
                "half_life",
                f"half_life needs interval={', '.join(map(repr, FADING))}: no other is proved for decisions "
                f"that count by their age, got {self.interval!r}",
            )
        if not self.drift:
            raise BadValue(
                "drift",
                "drift=False promises that there is one value, and half_life weighs decisions by their age "
                "because there is not: leave one of them out",
            )

    def _fading(self, log: DecisionLog, judged: DecisionLog, horizon: int | None) -> Fading:
        """Ages are counted from the end of what can be judged, which does not depend on any reward."""
        length, clock = half_life_of(self.half_life)
        if not clock:
            return Fading(length, len(judged) - 1, False)
        require(log, ["time"], "half_life", "half_life")
        return Fading(length * 1e6, ended(log, "half_life") if horizon is None else horizon, True)

    @property
    def counted(self) -> bool:
        """Whether ages are counted in decisions: then the log is read here, in its order."""
        return self.half_life is not None and not half_life_of(self.half_life)[1]

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _ask(self, estimators: Any) -> None:
        """Every estimator with what it is made from and what carries its interval."""
        models: list[Any] = []
        asked: list[Asked] = []
        robust = self.interval == "adaptive" or self.guarded
        for label, estimator in as_estimators(estimators).items():
            source = PLAIN
            if estimator.model:
                own = getattr(estimator, "regressor", None)
                model = self.regressor if own is None else own
                if not any(known is model for known in models):
                    models.append(model)
                source = Form("dr", next(i for i, known in enumerate(models) if known is model))
            elif isinstance(estimator, MarginalIPW):
                source = Form("mips", len(asked))
            carried = source.kind == "mips" or (source.kind == "dr" and robust)
            asked.append(Asked(label, estimator, source, source if carried else PLAIN))
        self._set("models", tuple(models))
        self._set("estimators", tuple(asked))

    @property
    def all_arms(self) -> bool:
        """Whether every arm's probability is needed, not only the played one's."""
        listed = self.listing is not None or all(target.by_id for target in self.targets)
        modelled = any(asked.source != PLAIN for asked in self.estimators) and not listed
        return modelled or self.guarded or self.overlap or self.stabilised or (self.paired and self.whole)

    @property
    def recast(self) -> tuple[int, ...]:
        """Targets whose items a reward model knows by their ids, by number."""
        modelled = self.models and self.listing is None
        return tuple(i for i, target in enumerate(self.targets) if modelled and target.by_id)

    @property
    def overlap(self) -> bool:
        """Whether a limit theorem is to be told what of a target's mass could not be logged."""
        return self.whole and self.logged and self.interval in ("normal", "asymptotic", "bootstrap")

    @property
    def stabilised(self) -> bool:
        """Whether decisions are weighed by Σ_a π(a)²/p(a), which needs every arm's probabilities."""
        return self.interval == "adaptive"

    @property
    def ordered(self) -> bool:
        """Whether decisions must be absorbed in the log's order: models and running means know the past."""
        any_order = self.interval in ("normal", "asymptotic", "none") or (
            self.interval == "betting" and self.drift
        )
        return bool(self.models) or not any_order or self.counted

    @property
    def valid(self) -> str:
        """When its intervals hold, in words."""
        if self.half_life is not None and self.interval in KINDS:
            return "one look"
        one_value = self.interval in KINDS and not self.drift
        return VALID[self.interval] + (", one value" if one_value else "")

    def stakes(self, form: Form) -> tuple[float, ...]:
        """Shares of a betting sequence's stake: on constant reward models, then on the one that learns."""
        if not self.guarded or form.kind == "mips":
            return (1.0,)
        return (*(0.5 * share for share in SHARES), 0.5) if form.kind == "dr" else SHARES

    def _columns(self, log: DecisionLog) -> tuple[str, ...]:
        everything = self.all_arms
        columns: dict[str, None] = {}
        for target in self.targets:
            columns.update(dict.fromkeys(target.reads(log, everything)))
        if everything and "arm_count" in log.columns:
            columns["arm_count"] = None
        if self.models and everything and begins_with(log, "arms"):
            columns["arms"] = None
        kinds = {asked.form.kind for asked in self.estimators}
        if "mips" in kinds:
            require(log, ["probabilities", "arms"], "mips", "estimators")
            columns["arms"] = None
        # Every arm's logged probability lets sequences use models, and stabilised weights are made of it.
        if "mips" in kinds or (
            everything and self.logged and (self.guarded or self.overlap or self.stabilised)
        ):
            columns["probabilities"] = None
        plain = self.models and self.listing is None and len(self.recast) < len(self.targets)
        if plain and ARM_COUNTED.isdisjoint(columns):
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
    since = question.since
    if question.half_life is not None:
        number, clock = half_life_of(question.half_life)
        age = length(number) if clock else f"{number:,g} decisions"
        average = "recent average" if since is None else in_words(Question(since=since))
        return f"{average}, a decision counting half after every {age}"
    if since is None:
        return "average so far"
    asked = as_since(since)
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
