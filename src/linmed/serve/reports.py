"""Report what the log says: statistics, and the value of policies that were not followed."""

import contextlib
import json
import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from linmed.log import Malformed
from linmed.policies import Policy
from linmed.question import OPTIONS, Question
from linmed.serve import store
from linmed.serve.bandit import Bandit, as_policy
from linmed.serve.database import CAME, Database, bandits, decisions, now, policies, rewards
from linmed.serve.errors import INPUT, Refused, field_of, place
from linmed.serve.live_log import LiveSource, export
from linmed.validation import BadValue

RECENT = 2000
"""Decisions behind the shares and the exploration rate."""
POINTS = 60
"""Points of a curve that are shown."""


class Reports:
    """Make the reports that take long; remember what targets have learned."""

    def __init__(self, database: Database):
        self.database = database
        self._trained: dict[tuple[int, str, int], Bandit] = {}

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a reading transaction that may take any time between two batches of the log."""
        with self.database.reader.begin() as connection:
            if not self.database.sqlite:  # where idle transactions are ended, for the sake of locks
                connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield connection

    def evaluate(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        """Run `linmed.ope.evaluate` on the live log."""
        with self.reading() as connection:
            row = store.the_bandit(connection, name)
            try:
                return self._evaluate(connection, row, **request)
            except INPUT as error:
                field = field_of(error)
                wrong = field if field is not None and field.partition("[")[0] in request else None
                raise Refused("invalid", str(error), wrong) from None

    def trend(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        """Report what the page shows of a log's past."""
        with self.reading() as connection:
            return trend(connection, store.the_bandit(connection, name), **request)

    def export(self, name: str, path: str) -> int:
        """Write the whole log to one Parquet file; return the number of its decisions."""
        with self.reading() as connection:
            bandit = store.as_bandit(connection, store.the_bandit(connection, name))
            return export(LiveSource(connection, bandit), Path(path))

    def _evaluate(
        self,
        connection: Connection,
        row: Row[Any],
        targets: list[Any],
        **asked: Any,
    ) -> dict[str, Any]:
        """Evaluate targets; `asked` is what `linmed.ope.evaluate` takes besides, with the same defaults."""
        from linmed.ope import DecisionLog, OPEWarning, evaluate  # heavy, and not needed to decide
        from linmed.ope.plan import as_since, in_words

        question = Question(**{name: value for name, value in asked.items() if name in OPTIONS})
        bandit = store.as_bandit(connection, row)
        named: dict[str, Any] = {}
        trained: list[tuple[str, Policy]] = []
        for i, target in enumerate(targets):
            name = target if isinstance(target, str) else target["name"]
            if name in named:
                where = place("targets", i)
                raise BadValue(where, f"{where}: targets need distinct names, {name!r} occurs twice")
            named[name] = target  # what is trained takes its place
            if target == "greedy":
                trained.append((name, bandit.policy.greedy()))
            elif not isinstance(target, str):
                trained.append((name, as_policy(target["policy"], place("targets", i, "policy"))))
        title, first, after, count = f"the log of {bandit.name}", 0, 0, 0
        if trained:
            first, after = _training_part(connection, bandit.id)
            title += f" after its first {first} decisions"
            for name, policy in trained:
                learned = self._train(connection, row, policy, after)
                named[name], count = (learned.policy, learned.state), learned.count
            if count == 0:
                text = "a policy learns from the rewards of the first half of the decisions; none has come"
                raise BadValue("targets", f"targets: {text}")
        log = DecisionLog(LiveSource(connection, bandit, after), title)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", OPEWarning)
            begins = None if question.since is None else as_since(question.since)
            if isinstance(begins, int) and begins >= 0:  # the log that is judged may begin later than the log
                begins = max(begins - first, 0)
            possible = question.reward_range or bandit.reward_range
            table = evaluate(log, named, **{**asked, "since": begins, "reward_range": possible})
        return {
            "results": table.to_pylist(),
            "trained_on": count,
            **{key: _metadata(table, key) for key in ("decisions", "waiting", "judged")},
            "value": in_words(question),
            "warnings": [str(one.message) for one in caught if issubclass(one.category, OPEWarning)],
        }

    def _train(self, connection: Connection, row: Row[Any], policy: Policy, until: int) -> Bandit:
        """Teach `policy` the rewards of decisions up to `until`; the last ones asked for are remembered."""
        key = (row.id, json.dumps(policy.to_dict(), sort_keys=True), until)
        if key not in self._trained:
            fresh = store.as_bandit(connection, row)
            fresh.begin(policy)
            if fresh.keeps:
                name = type(policy).__name__
                raise BadValue("targets", f"targets: {name} cannot learn from another policy's decisions")
            while len(self._trained) >= 16:
                del self._trained[next(iter(self._trained))]
            self._trained[key] = fresh
        store.fold_log(connection, self._trained[key], until)  # late rewards, where it was remembered
        return self._trained[key]


