"""The report: one page that needs nothing but itself, with a summary and the ledger first."""

import os
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata, resources

from linmed import __version__
from linmed.paper import ledger_section, sections, summary
from linmed.paper.claims import Row
from linmed.paper.downloads import link
from linmed.paper.drawing import Drawing, drawings
from linmed.paper.experiment import Findings, duration
from linmed.paper.hero import hero
from linmed.paper.ledger import records
from linmed.paper.markup import SHORT, text
from linmed.paper.output import Output
from linmed.paper.provenance import Origin, words
from linmed.report.figures import stylesheet


def write_page(
    output: Output,
    findings: Sequence[Findings],
    rows: Sequence[Row],
    wall: Mapping[str, float],
    command: str,
    runs: Sequence[Origin],
) -> None:
    """Figures as PNG and SVG files, and `report.html` with the same figures inside."""
    drawn = [(found, drawings(found)) for found in findings]
    every = [drawing for _, some in drawn for drawing in some]
    opening = hero(findings)
    for drawing in [*every, *([opening] if opening else [])]:
        output.write(f"figures/{drawing.name}.png", drawing.png())
        output.write(f"figures/{drawing.name}.svg", drawing.svg)
    experiments: dict[str, list[tuple[Findings, list[Drawing]]]] = {}
    for found, some in drawn:
        experiments.setdefault(found.experiment.name, []).append((found, some))
    titles = {found.experiment.name: found.experiment.title for found in findings}
    variants = list(dict.fromkeys(found.variant for found in findings))
    body = [
        summary.head(findings, rows, ledger_section.claim_ids(rows)),
        ledger_section.section(rows, titles, variants, {drawing.name for drawing in every}, runs),
        *(sections.section(ran) for ran in experiments.values()),
        _colophon(findings, rows, wall, command, runs),
    ]
    output.write(output.report.name, document("\n".join(body), "LinMED: the experiments, run again"))


def _colophon(
    findings: Sequence[Findings], rows: Sequence[Row], wall: Mapping[str, float], command: str,
    runs: Sequence[Origin],
) -> str:  # fmt: skip
    lines = "".join(
        f'<tr><th scope="row">{text(f.experiment.name)}</th><td>{SHORT[f.variant]}</td>'
        f"<td>{f.horizon:,}</td><td>{f.trials:,}</td><td>{f.most_trials:,}</td>"
        f"<td>{duration(f.seconds)}</td><td>{duration(wall[f.experiment.name])}</td></tr>"
        for f in findings
    )
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "pyarrow"))
    verdicts = link(records(rows, runs, command), "ledger.json", "application/json", "the ledger as JSON")
    return (
        '<section id="made"><h2>How this was made</h2>'
        f"<pre><code>{text(command)}</code></pre>"
        f"<p>{text(words(list(runs)))}</p><p>{text(ledger_section.known_beforehand())}</p>"
        f"<p>linmed {__version__}, Python {platform.python_version()}, {packages}; {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} processors. Seed {findings[0].seed}: trial i has the random "
        "stream (seed, i) whatever the machine, so the same command gives the same numbers.</p>"
        '<div class="scroll"><table class="numbers"><thead><tr><th>experiment</th><th>variant</th>'
        "<th>rounds</th><th>trials</th><th>at most</th><th>time in the loops, all trials</th>"
        f"<th>this run, all variants</th></tr></thead><tbody>{lines}</tbody></table></div>"
        f"<p>Inside this page: {verdicts}, and below each experiment's title the numbers its figures show, "
        "at some of the rounds. Beside it: every trial in <code>results/</code> and <code>offline/</code> "
        "(Parquet; running the command again computes only what is missing), figures in "
        "<code>figures/</code>, the ledger in <code>ledger.json</code> and <code>ledger.md</code>.</p>"
        "</section>"
    )


def document(body: str, title: str) -> str:
    """A whole page around this body."""
    css = (resources.files("linmed.paper") / "report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><title>'
        f"{text(title)}</title><style>{stylesheet()}{css}</style></head><body><main>{body}</main></body></html>"
    )
