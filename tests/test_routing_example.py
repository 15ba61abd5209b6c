"""examples/route_llm_requests.py and the page that explains it."""

import re
from pathlib import Path

import numpy as np
import pytest

from linmed.ope import DecisionLog

ROOT = Path(__file__).parents[1]


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import route_llm_requests

    return route_llm_requests


@pytest.mark.filterwarnings("ignore:target .* are worth only:linmed.ope.OPEWarning")
def test_the_router_keeps_its_promises(example, tmp_path):
    rng = np.random.default_rng(3)
    models, *world = example.made_up(rng, count=600)
    prices = dict(zip(models[:3], (0.0001, 0.001, 0.015), strict=True))
    router = example.Router(
        prices, tmp_path / "log", per_request=0.006, trial=models[3:], control=0.2, seed=3
    )
    played = example.serve(router, models, *world, rng)
    router.agent.close()
    rows = DecisionLog.open(tmp_path / "log").table().to_pylist()
    assert [models.index(row["arm_id"]) for row in rows] == played.tolist()
    assert (played[:300] < 3).all()
    assert (played[300:] == 3).any()
    assert [row["arm_count"] for row in rows] == [3] * 300 + [4] * 300
    for row in rows:
        count = row["arm_count"]
        assert min(row["probabilities"]) >= 0.2 / count - 1e-12
        if count == 4:
            assert row["probabilities"][3] <= 0.1 + 1e-12
        assert bool(row["outcomes"]) != bool(row["missing"])
    assert sum(row["missing"] or 0 for row in rows) == router.agent.deadlines["missed"] > 0
    assert max(row["probabilities"][3] for row in rows[300:]) > 0.1 - 1e-9  # the cap was reached
    assert rows[-1]["costs"][2] == pytest.approx(0.015, rel=0.3)
    assert router.agent.budget.spent == pytest.approx(router.agent.budget.allowed, rel=0.05)
    what_if = example.what_if(tmp_path / "log", models[:3], example.MOST)
    instead = example.instead(tmp_path / "log", 2, example.MOST)
    for table, gain, true in zip(what_if, instead, world[1:], strict=True):
        routed, *others = table.to_pylist()
        for model, row in enumerate(others):
            assert row["lower"] < (1.0 - example.LOST) * true[:, model].mean() < row["upper"]
        (more,) = gain.to_pylist()
        assert more["lower"] < others[2]["estimate"] - routed["estimate"] < more["upper"]


def test_a_model_of_which_nobody_knew_can_be_launched(example):
    router = example.Router({"small": 0.0001, "large": 0.01}, None, per_request=0.002, seed=0)
    router.launch("unheard of", 0.001)
    decision = router.route("Say something nice")
    assert decision.probabilities.shape == (3,)
    router.billed(decision.item, 0.002)
    router.agent.learn(decision, 0.5)
    assert router.agent.theta.any()


def test_the_example_prints_what_all_would_have_brought(example, capsys):
    example.main()
    said = capsys.readouterr().out
    assert len(re.findall(r"^all to \w+ +0\.\d+ \(0\.\d+ to 0\.\d+\)", said, re.MULTILINE)) == 7
    assert re.search(r"All to large instead: .* dollars", said)


def test_the_tutorial_shows_the_example_as_it_is():
    code = (ROOT / "examples" / "route_llm_requests.py").read_text()
    page = (ROOT / "docs" / "tutorial-routing.md").read_text()
    blocks = "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    shown = re.findall(r"^(?:def|class) .*?(?=^\S|\Z)", blocks, re.MULTILINE | re.DOTALL)
    assert [part.split("(")[0].split(":")[0] for part in shown] == [
        "def features",
        "class Router",
        "def what_if",
        "def instead",
        "def questions",
    ]
    for part in shown:
        assert part.rstrip() in code
