"""`history`: who was played while a log was written, how much of it was exploration, and what was missed."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import validation
from linmed.insight.best_arm import DELTA, judge
from linmed.log import BATCH, DecisionLog
from linmed.ope.learning import learn_from
from linmed.ope.log_facts import Log, as_log, holds
from linmed.policies import Policy
from linmed.report import html
from linmed.report.figures import INK, LEADING, RULED_OUT, SERIES, panels, percent, shortened, styled
from linmed.report.tables import Table
from linmed.validation import BadValue, Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 60
"""Stretches of the log, of as many decisions each."""
NAMED = 7
"""Arms that are drawn; the others are one."""
_AT_ONCE = 1 << 16  # arms whose distances are computed together


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """What was done in each of W stretches of a log. Printed, it is a sentence or two; `plot` draws it.

    >>> from linmed.ope import DecisionLog, history
    >>> played = {"arm": [0, 1] * 50 + [1] * 100, "probability": [0.5] * 100 + [0.9] * 100}
    >>> found = history(DecisionLog.from_table(played | {"reward": [1.0] * 200}), points=4)
    >>> found, found.arms, found.table()["decisions"].to_pylist()
    (History(200 decisions, 2 arms), ('arm 1', 'arm 0'), [50, 100, 150, 200])
    """

    ends: Ints
    """Decisions until the end of each stretch (W,)."""
    arms: tuple[str, ...]
    """Those that were played, the most often played first."""
    shares: Floats
    """How much each was played in each stretch (W, arms)."""
    exploration: Floats
    """The mean of 1 − the largest probability in each (W,) or, where the log has no other than the played
    arm's probability, the entropy of the choice: the mean of −log of it. NaN where there is none."""
    entropy: bool
    """Whether it is the latter."""
    regret: Floats | None = field(repr=False)
    """Estimate, lower and upper bound of the regret up to each end (W, 3), by what is known at the log's end;
    None where no policy was given, or the log has not every arm's features."""
    delta: float
    doubt: str | None
    """Why the bounds are no proof; None where they are one."""

    def table(self) -> Table:
        """Make one row per stretch: decisions, exploration, regret with its bounds, and each arm's share."""
        columns: dict[str, Floats | Ints] = {"decisions": self.ends, "exploration": self.exploration}
        if self.regret is not None:
            names = ("regret", "regret_lower", "regret_upper")
            columns |= dict(zip(names, self.regret.T, strict=True))
        each = zip(self.arms, self.shares.T, strict=True)
        return Table(columns | {f"share of {name}": share for name, share in each})

    def __str__(self) -> str:
        last, most = self.shares[-1], int(self.shares[-1].argmax())
        said = f"{self.ends[-1]:,} decisions: in the last {self._last:,} {self.arms[most]} was played most, "
        said += f"{percent(float(last[most]))} of the time"
        first, now = (float(self.exploration[i]) for i in (0, -1))
        if not np.isnan(first) and not np.isnan(now):
            told = [f"{x:.3g} nats" if self.entropy else percent(x) for x in (first, now)]
            what = "the entropy of the choice" if self.entropy else "the share of exploration"
            said += f"; {what} went from {told[0]} to {told[1]}"
        if self.regret is not None:
            estimate, low, high = self.regret[-1]
            sure = f"{100 * (1 - self.delta):.12g} % confidence"
            sure = sure if self.doubt is None else f"meant for {sure} but not proved: {self.doubt}"
            said += f". Regret so far is about {estimate:.3g}, between {low:.3g} and {high:.3g} ({sure})"
        return f"{said}."

    def __repr__(self) -> str:
        return f"History({self.ends[-1]} decisions, {len(self.arms)} arms)"

    def _repr_html_(self) -> str:
        return html.paragraph(str(self))

    @property
    def _last(self) -> int:
        return int(np.diff(self.ends, prepend=0)[-1])

    def plot(self, ax: "list[Axes] | None" = None) -> "list[Axes]":
        """Draw shares of the arms, exploration and, where it is known, regret, one below the other.

        `ax`: as many axes as there are of these. Returns them.

        >>> from matplotlib.figure import Figure
        >>> from linmed.ope import DecisionLog
        >>> played = {"arm": [0, 1] * 50, "probability": [0.5] * 100, "reward": [1.0] * 100}
        >>> panels = list(Figure().subplots(2))
        >>> [ax.get_title(loc="left") for ax in history(DecisionLog.from_table(played)).plot(panels)]
        ['who was played', 'exploration']
        """
        with styled():
            made = panels(ax, [2.1, 1.4] + ([1.7] if self.regret is not None else []))
            self._draw_shares(made[0])
            middle = self.ends - np.diff(self.ends, prepend=0) / 2
            made[1].plot(middle, self.exploration, color=LEADING)
            made[1].set_ylabel("entropy (nats)" if self.entropy else "1 − P(likeliest)")
            made[1].set_title("exploration", loc="left")
            made[1].set_ylim(bottom=0.0)
            if self.regret is not None:
                estimate, low, high = self.regret.T
                sure = f"{100 * (1 - self.delta):.12g} %{'' if self.doubt is None else ', not proved'}"
                made[2].plot(self.ends, estimate, color=LEADING, label="estimate")
                made[2].fill_between(self.ends, low, high, color=LEADING, alpha=0.18, linewidth=0, label=sure)
                made[2].set_title("regret so far, by what is known at the end", loc="left")
                made[2].set_ylabel("reward")
                made[2].set_ylim(bottom=0.0)
                made[2].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
            made[-1].set_xlabel("decisions")
            made[-1].xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        return made

    def _draw_shares(self, ax: "Axes") -> None:
        shown = self.shares[:, :NAMED]
        names = [shortened(name, 18) for name in self.arms[:NAMED]]
        colours = [*SERIES[: len(names)]]
        if len(self.arms) > NAMED:
            shown = np.column_stack([shown, 1.0 - shown.sum(axis=1)])
            names.append(f"{len(self.arms) - NAMED:,} others")
            colours.append(RULED_OUT)
        edges = np.concatenate([[0], self.ends])
        ax.stackplot(
            edges, np.vstack([shown[:1], shown]).T, labels=names, colors=colours, step="pre", linewidth=0
        )
        ax.set_xlim(0, self.ends[-1])
        ax.set_ylim(0.0, 1.0)
        ax.set_title("who was played", loc="left")
        ax.set_ylabel("share")
        ax.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f} %")
        ax.grid(visible=False)
        ax.spines["left"].set_color(INK.light)
        handles, labels = ax.get_legend_handles_labels()
        # From top to bottom as they are stacked.
        ax.legend(handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.0, 1.05), fontsize="small")


