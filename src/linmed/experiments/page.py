"""The report: one page that needs nothing but itself, with the ledger first."""

import html
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata, resources

from linmed import __version__
from linmed.experiments.bounds import overlays
from linmed.experiments.claims import Row
from linmed.experiments.figures import Drawing, drawings
from linmed.experiments.findings import Findings
from linmed.experiments.offline import LINMED_EXACT, LINTS_EXACT, SAMPLES, floor_column, plus_one_column
from linmed.experiments.output import Output
from linmed.experiments.palette import POLICY, stylesheet, variable
from linmed.experiments.statistics import Estimate, Verdict, deviation, mean

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
        if drawing.name.endswith("-theory"):
            parts.append(_looseness(found))
    parts.append(_scores(found) if found.scores else _finals(found))
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


def _looseness(found: Findings) -> str:
    overlay = overlays(found)
    return (
        f"<p>After {found.horizon:,} rounds LinMED-90 with δ = 1/(t+1) has regret "
        f"{overlay.measured[-1]:,.1f}. The regret lemma, minimised over L, allows {overlay.lemma[-1]:,.0f}; "
        f"the instance-dependent theorem {overlay.instance[-1]:,.0f}; and no policy can do worse than "
        f"{overlay.trivial[-1]:,.0f}. The best of the three is {overlay.looseness:,.0f} times the measured "
        f"regret, which over the last decade grows like t to the power {overlay.exponent}.</p>"
    )


def _finals(found: Findings) -> str:
    """Final regret ± standard error: a row per policy, a column per setting."""
    drawn = [setting for setting in found.settings if setting.drawn]
    names = list(dict.fromkeys(name for setting in drawn for name in found.names(*setting.key)))
    head = "".join(f"<th>{_text(_heading(found, setting.key))}</th>" for setting in drawn)
    lines = []
    for name in names:
        cells = []
        for setting in drawn:
            best = min(mean(found.final(other, *setting.key)).value for other in found.names(*setting.key))
            estimate = mean(found.final(name, *setting.key))
            mark = ' class="best"' if estimate.value == best else ""
            cells.append(f"<td{mark}>{_number(estimate)}</td>")
        seconds = sum(found.results[setting.key].seconds(name) for setting in drawn)
        lines.append(
            f'<tr><th scope="row">{_swatch(name)}{_text(name)}</th>{"".join(cells)}'
            f'<td class="time">{_time(seconds)}</td></tr>'
        )
    return (
        "<h3>Final regret ± standard error</h3>"
        f'<div class="scroll"><table class="numbers"><thead><tr><th>policy</th>{head}'
        "<th>time in the loop</th></tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _scores(found: Findings) -> str:
    kinds = [("LinMED-50, exact", "", LINMED_EXACT), ("LinTS-Freq, exact", "", LINTS_EXACT)]
    kinds += [("LinTS-Freq, floor 0.5/M", f"{M:,}", floor_column(M)) for M in SAMPLES]
    kinds += [("LinTS-Freq, (X+1)/(M+1)", f"{M:,}", plus_one_column(M)) for M in SAMPLES]
    lines = []
    for label, M, column in kinds:
        estimate, spread = mean(found.scores[column]), deviation(found.scores[column])
        lines.append(
            f'<tr><th scope="row">{_text(label)}</th><td>{M}</td>'
            f"<td>{estimate.value:.4f} ± {estimate.error:.4f}</td>"
            f"<td>{spread.value:.3f}</td><td>{spread.value**2:.4f}</td></tr>"
        )
    return (
        "<h3>IPW score of the uniform policy (true value 0.8)</h3>"
        '<div class="scroll"><table class="numbers"><thead><tr><th>log and propensity</th><th>M</th>'
        "<th>mean ± s.e.</th><th>standard deviation</th><th>variance</th></tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
        "<p>The paper's table has means 0.906, 0.819, 0.799 for M = 1,000, 10,000, 100,000, and 0.099, "
        "0.069, 0.039 in the row “standard deviation”.</p>"
    )


def _heading(found: Findings, key: Sequence[str | float]) -> str:
    experiment = found.experiment
    if key == ("all",):
        return f"n = {found.horizon:,}"
    symbols = [experiment.figure, experiment.panel] if len(key) == 2 else [experiment.panel]
    return ", ".join(
        f"{symbol} = {value}" if symbol else str(value) for symbol, value in zip(symbols, key, strict=True)
    )


def _colophon(findings: Sequence[Findings], wall: Mapping[str, float], command: str) -> str:
    lines = "".join(
        f'<tr><th scope="row">{_text(f.experiment.name)}</th><td>{f.horizon:,}</td><td>{f.trials:,}</td>'
        f"<td>{_time(f.seconds)}</td><td>{_time(wall[f.experiment.name])}</td></tr>"
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


def _swatch(name: str) -> str:
    return f'<i class="swatch" style="background:var({variable(POLICY[name])})"></i>'


def _number(estimate: Estimate) -> str:
    digits = 0 if estimate.value >= 1000 else 1 if estimate.value >= 10 else 2
    if estimate.error != estimate.error:
        return f"{estimate.value:,.{digits}f}"
    return f"{estimate.value:,.{digits}f}&nbsp;±&nbsp;{estimate.error:,.{digits}f}"


def _time(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 90 else f"{seconds:.1f} s"


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
