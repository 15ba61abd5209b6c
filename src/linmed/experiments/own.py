"""Experiments of our own: judged by rules of their own, with a report that is no part of the paper's."""

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from linmed import __version__, checks
from linmed.experiments.claims import Row
from linmed.experiments.downloads import link, numbers_csv
from linmed.experiments.experiment import Experiment, Findings, Scale, duration
from linmed.experiments.markup import badge, table, text
from linmed.experiments.output import Output
from linmed.experiments.pool import workers_of
from linmed.experiments.run import Report
from linmed.progress import Bar
from linmed.simulation.engine import default_workers

FORMAT = 1


def run(
    experiment: Experiment,
    rules: ModuleType,
    scale: Scale = "quick",
    out: str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    *,
    trials: int | None = None,
    horizon: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Report:
    """Run the experiment and write its report into `out`; what `out` already holds is not run again.

    `rules.claims` says what is claimed of the findings. The other arguments are those of
    `linmed.experiments.run`. All trials are looked at once.
    """
    checks.option("scale", scale, ("quick", "paper", "decisive"))
    seed = checks.whole("seed", seed, at_least=0)
    for name, value in (("trials", trials), ("horizon", horizon), ("workers", workers)):
        if value is not None:
            checks.whole(name, value)
    plan = experiment.plan(scale, "text", horizon, trials, seed)
    output = Output(f"linmed-{experiment.name}" if out is None else out)
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(workers_of(workers or default_workers(), cluster))
        bar = stack.enter_context(Bar(progress, "rounds", total=experiment.rounds(plan)))
        bar.begin(experiment.title)
        found = experiment.run(plan, output, pool, bar)
    wall = time.perf_counter() - began
    rows = [claim.judge(found) for claim in rules.claims(found)]
    given = {"trials": trials, "horizon": horizon}
    words = [f"linmed reproduce {experiment.name} --scale {scale}"]
    words += [f"--{key} {value}" for key, value in given.items() if value is not None]
    command = " ".join([*words, f"--seed {seed}"])
    output.write(output.ledger.name, _records(rows, command, rules))
    output.write("ledger.md", _markdown(experiment, rows, command, rules))
    _write_page(output, found, rows, command, wall, rules)
    return Report(output.report, rows, [found], {experiment.name: wall})


def digest(rules: ModuleType) -> str:
    """Of the file that decides, to be compared with the commit before the trials."""
    assert rules.__file__ is not None
    return hashlib.sha256(Path(rules.__file__).read_bytes()).hexdigest()[:12]


def _records(rows: Sequence[Row], command: str, rules: ModuleType) -> str:
    document = {
        "format": FORMAT,
        "command": command,
        "linmed": __version__,
        "rules_digest": digest(rules),
        "claims": [row._asdict() for row in rows],
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def _markdown(experiment: Experiment, rows: Sequence[Row], command: str, rules: ModuleType) -> str:
    lines = [
        f"# {experiment.title}: our own claims, judged",
        "",
        f"    {command}",
        "",
        f"Rules: `{rules.__name__.replace('.', '/')}.py`, sha256 {digest(rules)}…",
        "",
        "| claim | rule | verdict | measured (95 % interval) |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row.claim} | {row.predicate} | {row.verdict} | {row.measured} [{row.trials:,} trials] |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def _write_page(
    output: Output, found: Findings, rows: Sequence[Row], command: str, wall: float, rules: ModuleType
) -> None:
    from linmed.experiments.drawing import drawings  # matplotlib takes a second to import
    from linmed.experiments.page import document

    experiment = found.experiment
    drawn = drawings(found)
    for drawing in drawn:
        output.write(f"figures/{drawing.name}.png", drawing.png())
        output.write(f"figures/{drawing.name}.svg", drawing.svg)
    judged = "".join(
        f"<tr><td>{text(row.claim)}</td><td>{text(row.predicate)}</td>"
        f'<td class="measured">{badge(row.verdict)} '
        + "".join(f'<span class="part">{text(part)}</span>' for part in row.measured.split("; "))
        + f'<small>{row.trials:,} trials · <a href="#figure-{row.figure}">figure</a></small></td></tr>'
        for row in rows
    )
    shown = "".join(
        f'<figure id="figure-{drawing.name}"><div class="scroll">{drawing.inline()}</div>'
        f"<figcaption>{text(drawing.caption)}</figcaption></figure>"
        for drawing in drawn
    )
    tables = "".join(map(table, experiment.numbers(found)))
    data = link(numbers_csv([found]), f"{experiment.name}.csv", "text/csv", "numbers as CSV")
    body = (
        f"<header><h1>{text(experiment.title)}</h1><p>{text(experiment.about)} This is no "
        f"experiment of the paper's, and no rule here judges the paper. {data}.</p></header>"
        '<section id="ledger"><h2>Which of our claims hold</h2><table class="ledger"><thead><tr>'
        f"<th>claim</th><th>rule</th><th>measured</th></tr></thead><tbody>{judged}</tbody></table></section>"
        f'<section id="{experiment.name}"><h2>Figures and numbers</h2>{shown}{tables}</section>'
        f'<section id="made"><h2>How this was made</h2><pre><code>{text(command)}</code></pre>'
        f"<p>linmed {__version__}; rules of sha256 {digest(rules)}…; {duration(found.seconds)} in the loops "
        f"of all trials, this run {duration(wall)}.</p></section>"
    )
    title = experiment.title[0].lower() + experiment.title[1:]
    output.write(output.report.name, document(body, f"LinMED: {title}"))