def _training_part(connection: Connection, bandit: int) -> tuple[int, int]:
    """Find the largest power of two that is at most half of the decisions, and the number of that decision.

    Targets learn from the rewards of these decisions and are judged on the decisions since. What divides
    them is the order in which they were taken, never when their rewards came: quick rewards may differ from
    late ones. Powers of two change seldom, so that what was learned can be remembered.
    """
    total = connection.execute(sa.select(sa.func.count()).where(decisions.c.bandit == bandit)).scalar_one()
    if total < 2:
        return 0, 0
    count = 1 << ((total // 2).bit_length() - 1)
    query = sa.select(decisions.c.number).where(decisions.c.bandit == bandit).order_by(decisions.c.number)
    return count, connection.execute(query.offset(count - 1).limit(1)).scalar_one()


def _metadata(table: pa.Table, key: str) -> int:
    return int((table.schema.metadata or {}).get(key.encode(), b"0"))


def statistics(connection: Connection, name: str) -> dict[str, Any]:
    """Give counts, means, and the recent past in curves."""
    row = store.the_bandit(connection, name)
    total = connection.execute(sa.select(sa.func.count()).where(decisions.c.bandit == row.id)).scalar_one()
    settings = json.loads(row.settings)
    sums = sa.select(rewards.c.kind, sa.func.count(), sa.func.sum(rewards.c.reward))
    found = connection.execute(sums.where(rewards.c.bandit == row.id).group_by(rewards.c.kind)).all()
    counts, total_of = {kind: n for kind, n, _ in found}, {kind: float(sum_) for kind, _, sum_ in found}
    known = sum(counts.get(kind, 0) for kind in ("reward", "held", "missing"))
    earned = sum(total_of.get(kind, 0.0) for kind in ("reward", "held", "missing"))
    if settings.get("late") == "correct":  # which took the place of what was assumed
        earned += total_of.get("late", 0.0) - counts.get("late", 0) * settings["missing"]
    recent = connection.execute(
        sa.select(*decisions.c["arm", "arm_id", "best", "time"])
        .where(decisions.c.bandit == row.id)
        .order_by(decisions.c.number.desc())
        .limit(RECENT)
    ).all()
    versions = connection.execute(
        sa.select(*policies.c["version", "name", "created"])
        .where(policies.c.bandit == row.id)
        .order_by(policies.c.version)
    ).all()
    return {
        "name": row.name,
        "policy": row.policy_name,
        "policy_version": row.version,
        "policy_versions": [one._asdict() for one in versions],
        "archived": row.archived,
        "decisions": total,
        "rewards": sum(counts.get(kind, 0) for kind in CAME),
        "pending": total - known,
        "mean_reward": earned / known if known else None,
        "deadlines": None if settings.get("wait") is None else _deadlines(counts),
        "control": _control(connection, row.id, settings) if settings.get("control") else None,
        "shadow": list(settings.get("shadow") or ()),
        "recent": len(recent),
        "exploration_rate": _share(recent),
        "arm_shares": _arm_shares(recent),
        "over_time": _over_time(connection, row.id, recent),
    }


def _deadlines(counts: dict[str, int]) -> dict[str, int]:
    """Count what became of deadlines."""
    held, due = counts.get("held", 0), counts.get("due", 0)
    return {"held": held - due, "missing": counts.get("missing", 0), "late": counts.get("late", 0)}


def _control(connection: Connection, bandit: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Compare the recent decisions of the control group with the policy's."""
    newest = (
        sa.select(decisions.c.number).where(decisions.c.bandit == bandit).order_by(decisions.c.number.desc())
    )
    since = newest.offset(RECENT - 1).limit(1).scalar_subquery()
    reward = store.REWARDED[0] if settings["late"] == "correct" else store.counted
    query = (
        sa.select(decisions.c.control, sa.func.count(), sa.func.count(reward), sa.func.avg(reward))
        .select_from(store.with_rewards(decisions))
        .where((decisions.c.bandit == bandit) & (decisions.c.number >= sa.func.coalesce(since, 0)))
        .group_by(decisions.c.control)
    )
    sides = {
        side: {"decisions": n, "rewards": m, "mean_reward": None if mean is None else float(mean)}
        for side, n, m, mean in connection.execute(query)
    }
    none = {"decisions": 0, "rewards": 0, "mean_reward": None}
    return {"share": settings["control"], "control": sides.get(True, none), "policy": sides.get(False, none)}


def _share(recent: store.Rows) -> float | None:
    """Count how often the arm played was not the one with the largest estimate, where that is known."""
    known = [row for row in recent if row.best >= 0]
    return sum(row.arm != row.best for row in known) / len(known) if known else None


def _arm_shares(recent: store.Rows) -> list[dict[str, Any]]:
    counts: dict[str, int] = {}
    for row in recent:
        name = str(row.arm) if row.arm_id is None else row.arm_id
        counts[name] = counts.get(name, 0) + 1
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:20]
    return [{"arm": name, "share": count / len(recent)} for name, count in ranked]


def _over_time(connection: Connection, bandit: int, recent: store.Rows) -> list[dict[str, Any]]:
    """Give decisions, rewards, mean reward and exploration in equal spans over the recent decisions."""
    if not recent:
        return []
    taken = np.maximum.accumulate([row.time for row in reversed(recent)])[::-1]  # two servers' clocks differ
    first = int(taken[-1])
    arrived = connection.execute(
        sa.select(rewards.c.time, rewards.c.reward)
        .where((rewards.c.bandit == bandit) & (rewards.c.time >= first) & (rewards.c.kind != "due"))
        .order_by(rewards.c.seq.desc())
        .limit(2 * RECENT)
    ).all()

    def per_span(times: Any, weights: list[float] | None = None) -> Any:
        return np.histogram(times, edges, weights=weights)[0]

    came = [row.time for row in arrived]
    edges = np.linspace(first, max(now(), int(taken[0]), *came) + 1, POINTS + 1)
    known = np.array([row.best >= 0 for row in recent])
    judged = per_span(taken[known])
    explored = per_span(taken[known], [float(row.arm != row.best) for row in recent if row.best >= 0])
    counts = per_span(taken)
    numbers, sums = per_span(came), per_span(came, [row.reward for row in arrived])
    return [
        {
            "time": int(edges[i]),
            "decisions": int(counts[i]),
            "rewards": int(numbers[i]),
            "mean_reward": float(sums[i] / numbers[i]) if numbers[i] else None,
            "exploration_rate": float(explored[i] / judged[i]) if judged[i] else None,
        }
        for i in range(POINTS)
    ]


def overview(connection: Connection) -> list[dict[str, Any]]:
    """List every bandit in a line."""
    rows = connection.execute(
        sa.select(*bandits.c["name", "dim", "version", "archived", "created"])
        .add_columns(policies.c.name.label("policy"))
        .join(policies, (policies.c.bandit == bandits.c.id) & (policies.c.version == bandits.c.version))
        .order_by(bandits.c.name)
    ).all()
    return [row._asdict() for row in rows]


# Which policy is better, and whether the log can be trusted, as it grew with the log

CONFIDENCE = 0.95
FIRST, GROWTH = 16, 16
"""The log is cut after so many decisions, and then whenever it has grown by so small a part of itself."""
ROWS = 8192
PAIRS = (("logged", "uniform"), ("greedy", "logged"), ("greedy", "uniform"))


def cuts() -> Iterator[int]:
    """Give numbers of decisions: 16, 32, …, 256, then each larger by a sixteenth."""
    stop = 0
    while True:
        stop += max(FIRST, stop // GROWTH)
        yield stop


class CutSource(LiveSource):
    """Read a bandit's log in batches that end at the cuts."""

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Read the same rows as ever."""
        done, ends = 0, cuts()
        stop = next(ends)
        for batch in super().read(columns, min(rows, ROWS), malformed):
            while batch.num_rows:
                part = batch.slice(0, stop - done)
                yield part
                batch = batch.slice(part.num_rows)
                done += part.num_rows
                stop = next(ends) if done == stop else stop


def trend(
    connection: Connection, row: Row[Any], missing: str | float = "stop", mature: float | None = None
) -> dict[str, Any]:
    """Report everything the page shows of a log's past."""
    found = weights(connection, row.id)
    return {**_values(connection, row, missing, mature, found["refuted"]), "weights": found}


def _values(
    connection: Connection, row: Row[Any], missing: str | float, mature: float | None, refuted: bool
) -> dict[str, Any]:
    """Estimate what was earned, and what uniform and greedy play would have, with confidence sequences.

    Where the probabilities are `refuted`, no sequence holds.
    """
    from linmed.ope import DecisionLog  # heavy, and not needed to decide

    bandit = store.as_bandit(connection, row)
    source = CutSource(connection, bandit)
    log = DecisionLog(source, f"the log of {bandit.name}")
    targets: dict[str, Any] = {"logged": "logged", "uniform": "uniform"}
    notes = []
    if "arms" in source.columns:
        greedy = bandit.policy.greedy()
        targets["greedy"] = greedy, greedy.start(1, bandit.dim)
    elif bandit.policy.capabilities.by_route:
        notes.append("greedy play cannot be judged: decisions by route are logged without all items")
    else:
        notes.append("greedy play cannot be judged: the log has not every arm's features (log_arms)")
    if bandit.reward_range is None:
        notes.append("confidence sequences need a reward_range, which this bandit has not")
    empty = {"decisions": 0, "waiting": 0, "judged": 0, "values": [], "differences": [], "warnings": []}
    try:
        judged = _judged(log, targets, bandit.reward_range, missing, mature, refuted)
        return {**judged, "notes": notes, "reason": None}
    except INPUT as error:
        if (field := field_of(error)) in ("missing", "mature"):  # the request's mistake, not the log's state
            raise Refused("invalid", str(error), field) from None
        return {**empty, "notes": notes, "reason": str(error)}


def _judged(
    log: Any,
    targets: dict[str, Any],
    reward_range: tuple[float, float] | None,
    missing: str | float,
    mature: float | None,
    refuted: bool,
) -> dict[str, Any]:
    """Judge in one pass: greedy on each part of the log as it was before it, from which it then learns."""
    from linmed.ope.evaluate import answers, one_estimator
    from linmed.ope.plan import Recent
    from linmed.ope.scan import Reading
    from linmed.ope.targets import Frozen
    from linmed.ope.warnings import of_log, of_result

    asked = Question(
        interval="betting" if reward_range else "none", confidence=CONFIDENCE, reward_range=reward_range,
        missing=missing, mature=mature,
    )  # fmt: skip
    plan = one_estimator(asked, log, targets, "ipw", paired=True)
    course, reading = Course(plan), Reading()
    learner = plan.targets[-1]
    with np.errstate(all="ignore"):  # weights beyond any float give estimates that are none, and a warning
        for found in answers(plan, Recent(log, None), reading):
            course.add(found)
            if isinstance(learner, Frozen):
                rounds = found[0].rounds
                assert rounds.arms is not None
                own = np.zeros(len(rounds), dtype=np.int64)
                learner.policy.learn(learner.state, rounds.arms[rounds.chosen], rounds.reward, own)
    reading.finish(log, plan.possible)
    shown = course.shown(refuted or reading.played.overplayed is not None)
    tallies = zip(plan.targets, course.tallies.values(), strict=True)
    doubts = [doubt for target, tally in tallies for doubt in of_result(plan, target, tally, log)]
    return {
        "decisions": reading.decisions,
        "waiting": reading.waiting,
        "judged": reading.rewarded,
        "warnings": [*of_log(reading, log), *doubts],
        **shown,
    }


class Course:
    """Keep what one pass leaves of the targets: a tally and a curve of each, and their differences."""

    def __init__(self, plan: Any):
        from linmed.ope.accumulators import Contrast, Tally

        names = [target.name for target in plan.targets]
        pairs = [pair for pair in PAIRS if set(pair) <= set(names)]
        level = (1.0 - CONFIDENCE) / len(pairs)  # several are looked at, and all are to hold at once
        self.tallies = {name: Tally(plan) for name in names}
        self.contrasts = {pair: Contrast(plan, 1.0 - level) for pair in pairs}
        self.curves: dict[str, list[dict[str, Any]]] = {name: [] for name in names}

    def add(self, answers: list[Any]) -> None:
        """Absorb one part of the log, and note what is known after it."""
        answer = dict(zip(self.tallies, answers, strict=True))
        for name, tally in self.tallies.items():
            tally.add(answer[name])
            (row,) = tally.rows(name)
            self.curves[name].append(point(row))
        for (one, other), contrast in self.contrasts.items():
            contrast.add(answer[one], answer[other])

    def shown(self, refuted: bool) -> dict[str, Any]:
        """Show values and differences, without bounds where the probabilities are wrong."""
        refuted = refuted or any(tally.refuted for tally in self.tallies.values())
        for tally in self.tallies.values():
            tally.distrusted = refuted
        if refuted:
            none = {"lower": None, "upper": None}
            self.curves = {name: [one | none for one in curve] for name, curve in self.curves.items()}
        return {
            "values": [
                {"target": name, **curve[-1], "curve": thinned(curve)}
                for name, curve in self.curves.items()
                if curve
            ],
            "differences": [
                {
                    "target": one,
                    "baseline": other,
                    **point(contrast.row("", refuted)),
                }
                for (one, other), contrast in self.contrasts.items()
            ],
        }


def point(row: tuple[Any, ...]) -> dict[str, Any]:
    """Read a row of an evaluation."""
    _, _, estimate, lower, upper, n, _, _ = row
    return {"n": n, "estimate": number(estimate), "lower": number(lower), "upper": number(upper)}


def weights(connection: Connection, bandit: int) -> dict[str, Any]:
    """Follow the mean of (1/K)/p, which is 1 if the probabilities are true, and the evidence against them.

    It needs no rewards, so every decision counts. A lower bound above 1 refutes the probabilities, and so
    does an arm that is played too often (`Played`); by chance each does so in one log of a thousand, ever. An
    upper bound there is none: weights have no largest value. A mean below 1 is therefore no evidence: where
    an arm has become improbable, the decision that makes up for it is yet to come.
    """
    from linmed.ope.intervals import REFUTED, Played
    from linmed.ope.sequences import BettingLower, Side

    bound, played, total = BettingLower(REFUTED), Played(), 0.0
    curve: list[dict[str, Any]] = []
    query = (
        sa.select(*decisions.c["arm", "arm_count", "log_probability"], decisions.c.fallback.is_(True))
        .where(decisions.c.bandit == bandit)
        .order_by(decisions.c.number)
    )
    ends = cuts()
    with connection.execution_options(yield_per=ROWS).execute(query) as result:
        while rows := result.fetchmany(next(ends) - bound.count):
            arm, count, log_p, fallback = (np.array(column) for column in zip(*rows, strict=True))
            told = ~fallback.astype(
                bool
            )  # of fallbacks nobody knows how probable they were: they weigh nothing
            with np.errstate(all="ignore"):
                weight = np.where(told, np.exp(-log_p) / count, 0.0)
                bound.add(Side(weight, np.zeros(weight.size)))
                played.add(arm[told].astype(np.int64), np.exp(log_p[told]))
            total += float(weight.sum())
            point = {"n": bound.count, "estimate": number(total / bound.count), "lower": number(bound.lower)}
            curve.append({**point, "upper": None})
    found = played.overplayed
    return {
        "curve": thinned(curve),
        "refuted": found is not None or any((point["lower"] or 0.0) > 1.0 for point in curve),
        "overplayed": None if found is None else {"arm": found[0], "times": found[1]},
    }


def thinned(curve: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep at most `POINTS`, the last among them, as evenly over n as they are there."""
    if len(curve) <= POINTS:
        return curve
    n = [point["n"] for point in curve]
    wanted = np.searchsorted(n, np.linspace(n[0], n[-1], POINTS))
    return [curve[i] for i in np.unique(wanted)]


def number(value: float) -> float | None:
    """Return None for what is not finite: it is not known."""
    return float(value) if math.isfinite(value) else None
