"""What a policy can be asked is what it says it can, and nobody outside guesses it from its class."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import linmed
import linmed.paper.as_run  # noqa: F401  (they are policies too)
from linmed import Agent
from linmed.policies import LinUCB, Policy, as_policy
from tests.policies.configurations import CONFIGURATIONS, DEFAULTS, acceptable, make_arms, short, warmed_up


def below(cls):
    """All classes that are policies, abstract ones among them."""
    return {cls, *(found for child in cls.__subclasses__() for found in below(child))}


SOURCE = Path(linmed.__file__).parent
CLASSES = {"Policy": Policy, **{cls.__name__: cls for cls in below(Policy)}}
NAMED = re.compile(rf"\b({'|'.join(CLASSES)}|__func__)\b")
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path.parent.name != "policies"]


def families(tree):
    """The names under which a file imports policies, `Policy` itself among them."""
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = [one for node in imported if (node.module or "").startswith("linmed") for one in node.names]
    return {one.asname or one.name: CLASSES[one.name] for one in names if one.name in CLASSES}


def guesses(source):
    """Where a file tells policies apart by class, or compares what their classes define."""
    if not NAMED.search(source):
        return
    tree = ast.parse(source)
    known = families(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("isinstance", "issubclass"):
            asked = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
            if any(known.get(name, Policy) is not Policy for name in asked):
                yield node.lineno
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            classes = [side for side in sides if isinstance(side, ast.Name) and side.id in known]
            methods = [
                side
                for side in sides
                if isinstance(side, ast.Attribute)
                and (getattr(side.value, "id", None) in known or side.attr == "__func__")
            ]
            if classes or methods:
                yield node.lineno
        elif isinstance(node, ast.MatchClass) and getattr(node.cls, "id", None) in known:
            yield node.lineno


def test_nobody_outside_guesses_from_the_class_of_a_policy_what_it_can_be_asked():
    """`isinstance(value, Policy)` is left, for what users hand in: see `as_policy`."""
    found = {path.relative_to(SOURCE): list(guesses(path.read_text(encoding="utf-8"))) for path in FILES}
    assert not {path: lines for path, lines in found.items() if lines}


@pytest.mark.parametrize(
    "guess",
    [
        "isinstance(policy, Forgetful)",
        "isinstance(policy, Policy | Forgetful)",
        "issubclass(cls, (int, Forgetful))",
        "type(policy) is Forgetful",
        "type(policy).predict is Policy.predict",
        "policy.learn.__func__ is other",
    ],
)
def test_a_guess_is_found(guess):
    imports = "from linmed.policies import Forgetful, Policy\n"
    assert list(guesses(f"{imports}isinstance(policy, Policy)\nisinstance(policy, int)")) == []
    assert list(guesses(imports + guess)) == [2]


@pytest.mark.parametrize("policy", [*CONFIGURATIONS, LinUCB(alpha=0.5)], ids=short)
def test_a_policy_answers_what_it_declares_and_refuses_the_rest(policy):
    can, arms = policy.capabilities, make_arms(policy, np.random.default_rng(0))
    agent = Agent(policy, dim=arms.shape[2], seed=0)
    for _ in range(6):
        decision = agent.decide(arms[0])
        agent.learn(decision, float(acceptable(policy, arms[0][decision.arm, 0])))
    state = agent.state
    seen = policy.posterior(state)
    assert (seen is not None) is can.interval
    asked = {
        "interval": lambda: agent.mean(arms[0]),
        "covariance": lambda: agent.covariance,
        "verdict": lambda: agent.verdict(arms[0]),
        "drift": agent.drift,
    }
    for name, ask in asked.items():
        if getattr(can, name):
            ask()
        else:
            with pytest.raises((AttributeError, ValueError, TypeError)):
                ask()
    if seen is not None:
        assert seen.count == agent.count
        assert can.refutable is (seen.sums is not None)
        means, lower, upper = seen.predict(arms[0])
        assert ((lower <= means) & (means <= upper)).all()
        best = int(policy.expected(state, arms[0]).argmax())
        assert (seen.gains(arms[0], best) >= means - means[best] - 1e-12).all()
    assert agent.explain(arms[0]).outlook is None or can.interval
    assert can.clock is False


@pytest.mark.parametrize("policy", DEFAULTS, ids=short)
def test_greedy_play_has_the_same_estimate_and_takes_the_same_arms(policy):
    greedy, arms = policy.greedy(), make_arms(policy, np.random.default_rng(0))
    state = warmed_up(greedy, arms, np.random.default_rng(1), rounds=4)
    assert np.exp(greedy.log_probabilities(state, arms)).max() > 0.999
    if policy.capabilities.per_item:
        assert greedy.capabilities.shared == policy.capabilities.shared


def test_what_is_no_policy_is_refused_by_the_parameters_name():
    with pytest.raises(TypeError, match=r"judge must be a Policy such as LinMED\(\), got 3"):
        as_policy(3, "judge")
