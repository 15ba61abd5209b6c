"""The report: complete, self-contained, legible, and never at the cost of someone else's files."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from linmed.paper import EXPERIMENTS, OutputError, experiment, run
from linmed.paper.drawing import drawings
from linmed.paper.offline_evaluation import Logs
from linmed.report.figures import POLICY, THEMED, variable
from linmed.simulation import SimulationInterrupted
from linmed.simulation.trials import Task

PAPERS = [name for name, experiment in EXPERIMENTS.items() if not experiment.ours]
SMALL = {"trials": 3, "horizon": 40, "workers": 1, "progress": False}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return run(out=tmp_path_factory.mktemp("report") / "out", **SMALL)


def test_every_experiment_is_run_and_judged(report):
    assert [found.experiment.name for found in report.findings] == PAPERS
    assert {row.experiment for row in report.ledger} == set(PAPERS)


def test_the_ledger_file_is_the_ledger(report):
    records = json.loads((report.path.parent / "ledger.json").read_text())["claims"]
    assert [(r["experiment"], r["claim"], r["measured"], r["verdict"]) for r in records] == [
        (row.experiment, row.claim, row.measured, row.verdict) for row in report.ledger
    ]


@pytest.fixture(scope="module")
def drawn(report):
    """The figures of every experiment, laid out."""
    found = {one.experiment.name: drawings(one) for one in report.findings}
    for some in found.values():
        for drawing in some:
            drawing.figure.draw_without_rendering()
    return found


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.outside, self.ids, self.references, self.headings = [], [], [], []

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key == "id":
                self.ids.append(value)
            if key in ("href", "xlink:href", "src") and not value.startswith("data:"):
                (self.references if value.startswith("#") else self.outside).append(value.lstrip("#"))
            self.references += re.findall(r"url\(#([^)]*)\)", value or "")
        if tag == "script":
            self.outside.append("script")


@pytest.mark.parametrize("which", ["report", "both"])
def test_the_page_needs_nothing_but_itself(which, request):
    page = Links()
    page.feed(request.getfixturevalue(which).path.read_text(encoding="utf-8"))
    assert page.outside == []
    assert len(page.ids) == len(set(page.ids))
    assert set(page.references) <= set(page.ids)


def test_the_ledger_comes_first_and_everything_is_there(report):
    text = report.path.read_text(encoding="utf-8")
    places = [text.index(f'<section id="{name}"') for name in ("ledger", *PAPERS, "made")]
    assert places == sorted(places)
    for needed in (
        "prefers-color-scheme:dark",
        'name="viewport"',
        "linmed reproduce",
        "numpy",
        "Seed 0",
        "Generated",
    ):
        assert needed in text
    files = {file.stem for file in (report.path.parent / "figures").iterdir() if file.suffix == ".svg"}
    assert files == set(re.findall(r'<figure id="figure-([^"]*)"', text))
    assert len(files) >= 15
    pictures = [file for file in (report.path.parent / "figures").iterdir() if file.suffix == ".png"]
    assert {file.stem for file in pictures} == files
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in pictures)
    assert len(re.findall(r"Judged on 2\d{3}-\d\d-\d\d at .*? by the rules of", text)) == 2


def test_every_claim_leads_to_the_figure_that_shows_it(report, drawn):
    for name, some in drawn.items():
        shown = {row.figure for row in report.ledger if row.experiment == name}
        assert shown <= {drawing.name for drawing in some}
    text = report.path.read_text(encoding="utf-8")
    assert set(re.findall(r'href="#figure-([^"]*)"', text)) == {row.figure for row in report.ledger}


def test_the_papers_figures_are_all_there_and_in_its_order(drawn):
    names = {name: [drawing.name for drawing in some] for name, some in drawn.items()}
    assert names["large-gap"][0] == "large-gap"
    assert names["end-of-optimism"][0] == "end-of-optimism"
    assert {f"end-of-optimism-{number}" for number in (1, 2, 3)} <= set(names["end-of-optimism"])
    for ball in ("unit-ball-dimension", "unit-ball-arms"):  # matched, under- and over-specified noise
        assert names[ball] == [f"{ball}-1", f"{ball}-3", f"{ball}-2"]


def test_tick_labels_keep_apart_and_legends_cover_no_curves(drawn):
    for drawing in itertools.chain.from_iterable(drawn.values()):
        figure, boxes = drawing.figure, []
        for ax in figure.axes:
            low, high = ax.get_xlim()  # others are not drawn
            ticks = [tick for tick in ax.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
            labels = [tick.label1 for tick in ticks if tick.label1.get_visible() and tick.label1.get_text()]
            boxes.append([label.get_window_extent() for label in labels])
        for left, right in itertools.pairwise(boxes):
            assert not any(a.overlaps(b) for a in left for b in right), drawing.name
        (legend,) = figure.legends
        box = legend.get_window_extent()
        assert all(not box.overlaps(ax.get_window_extent()) for ax in figure.axes), drawing.name
        assert figure.bbox.x0 - 1 <= box.x0 < box.x1 <= figure.bbox.x1 + 1, drawing.name


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    names = ["arm-count", "large-gap"]
    return run(names, variant="both", out=tmp_path_factory.mktemp("both") / "out", **SMALL)


def test_both_variants_stand_side_by_side(both):
    text = both.path.read_text(encoding="utf-8")
    assert text.count('<section id="large-gap"') == 1
    assert text.index('id="figure-large-gap"') < text.index('id="figure-large-gap-as-run"')
    assert "<th>text</th><th>as run</th>" in text
    claims = {(row.experiment, row.claim) for row in both.ledger}
    assert text.count('<tr id="claim-') == len(claims) < len(both.ledger)


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_is_wider_than_the_screen(both, width):
    chromium = Path("/usr/bin/chromium")
    if not chromium.exists():
        pytest.skip(f"no browser: {chromium} is not installed")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=str(chromium), args=flags)
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(both.path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        browser.close()


def test_a_policy_has_one_look_in_all_figures_and_shares_it_with_none():
    plans = [EXPERIMENTS[name].plan("quick", "text") for name in PAPERS]
    assert set(POLICY) == {policy.name for plan in plans for s in plan.settings for policy in s.policies}
    looks = [(line.light, line.dash) for line in POLICY.values()]
    assert len(set(looks)) == len(looks)
    assert len({line.dark for line in THEMED}) == len(THEMED)


def test_every_curve_stands_out_from_the_paper():
    for paper, ground in (("light", "#ffffff"), ("dark", "#14171b")):
        assert all(contrast(getattr(line, paper), ground) > 1.9 for line in POLICY.values())


def contrast(a, b):
    """Contrast ratio of two colours, by the web accessibility guidelines."""

    def luminance(colour):
        rgb = np.array(matplotlib.colors.to_rgb(colour))
        linear = np.where(rgb <= 0.03928, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    bright, dim = sorted((luminance(a), luminance(b)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def test_inline_figures_take_their_colours_from_the_page(drawn):
    svg = drawn["large-gap"][0].inline()
    assert f"var({variable(POLICY['OFUL'])})" in svg
    assert not any(line.light in svg for line in THEMED)


def test_a_second_run_computes_nothing_and_says_the_same(report, monkeypatch, tmp_path):
    def refuse(*args, **kwargs):
        raise AssertionError("computed again")

    monkeypatch.setattr(Task, "run", refuse)
    monkeypatch.setattr(Logs, "run", refuse)
    names = ("offline-evaluation", "arm-count")
    shutil.copytree(report.path.parent, tmp_path / "copy")
    again = run(names, out=tmp_path / "copy", **SMALL)
    assert again.ledger == [row for row in report.ledger if row.experiment in names]


def test_processes_give_the_same_numbers_and_another_seed_another_sample(report, tmp_path):
    several = run(["arm-count"], out=tmp_path / "two", **{**SMALL, "workers": 2})
    assert several.ledger == [row for row in report.ledger if row.experiment == "arm-count"]
    other = run(["arm-count"], out=tmp_path / "other", seed=1, **SMALL)
    finals = [one.findings[0].final("LinMED-50", 4) for one in (other, several)]
    assert not np.array_equal(*finals)


def test_a_directory_of_someone_elses_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="not a report"):
        run(["large-gap"], out=tmp_path, **SMALL)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(OutputError, match="is a file"):
        run(["large-gap"], out=tmp_path / "thesis.txt", **SMALL)


def test_a_wrong_request_makes_no_directory(tmp_path):
    out = tmp_path / "new"
    for wrong, message in (
        ({"names": ["large-gaps"]}, "did you mean 'large-gap'"),
        ({"scale": "huge"}, "scale must be one of"),
        ({"variant": "as run"}, "variant must be one of"),
        ({"trials": 0}, "trials must be at least 1"),
        ({"horizon": 0}, "horizon must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"names": ["delayed-rewards"], "movielens": tmp_path / "none"}, "u.item"),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            run(out=out, progress=False, **wrong)
    assert not out.exists()


def test_an_interrupted_run_keeps_what_is_done(tmp_path, monkeypatch):
    real, calls = experiment.simulate, []

    def interrupted(*args, **kwargs):
        calls.append(args)
        if len(calls) == 3:
            raise SimulationInterrupted(real(*args, **kwargs))
        return real(*args, **kwargs)

    monkeypatch.setattr(experiment, "simulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(["arm-count"], out=tmp_path, **SMALL)
    kept = set((tmp_path / "results" / "trials").iterdir())
    assert len(kept) >= 2 * 4
    monkeypatch.setattr(experiment, "simulate", real)
    run(["arm-count"], out=tmp_path, **SMALL)
    assert kept < set((tmp_path / "results" / "trials").iterdir())


def test_one_trial_is_drawn_without_intervals_and_decides_nothing(tmp_path):
    single = run(["large-gap"], out=tmp_path, **{**SMALL, "trials": 1})
    assert single.path.exists()
    assert {row.verdict for row in single.ledger} == {"undecided"}


@pytest.mark.unix
def test_workers_end_with_a_killed_main_process(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        "import os, time\n"
        "from linmed.simulation.executors import workers_of\n"
        "if __name__ == '__main__':\n"
        "    with workers_of(2, None) as pool:\n"
        "        print(pool.submit(os.getpid).result(), flush=True)\n"
        "        pool.submit(time.sleep, 600).result()\n"
    )
    main = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    worker = int(main.stdout.readline())
    main.kill()
    main.wait()
    main.stdout.close()
    for _ in range(3000):
        if not alive(worker):
            return
        time.sleep(0.1)
    raise AssertionError("a worker outlived its main process")


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path(f"/proc/{pid}/stat").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
