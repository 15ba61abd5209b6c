"""Hold and plot what a simulation found out."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from linmed.environments import Environment
from linmed.extras import Later
from linmed.policies.base import Policy
from linmed.report import html
from linmed.report.figures import axes, saved, series, shortened, styled
from linmed.report.tables import Table
from linmed.simulation.store import arrow_type
from linmed.simulation.trials import policy_columns
from linmed.validation import Bools, Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
else:
    pa = Later("pyarrow", "a table of all curves", "log")

HEIGHT, WIDTH = 4.5, 8.0


class Ends(NamedTuple):
    """When the trials of a run with `until` were decided."""

    decided: Ints  # (T,) rounds until then; 0 where none was enough
    winner: Ints  # (T,) the arm; negative without one
    right: Bools  # (T,) whether it is no more than ε worse than the best


@dataclass(frozen=True)
class Run:
    """One policy's share.

    >>> from linmed import LinMED, simulate
    >>> from linmed.environments import LargeGap
    >>> results = simulate(LinMED(), LargeGap(), horizon=100, trials=3, progress=False)
    >>> run = results.run("LinMED")
    >>> run.policy.name, run.trials, run.pulls.sum(axis=1)
    ('LinMED-90', array([0, 1, 2]), array([100, 100, 100]))
    """

    policy: Policy
    trials: Ints = field(repr=False)  # (T,) trial numbers, ascending
    regret: Floats = field(repr=False)  # (T, checkpoints) cumulative pseudo-regret
    pulls: Ints = field(repr=False)  # (T, K) how often each arm was played
    seconds: float
    """Time spent in the loop, summed over workers."""
    ends: Ends | None = field(default=None, repr=False)
    """Of a simulation with `until`."""


@dataclass(frozen=True, repr=False)
class Results:
    """Regret curves of several policies on one environment. Rows are trials, columns checkpoints.

    >>> from linmed import LinMED, Uniform, simulate
    >>> from linmed.environments import LargeGap
    >>> results = simulate([LinMED(), Uniform()], LargeGap(), horizon=100, trials=20, progress=False)
    >>> results.names, results.regret("LinMED").shape == (20, len(results.checkpoints))
    (['LinMED-90', 'Uniform'], True)
    >>> bool(results.mean("LinMED")[-1] < results.mean("Uniform")[-1])
    True
    >>> results.pulls("Uniform").shape, results.final("Uniform").shape
    ((20, 2), (20,))
    >>> bool(results.standard_error("LinMED")[-1] > 0)
    True
    >>> results.summary()["policy"].to_pylist(), results.table().column_names[:4]
    (['LinMED-90', 'Uniform'], ['policy', 'trial', 'round', 'regret'])
    >>> results.seconds("LinMED") > 0
    True

    >>> results.run("LinMED").policy.name
    'LinMED-90'
    """

    environment: Environment
    horizon: int
    seed: int
    checkpoints: Ints
    """Rounds, from 1, after which regret was written down."""
    runs: Mapping[str, Run]
    """By the policy's name, in the order given to `simulate`."""

    @property
    def names(self) -> list[str]:
        """The policies' names."""
        return list(self.runs)

    def run(self, name: str) -> Run:
        """One policy's run, by the policy's name or, where only one has it, its class's name."""
        if name in self.runs:
            return self.runs[name]
        of_class = [run for run in self.runs.values() if type(run.policy).__name__ == name]
        if len(of_class) == 1:
            return of_class[0]
        if of_class:
            raise ValueError(f"{name!r} could be any of {', '.join(run.policy.name for run in of_class)}")
        near = difflib.get_close_matches(str(name), self.names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"no policy is named {name!r}; there are {', '.join(self.names)}{hint}")

    def regret(self, name: str) -> Floats:
        """Cumulative pseudo-regret (trials, checkpoints)."""
        return self.run(name).regret

    def pulls(self, name: str) -> Ints:
        """How often each arm was played (trials, arms)."""
        return self.run(name).pulls

    def seconds(self, name: str) -> float:
        """Time spent in the policy's loops."""
        return self.run(name).seconds

    def decided(self, name: str) -> Floats:
        """Rounds until the verdict (trials,), with `until`; NaN where the horizon came first.

        >>> from linmed import Pinpoint, simulate
        >>> from linmed.environments import LargeGap
        >>> asked = {"horizon": 1000, "trials": 3, "progress": False}
        >>> results = simulate(Pinpoint(), LargeGap(), until="decided", **asked)
        >>> results.winner("Pinpoint"), results.right("Pinpoint")
        (array([0, 0, 0]), array([ True,  True,  True]))
        >>> bool((results.decided("Pinpoint") < 1000).all())
        True
        """
        rounds = self._ends(name).decided
        return np.where(rounds > 0, rounds, np.nan)

    def winner(self, name: str) -> Ints:
        """The arm that each trial's verdict was for (trials,); negative where there is none."""
        return self._ends(name).winner

    def right(self, name: str) -> Bools:
        """Whether that arm is the best one, or at most ε worse (trials,); False without a verdict."""
        return self._ends(name).right

    def _ends(self, name: str) -> Ends:
        ends = self.run(name).ends
        if ends is None:
            raise ValueError('nothing was to be decided: give simulate until="decided" or until=Decided(...)')
        return ends

    def final(self, name: str) -> Floats:
        """Regret at the horizon (trials,)."""
        return self.regret(name)[:, -1]

    def mean(self, name: str) -> Floats:
        """Mean regret over trials (checkpoints,); NaN without trials."""
        curves = self.regret(name)
        return curves.mean(axis=0) if len(curves) else np.full(len(self.checkpoints), np.nan)

    def standard_error(self, name: str) -> Floats:
        """Standard error of `mean` (checkpoints,); NaN with fewer than two trials."""
        curves = self.regret(name)
        if len(curves) < 2:
            return np.full(len(self.checkpoints), np.nan)
        errors: Floats = curves.std(axis=0, ddof=1) / np.sqrt(len(curves))
        return errors

    def summary(self) -> Table:
        """One row per policy: policy, mean_regret, standard_error, trials, seconds.

        With `until` also decided and wrong, shares of the trials, and mean_rounds of those decided.
        """
        return Table(
            {
                "policy": name,
                "mean_regret": float(self.mean(name)[-1]),
                "standard_error": float(self.standard_error(name)[-1]),
                "trials": len(run.trials),
                "seconds": run.seconds,
                **_verdicts(run.ends),
            }
            for name, run in self.runs.items()
        )

    def table(self) -> Table:
        """The curves in long form: policy, trial, round, regret, parameters (`policy.sigma`, …)."""
        shown = set().union(*(run.policy.to_dict() for run in self.runs.values())) - {"label"}
        parts = []
        for name, run in self.runs.items():
            size = run.regret.size
            columns: dict[str, Any] = {
                "policy": pa.array([name] * size, pa.string()),
                "trial": np.repeat(run.trials, len(self.checkpoints)),
                "round": np.tile(self.checkpoints, len(run.trials)),
                "regret": run.regret.ravel(),
            }
            for key, (kind, value) in policy_columns(run.policy).items():
                if key in shown:
                    columns[f"policy.{key}"] = pa.array([value] * size, arrow_type(kind))
            parts.append(pa.table(columns))
        return Table(pa.concat_tables(parts))

    def plot(self, path: "str | os.PathLike[str] | None" = None, *, ax: "Axes | None" = None) -> "Axes":
        """Draw mean regret with 95 % intervals, into a file (PNG, SVG, PDF by its ending) if `path` is one.

        Returns the axes.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from linmed import LinMED, simulate
        >>> from linmed.environments import LargeGap
        >>> results = simulate(LinMED(), LargeGap(), horizon=100, trials=3, progress=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     axes = results.plot(f"{folder}/regret.png")
        ...     Path(folder, "regret.png").stat().st_size > 1000
        True
        """
        with styled():
            ax = axes(ax, HEIGHT, WIDTH, shown=path is None)
            for index, name in enumerate(self.names):
                colour, dash = series(index)
                mean, error = self.mean(name), self.standard_error(name)
                label = shortened(name, 40)
                ax.plot(self.checkpoints, mean, color=colour, linestyle=dash, linewidth=1.6, label=label)
                if np.isfinite(error).all():
                    low, high = mean - 1.96 * error, mean + 1.96 * error
                    ax.fill_between(self.checkpoints, low, high, color=colour, alpha=0.18, linewidth=0)
            ax.set_xlabel("round")
            ax.set_ylabel("cumulative regret")
            ax.set_title(self.environment.name, fontsize="medium", wrap=True)
            ax.set_xlim(0, self.horizon)
            ax.set_ylim(bottom=0)
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
            if path is not None:
                saved(ax, path)
        return ax

    def __repr__(self) -> str:
        """The summary as text, best first."""
        return f"{self._played}\n{self._best_first}"

    def _repr_html_(self) -> str:
        return html.paragraph(self._played) + self._best_first._repr_html_()

    @property
    def _played(self) -> str:
        return f"{self.environment.name}, {self.horizon:,} rounds, seed {self.seed}"

    @property
    def _best_first(self) -> Table:
        rows = self.summary().to_pylist()
        rows.sort(key=lambda row: (np.isnan(row["mean_regret"]), row["mean_regret"], row["policy"]))
        return Table(rows)


def _verdicts(ends: Ends | None) -> dict[str, float]:
    """What a summary says of the verdicts."""
    if ends is None:
        return {}
    there = ends.winner >= 0
    share, wrong = (float(x.mean()) if len(x) else np.nan for x in (there, there & ~ends.right))
    return {
        "decided": share,
        "mean_rounds": float(ends.decided[there].mean()) if there.any() else np.nan,
        "wrong": wrong,
    }
