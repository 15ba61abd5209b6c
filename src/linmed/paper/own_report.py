"""An experiment that is ours and not the paper's: played, judged by its own rules, and reported."""

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from linmed import __version__, validation
from linmed.paper.claims import Row
from linmed.paper.downloads import link, numbers_csv
from linmed.paper.experiment import Experiment, Findings, Scale, duration
from linmed.paper.markup import badge, table, text
from linmed.paper.output import Output
from linmed.paper.pool import workers_of
from linmed.paper.run import Report
from linmed.report.progress import Bar
from linmed.simulation.run import default_workers

FORMAT = 1


def reproduce(
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
    given: Sequence[str] = (),
) -> Report:
    """Run it and write its report into `out`; what `out` already holds is not run again.

    The arguments are those of `linmed.paper.run`; `given` are further words of the command. All trials
    are looked at once; what is claimed of settings that a scale does without is not judged.
    """
    validation.option("scale", scale, ("quick", "paper", "decisive"))
    seed = validation.whole("seed", seed, at_least=0)
    for name, value in (("trials", trials), ("horizon", horizon), ("workers", workers)):
        if value is not None:
            validation.whole(name, value)
    plan = experiment.plan(scale, "text", horizon, trials, seed)
    output = Output(f"linmed-{experiment.name}" if out is None else out)
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(workers_of(workers or default_workers(), cluster))
        bar = stack.enter_context(Bar(progress, "rounds", total=experiment.rounds(plan)))
        bar.begin(experiment.title)
        found = experiment.run(plan, output, pool, bar)
    wall = time.perf_counter() - began
    there = {(setting.key, policy.name) for setting in found.settings for policy in setting.policies}
    rows = [claim.judge(found) for claim in rules.claims(found) if claim.cells <= there]
    words = [f"linmed reproduce {experiment.name} --scale {scale}"]
    sizes = {"trials": trials, "horizon": horizon}
    words += [f"--{key} {value}" for key, value in sizes.items() if value is not None]
    judged = Judged(found, rows, rules, " ".join([*words, f"--seed {seed}", *given]))
    output.write(output.ledger.name, _records(judged))
    output.write("ledger.md", _markdown(judged))
    _write_page(output, judged, wall)
    return Report(output.report, rows, [found], {experiment.name: wall})


class Judged(NamedTuple):
    """What came of the experiment, and what decided."""

    found: Findings
    rows: Sequence[Row]
    rules: ModuleType
    command: str

    @property
    def digest(self) -> str:
        """Of the file that decides, to be compared with the commit before the trials."""
        return hashlib.sha256(Path(str(self.rules.__file__)).read_bytes()).hexdigest()[:12]

    @property
    def place(self) -> str:
        """Where that file is."""
        return f"{self.rules.__name__.replace('.', '/')}.py"


def _records(judged: Judged) -> str:
    document = {
        "format": FORMAT,
        "command": judged.command,
        "linmed": __version__,
        "rules_digest": judged.digest,
        "claims": [row._asdict() for row in judged.rows],
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def _markdown(judged: Judged) -> str:
    lines = [
        f"# {judged.found.experiment.title}: our own claims, judged",
        "",
        f"    {judged.command}",
        "",
        f"Rules: `{judged.place}`, sha256 {judged.digest}…",
        "",
        "| claim | rule | verdict | measured (95 % interval) |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row.claim} | {row.predicate} | {row.verdict} | {row.measured} [{row.trials:,} trials] |"
        for row in judged.rows
    ]
    return "\n".join(lines) + "\n"


def _write_page(output: Output, judged: Judged, wall: float) -> None:
    from linmed.paper.drawing import drawings  # matplotlib takes a second to import
    from linmed.paper.page import document

    found, experiment = judged.found, judged.found.experiment
    drawn = drawings(found)
    for drawing in drawn:
        output.write(f"figures/{drawing.name}.png", drawing.png())
        output.write(f"figures/{drawing.name}.svg", drawing.svg)
    lines = "".join(
        f"<tr><td>{text(row.claim)}</td><td>{text(row.predicate)}</td>"
        f'<td class="measured">{badge(row.verdict)} '
        + "".join(f'<span class="part">{text(part)}</span>' for part in row.measured.split("; "))
        + f'<small>{row.trials:,} trials · <a href="#figure-{row.figure}">figure</a></small></td></tr>'
        for row in judged.rows
    )
    shown = "".join(
        f'<figure id="figure-{drawing.name}"><div class="scroll">{drawing.inline()}</div>'
        f"<figcaption>{text(drawing.caption)}</figcaption></figure>"
        for drawing in drawn
    )
    tables = "".join(map(table, experiment.numbers(found)))
    data = link(numbers_csv([found]), f"{experiment.name}.csv", "text/csv", "numbers as CSV")
    notes = "".join(f"<p>{text(note)}</p>" for note in found.notes)
    body = (
        f"<header><h1>{text(experiment.title)}</h1><p>{text(experiment.about)} This is no "
        f"experiment of the paper's, and no rule here judges the paper. {data}.</p>{notes}</header>"
        '<section id="ledger"><h2>Which of our claims hold</h2><table class="ledger"><thead><tr>'
        f"<th>claim</th><th>rule</th><th>measured</th></tr></thead><tbody>{lines}</tbody></table></section>"
        f'<section id="{experiment.name}"><h2>Figures and numbers</h2>{shown}{tables}</section>'
        f'<section id="made"><h2>How this was made</h2><pre><code>{text(judged.command)}</code></pre>'
        f"<p>linmed {__version__}; rules of sha256 {judged.digest}…; {duration(found.seconds)} in the loops "
        f"of all trials, this run {duration(wall)}.</p></section>"
    )
    output.write(output.report.name, document(body, f"LinMED: {experiment.title.lower()}"))