def history(
    log: Log, policy: Policy | None = None, *, delta: float = DELTA, points: int = POINTS, batch: int = BATCH
) -> History:
    """Tell what was played while a log was written, and how much of it was exploration.

    With the ridge `policy` that wrote it (or any other), and every arm's features in the log, also how much
    was missed: each decision's regret has an estimate and, with probability 1 − `delta`, bounds by the
    confidence set of all rewards in the log.

    >>> from linmed.ope import DecisionLog
    >>> played = {"arm": [0, 1] * 50 + [1] * 100, "probability": [0.5] * 100 + [0.9] * 100}
    >>> found = history(DecisionLog.from_table(played | {"reward": [1.0] * 200}), points=4)
    >>> found.shares[:, found.arms.index("arm 1")]
    array([0.5, 0.5, 1. , 1. ])
    """
    log, points = as_log(log), validation.whole("points", points)
    size = len(log)
    if not size:
        raise BadValue("log", f"{log.name} is empty: there is no history of it")
    ends = np.unique(np.linspace(0, size, min(points, size) + 1).round().astype(np.int64)[1:])
    every = holds(log, "probabilities")
    regret = None if policy is None or not holds(log, "arms") else _Regret(log, policy, delta)
    wanted = ["arm", "probability", *(["probabilities"] if every else [])]
    wanted += [name for name in ("arm_id", "arms" if regret is not None else "") if name in log.columns]
    counts: list[dict[str, int]] = [{} for _ in ends]
    explored, known, missed = np.zeros(len(ends)), np.zeros(len(ends)), np.zeros((len(ends), 3))
    start = 0
    for rows in log.batches(wanted, batch):
        stretch = np.searchsorted(ends, np.arange(start, start + rows.num_rows), side="right")
        start += rows.num_rows
        for name, place, count in _played(rows, stretch):
            counts[place][name] = counts[place].get(name, 0) + count
        amount = _explored(rows, every)
        there = np.isfinite(amount)
        explored += np.bincount(stretch[there], amount[there], len(ends))
        known += np.bincount(stretch[there], minlength=len(ends))
        if regret is not None:
            for i, each in enumerate(regret.of(rows).T):
                missed[:, i] += np.bincount(stretch, each, len(ends))
    total: dict[str, int] = {}
    for own in counts:
        for name, count in own.items():
            total[name] = total.get(name, 0) + count
    arms = sorted(total, key=lambda name: -total[name])
    shares = np.array([[own.get(name, 0) for name in arms] for own in counts], dtype=np.float64)
    with np.errstate(invalid="ignore"):
        exploration = explored / np.where(known > 0, known, np.nan)
    return History(
        ends, tuple(arms), shares / shares.sum(axis=1, keepdims=True), exploration, not every,
        None if regret is None else np.cumsum(missed, axis=0), delta, getattr(regret, "doubt", None),
    )  # fmt: skip


