"""`linmed reproduce robustness`: play, judge by our rules, write a report of its own."""

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

from linmed import __version__, checks
from linmed.experiments.claims import Row
from linmed.experiments.downloads import link, numbers_csv
from linmed.experiments.experiment import Findings, Scale, duration
from linmed.experiments.markup import badge, table, text
from linmed.experiments.output import Output
from linmed.experiments.pool import workers_of
from linmed.experiments.robustness import rules
from linmed.experiments.robustness.problems import Robustness
from linmed.experiments.run import Report
from linmed.progress import Bar
from linmed.simulation.engine import default_workers

FORMAT = 1


def run(
    scale: Scale = "quick",
    out: str | Path = "linmed-robustness",
    workers: int | None = None,
    cluster: str | None = None,
    *,
    trials: int | None = None,
    horizon: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Report:
    """Run the experiment and write its report into `out`; what `out` already holds is not run again.

    The arguments are those of `linmed.experiments.run`. All trials are looked at once.
    """
    checks.option("scale", scale, ("quick", "paper", "decisive"))
    seed = checks.whole("seed", seed, at_least=0)
    for name, value in (("trials", trials), ("horizon", horizon), ("workers", workers)):
        if value is not None:
            checks.whole(name, value)
    experiment = Robustness()
    plan = experiment.plan(scale, "text", horizon, trials, seed)
    output = Output(out)
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(workers_of(workers or default_workers(), cluster))
        bar = stack.enter_context(Bar(progress, "rounds", total=experiment.rounds(plan)))
        bar.begin(experiment.title)
        found = experiment.run(plan, output, pool, bar)
    wall = time.perf_counter() - began
    rows = [claim.judge(found) for claim in rules.claims(found)]
    given = {"trials": trials, "horizon": horizon}
    words = [f"linmed reproduce robustness --scale {scale}"]
    words += [f"--{key} {value}" for key, value in given.items() if value is not None]
    command = " ".join([*words, f"--seed {seed}"])
    output.write(output.ledger.name, _records(rows, command))
    output.write("ledger.md", _markdown(rows, command))
    _write_page(output, found, rows, command, wall)
    return Report(output.report, rows, [found], {experiment.name: wall})


def rules_digest() -> str:
    """Of the file that decides, to be compared with the commit before the trials."""
    return hashlib.sha256(Path(rules.__file__).read_bytes()).hexdigest()[:12]


def _records(rows: Sequence[Row], command: str) -> str:
    document = {
        "format": FORMAT,
        "command": command,
        "linmed": __version__,
        "rules_digest": rules_digest(),
        "claims": [row._asdict() for row in rows],
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def _markdown(rows: Sequence[Row], command: str) -> str:
    lines = [
        "# What wrong guesses cost: our own claims, judged",
        "",
        f"    {command}",
        "",
        f"Rules: `linmed/experiments/robustness/rules.py`, sha256 {rules_digest()}…",
        "",
        "| claim | rule | verdict | measured (95 % interval) |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row.claim} | {row.predicate} | {row.verdict} | {row.measured} [{row.trials:,} trials] |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def _write_page(output: Output, found: Findings, rows: Sequence[Row], command: str, wall: float) -> None:
    from linmed.experiments.drawing import drawings  # matplotlib takes a second to import
    from linmed.experiments.page import document

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
    tables = "".join(map(table, found.experiment.numbers(found)))
    data = link(numbers_csv([found]), "robustness.csv", "text/csv", "numbers as CSV")
    body = (
        f"<header><h1>{text(found.experiment.title)}</h1><p>{text(found.experiment.about)} This is no "
        f"experiment of the paper's, and no rule here judges the paper. {data}.</p></header>"
        '<section id="ledger"><h2>Which of our claims hold</h2><table class="ledger"><thead><tr>'
        f"<th>claim</th><th>rule</th><th>measured</th></tr></thead><tbody>{judged}</tbody></table></section>"
        f'<section id="robustness"><h2>Figures and numbers</h2>{shown}{tables}</section>'
        f'<section id="made"><h2>How this was made</h2><pre><code>{text(command)}</code></pre>'
        f"<p>linmed {__version__}; rules of sha256 {rules_digest()}…; {duration(found.seconds)} in the loops "
        f"of all trials, this run {duration(wall)}.</p></section>"
    )
    output.write(output.report.name, document(body, "LinMED: what wrong guesses cost"))
