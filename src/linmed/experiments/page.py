"""The report: one page that needs nothing but itself, with the ledger first."""

import html
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata, resources

from linmed import __version__
from linmed.experiments.claims import Row
from linmed.experiments.drawing import Drawing, drawings
from linmed.experiments.experiment import Findings, Numbers, duration
from linmed.experiments.output import Output
from linmed.experiments.palette import POLICY, stylesheet, variable
from linmed.experiments.statistics import Verdict

SIGN: dict[Verdict, str] = {"holds": "✓", "fails": "✗", "undecided": "?"}
MEANING: dict[Verdict, str] = {
    "holds": "hold",
    "fails": "do not hold",
    "undecided": "undecided at this scale",
}


def write_page(
    output: Output, findings: Sequence[Findings], rows: Sequence[Row], wall: Mapping[str, float], command: str
) -> None:
    """Figures as PNG and SVG files, and `report.html` with the same figures inside."""
    sections = []
    for found in findings:
        drawn = drawings(found)
        for drawing in drawn:
            output.write(f"figures/{drawing.name}.png", drawing.png())
            output.write(f"figures/{drawing.name}.svg", drawing.svg)
        sections.append(_section(found, drawn))
    body = "\n".join([_head(findings, rows), _ledger(rows), *sections, _colophon(findings, wall, command)])
    output.write(output.report.name, _page(body))


def _head(findings: Sequence[Findings], rows: Sequence[Row]) -> str:
    count = Counter(row.verdict for row in rows)
    scale, variant = findings[0].scale, findings[0].variant
    described = {
        "text": "as the paper's text describes the experiments",
        "as-run": "as the authors' public code (December 2024) runs them",
    }[variant]
    links = " · ".join(f'<a href="#{f.experiment.name}">{_text(f.experiment.title)}</a>' for f in findings)
    tally = "".join(
        f'<span class="tally {verdict}"><b>{count[verdict]}</b> {meaning}</span>'
        for verdict, meaning in MEANING.items()
    )
    return (
        "<header><h1>The experiments of the LinMED paper, run again</h1>"
        f"<p>Scale <b>{scale}</b>, variant <b>{variant}</b>: {described}.</p>"
        f'<p class="tallies">{tally}</p><nav>{links}</nav></header>'
    )


def _ledger(rows: Sequence[Row]) -> str:
    lines, last = [], ""
    for row in rows:
        if row.experiment != last:
            lines.append(
                f'<tr class="group"><th colspan="3" scope="rowgroup">{_text(row.experiment)}</th></tr>'
            )
            last = row.experiment
        verdict = f'<span class="verdict {row.verdict}">{SIGN[row.verdict]}&nbsp;{row.verdict}</span>'
        lines.append(
            f'<tr><td data-h="claim">{_text(row.claim)}</td>'
            f'<td data-h="measured" class="measured">{_text(row.measured)}</td><td>{verdict}</td></tr>'
        )
    return (
        '<section id="ledger"><h2>Which claims hold</h2>'
        "<p>Each claim of the paper with what was measured: mean ± standard error over trials, policies "
        "compared on the same random numbers. A claim holds or fails only if the 95&nbsp;% interval leaves "
        "no doubt about it; where a claim has parts, all must hold (✗ and ? mark the parts that do "
        "not).</p>"
        '<table class="ledger"><thead><tr><th>claim</th><th>measured</th><th>verdict</th></tr></thead><tbody>'
        + "".join(lines)
        + "</tbody></table></section>"
    )


def _section(found: Findings, drawn: Iterable[Drawing]) -> str:
    experiment = found.experiment
    facts = f"{found.horizon:,} rounds × {found.trials:,} trials, seed {found.seed}."
    parts = [
        f'<section id="{experiment.name}"><h2>{_text(experiment.title)}</h2>',
        f"<p>{_text(experiment.about)} {facts} <small>({_text(experiment.place)})</small></p>",
        *(f'<p class="note">{_text(note)}</p>' for note in found.notes),
        _variants(found),
    ]
    for drawing in drawn:
        parts.append(
            f'<figure><div class="scroll">{drawing.inline()}</div>'
            f"<figcaption>{_text(drawing.caption)}</figcaption></figure>"
        )
        parts += [f"<p>{_text(drawing.text)}</p>"] if drawing.text else []
    parts.append(_numbers(experiment.numbers(found)))
    return "\n".join([*parts, "</section>"])


def _variants(found: Findings) -> str:
    experiment = found.experiment
    if found.variant == "text":
        intro = "Run as the text has it. The public code differs:"
        items: tuple[str, ...] = experiment.differences
    else:
        intro = "Run as the public code has it, unlike the text:"
        items = (*experiment.differences, f"Not taken over: {'; '.join(experiment.missing)}.")
    listed = "".join(f"<li>{_text(item)}</li>" for item in items)
    return f"<details><summary>{intro}</summary><ul>{listed}</ul></details>"


def _numbers(numbers: Numbers) -> str:
    """A table; a row that is a policy's has its colour."""
    head = "".join(f"<th>{_text(column)}</th>" for column in numbers.columns)
    lines = []
    for row, (label, *cells) in enumerate(numbers.rows):
        marks = [
            ' class="best"' if (row, column) in numbers.best else "" for column in range(1, len(cells) + 1)
        ]
        texts = [f"<td{mark}>{_text(cell)}</td>" for mark, cell in zip(marks, cells, strict=True)]
        lines.append(f'<tr><th scope="row">{_swatch(label)}{_text(label)}</th>{"".join(texts)}</tr>')
    note = f"<p>{_text(numbers.note)}</p>" if numbers.note else ""
    return (
        f"<h3>{_text(numbers.heading)}</h3>"
        f'<div class="scroll"><table class="numbers"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>{note}"
    )


def _colophon(findings: Sequence[Findings], wall: Mapping[str, float], command: str) -> str:
    lines = "".join(
        f'<tr><th scope="row">{_text(f.experiment.name)}</th><td>{f.horizon:,}</td><td>{f.trials:,}</td>'
        f"<td>{duration(f.seconds)}</td><td>{duration(wall[f.experiment.name])}</td></tr>"
        for f in findings
    )
    packages = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("numpy", "numba", "scipy", "pyarrow")
    )
    processors = os.cpu_count()
    return (
        '<section id="made"><h2>How this was made</h2>'
        f"<pre><code>{_text(command)}</code></pre>"
        f"<p>linmed {__version__}, Python {platform.python_version()}, {packages}; {platform.system()} "
        f"{platform.machine()}, {processors} processors. Seed {findings[0].seed}: trial i has the random "
        "stream (seed, i) whatever the machine, so the same command gives the same numbers.</p>"
        '<div class="scroll"><table class="numbers"><thead><tr><th>experiment</th><th>rounds</th>'
        "<th>trials</th><th>time in the loops, all trials</th><th>this run</th></tr></thead>"
        f"<tbody>{lines}</tbody></table></div>"
        "<p>Trials are kept in <code>results/</code> and <code>offline/</code> beside this page (Parquet); "
        "running the command again computes only what is missing. Figures are in "
        "<code>figures/</code>, the ledger in <code>ledger.json</code>.</p></section>"
    )


def _swatch(label: str) -> str:
    if label not in POLICY:
        return ""
    return f'<i class="swatch" style="background:var({variable(POLICY[label])})"></i>'


def _text(words: str) -> str:
    return html.escape(words, quote=False)


def _page(body: str) -> str:
    css = (resources.files("linmed.experiments") / "report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><title>LinMED: the experiments, run again</title>'
        f"<style>{stylesheet()}{css}</style></head><body><main>{body}</main></body></html>"
    )