def _played(rows: pa.RecordBatch, stretch: Ints) -> list[tuple[str, int, int]]:
    """What was played in which stretch, and how often."""
    own = pc.binary_join_element_wise("arm", rows.column("arm").cast(pa.string()), " ")
    if "arm_id" in rows.schema.names:
        own = pc.coalesce(rows.column("arm_id").cast(pa.string()), own)
    found = pa.table({"name": own, "stretch": stretch}).group_by(["name", "stretch"])
    rows_of = found.aggregate([([], "count_all")]).to_pylist()
    return [(row["name"], row["stretch"], row["count_all"]) for row in rows_of]


def _explored(rows: pa.RecordBatch, every: bool) -> Floats:
    """Of each decision 1 − the largest probability, or −log of the played arm's; NaN where there is none."""
    if not every:
        chance = rows.column("probability").to_numpy(zero_copy_only=False).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            surprise: Floats = -np.log(chance)
        return surprise
    column = rows.column("probabilities")
    lengths = pc.list_value_length(column).fill_null(0).to_numpy()
    largest, there = np.full(rows.num_rows, np.nan), lengths > 0
    if there.any():
        starts = np.concatenate([[0], np.cumsum(lengths[there])[:-1]])
        largest[there] = np.maximum.reduceat(column.flatten().to_numpy(zero_copy_only=False), starts)
    return 1.0 - largest


class _Regret:
    """How much less than the best arm each decision's paid, by a confidence set over all rewards of a log."""

    def __init__(self, log: DecisionLog, policy: Policy, delta: float) -> None:
        by = judge(policy, delta)
        if not by.capabilities.refutable:
            raise validation.BadType(
                "policy", f"policy must be a ridge policy, whose estimates are rewards, got {policy.name}"
            )
        seen = by.posterior(learn_from(log, by).state)
        self.theta, self.inverse, self.radius = seen.theta, seen.inverse, seen.radius
        self.doubt = seen.grounds.doubt

    def of(self, rows: pa.RecordBatch) -> Floats:
        """Estimate, lower and upper bound of each decision (n, 3)."""
        dim, column = len(self.theta), rows.column("arms")
        lengths = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
        flat = column.flatten()
        if not lengths.all() or (pc.list_value_length(flat).fill_null(0).to_numpy() != dim).any():
            raise BadValue("log", f"log must have the {dim} features of every arm in every row, or in none")
        offered = flat.flatten().to_numpy(zero_copy_only=False).reshape(-1, dim)
        first, played = np.cumsum(lengths) - lengths, rows.column("arm").to_numpy()
        out = np.empty((rows.num_rows, 3))
        for count in np.unique(lengths).tolist():
            alike = np.flatnonzero(lengths == count)
            for some in np.split(alike, range(size := max(_AT_ONCE // count, 1), len(alike), size)):
                arms = offered[first[some][:, None] + np.arange(count)]
                out[some] = self._bounds(arms - arms[np.arange(len(some)), played[some]][:, None])
        return out

    def _bounds(self, apart: Floats) -> Floats:
        """The same from the differences to the arm that was played, (m, K, d)."""
        gap = np.vecdot(apart, self.theta)
        leverage = np.einsum("mkd,mkd->mk", np.einsum("mkd,de->mke", apart, self.inverse), apart)
        with np.errstate(invalid="ignore"):  # of an arm against itself all is known, whatever the radius
            width = np.where(leverage > 0.0, self.radius * np.sqrt(np.maximum(leverage, 0.0)), 0.0)
        least = np.maximum((gap - width).max(axis=1), 0.0)
        return np.stack([gap.max(axis=1), least, (gap + width).max(axis=1)], axis=1)
