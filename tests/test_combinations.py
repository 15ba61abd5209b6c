"""What goes with what: each pair of parts decides, learns and says true probabilities, or says why not."""

import math
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from linmed import (
    Agent,
    Budget,
    CatalogueGLMMED,
    CatalogueMED,
    Disjoint,
    Forgetful,
    Limits,
    LinMED,
    LogisticMED,
)
from linmed.features import Catalogue, Category

GUIDE = Path(__file__).parent.parent / "docs" / "policies.md"
PARTS = (
    "Budget", "Limits", "control", "shadow", "wait", "costs", "Forgetful", "Disjoint", "clicks", "catalogue",
    "CatalogueMED", "lists",
)  # fmt: skip
LOW, HIGH, SHARE = 0.04, 0.6, 0.3
TEAS = [{"item_id": f"tea-{i}", "price": 1.0 + i} for i in range(6)]


def policy_of(parts):
    """The policy that has these parts, and one that learns as it does."""
    if "CatalogueMED" in parts:
        base = CatalogueGLMMED(norm_bound=2.0) if "clicks" in parts else CatalogueMED()
    else:
        base = LogisticMED() if "clicks" in parts else LinMED()
    for name, around in (("Forgetful", Forgetful), ("Disjoint", Disjoint)):
        base = around(base) if name in parts else base
    policy = Budget(base, per_decision=0.5) if "Budget" in parts else base
    if "Limits" in parts:
        policy = Limits(policy, floors=LOW, caps={"tea-1" if offers_items(parts) else 1: HIGH})
    return policy, base


def offers_items(parts):
    return bool({"catalogue", "CatalogueMED"} & parts)


def made(parts):
    """An agent with these parts, and what it is asked to decide among."""
    policy, base = policy_of(parts)
    options = {"control": SHARE} if "control" in parts else {}
    options |= {"shadow": {"other": base}} if "shadow" in parts else {}
    options |= {"wait": 3.0} if "wait" in parts else {}
    worth = {"values": 2.0} if "costs" in parts else {}
    if {"costs", "Budget"} & parts:
        worth["costs"] = [0.1 * i for i in range(6)]
    if offers_items(parts):
        context = [Category("device", ["phone", "desk"])]
        agent = Agent(policy, seed=7, catalogue=Catalogue.from_table(TEAS), context=context, **options)
        return agent, {"context": {"device": "desk"}, **worth}
    arms = base.like(np.random.default_rng(0).normal(size=(6, 3)) / 2.0)
    return Agent(policy, dim=arms.shape[1], seed=7, **options), {"arms": arms, **worth}


def tried(parts):
    """Nothing where they go together; else what the library says."""
    if {"costs", "lists"} <= parts:
        return "decide_list takes no values and costs"
    try:
        agent, asked = made(parts)
        for t in range(12):
            paid = float(t % 3 == 0)
            if "lists" in parts:
                asked.pop("costs", None)
                shown = agent.decide_list(length=2, time=float(t), **asked)
                assert 0.0 < shown.probabilities.prod() <= 1.0
                agent.learn_list(shown, [paid, 0.0], time=float(t))
                continue
            decision = agent.decide(time=float(t), **asked)
            check(parts, decision)
            if not ("wait" in parts and t % 2):
                agent.learn(decision, paid, time=float(t))
    except ValueError as refused:
        return str(refused).rsplit(", got ", 1)[0]
    if "wait" in parts:
        agent.expire(100.0)
    assert agent.pending == ()
    assert agent.count == 12 * (2 if "lists" in parts else 1)
    return ""


def check(parts, decision):
    """Probabilities sum to one and are within limits, as far as the control group lets them."""
    if "CatalogueMED" in parts:
        assert decision.fallback or decision.probability > 0.0
        return
    p = decision.probabilities
    assert math.isclose(p.sum(), 1.0, abs_tol=1e-12)
    assert decision.probability == p[decision.arm]
    share = SHARE if "control" in parts else 0.0
    if "Limits" in parts:
        assert p.min() >= (1.0 - share) * LOW + share / 6 - 1e-12
        assert p[1] <= (1.0 - share) * HIGH + share / 6 + 1e-12
    if "control" in parts:
        assert p.min() >= share / 6 - 1e-12
        assert decision.control in (True, False)
    if "shadow" in parts:
        assert 0.0 < decision.shadow["other"] <= 1.0


PAIRS = {frozenset(pair): None for pair in combinations(PARTS, 2)}


def table():
    """The table of docs/policies.md."""
    reasons = {}
    lines = [("", *PARTS[1:]), ("---",) * len(PARTS)]
    for i, one in enumerate(PARTS[:-1]):
        cells = []
        for j, other in enumerate(PARTS[1:], 1):
            why = "" if j <= i else PAIRS[frozenset((one, other))]
            cells.append("" if j <= i else str(reasons.setdefault(why, len(reasons) + 1)) if why else "yes")
        lines.append((one, *cells))
    shown = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return shown + "\n\n" + "\n".join(f"{number}. {why}." for why, number in reasons.items()) + "\n"


@pytest.fixture(scope="module", autouse=True)
def asked():
    for pair in PAIRS:
        PAIRS[pair] = tried(set(pair))


def test_the_guide_says_what_goes_with_what():
    text = GUIDE.read_text(encoding="utf-8")
    inside = re.search(r"<!-- combinations -->\n\n(.*)\n<!-- /combinations -->", text, re.S)[1]
    assert inside == table(), "docs/policies.md is out of date: paste tests.test_combinations.table() there"


@pytest.mark.parametrize(
    "parts", [*combinations([one for one in PARTS if one != "CatalogueMED"], 4)], ids="-".join
)
def test_parts_that_go_together_in_pairs_go_together(parts):
    """Four at once; what is refused is refused for a pair among them."""
    expected = [why for pair in combinations(parts, 2) if (why := PAIRS[frozenset(pair)])]
    assert bool(tried(set(parts))) == bool(expected)
