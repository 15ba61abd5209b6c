"""Every public name has an example that runs, and every parameter of every policy says what it means."""

import ast
import doctest
import inspect
import re
import textwrap
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

from linmed import policies
from linmed.policies import GLMPolicy, Policy, RidgePolicy

MODULES = (
    "linmed", "linmed.agent", "linmed.decision", "linmed.design", "linmed.environments",
    "linmed.paper", "linmed.features", "linmed.features.usearch", "linmed.insight", "linmed.lists",
    "linmed.log", "linmed.ope", "linmed.policies", "linmed.catalogue_sampler", "linmed.serve.client",
    "linmed.simulation", "linmed.report", "linmed.theory",
)  # fmt: skip
"""Where the documentation imports from. What they export is public."""
NOT_RUN = {
    "Report": "is what `run` leaves after half a minute of trials and figures",
}
"""Names whose example is shown and not run, and why."""
NOT_CALLED = {
    "Claim": "is judged by the report",
    "Experiment": "is played and drawn by `run`",
    "Findings": "is read by claims and figures",
    "Setting": "is made by experiments",
    "Policy": "is asked by agents, simulations and evaluations",
    "Store": "is asked by `simulate`",
    "Target": "is asked by `evaluate`; all but `probabilities` have answers of their own",
    "Ridge": "is asked by `evaluate`",
    "Refitted": "is asked by `evaluate`",
    "AsyncClient": "has the methods of `Client`, which show them",
}
"""Classes whose methods users do not call themselves, or not under this name, and who does."""


ROOT = Path(__file__).parent.parent
ON_PAGES = "".join(
    block
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for block in re.findall(r"^```(?:python|pycon)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
)
"""The code of the pages, which runs."""


def public_names():
    """Every class and function that is exported, by where it is defined."""
    found = {}
    for module in MODULES:
        for name in import_module(module).__all__:
            value = getattr(import_module(module), name)
            if callable(value):  # a constant has no docstring: its meaning stands beside it
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


NAMES = public_names()
CLASSES = {name: value for name, value in NAMES.items() if inspect.isclass(value)}


def source(docstring):
    """The examples of a docstring that are run."""
    found = doctest.DocTestParser().get_examples(docstring or "")
    return "".join(one.source for one in found if not one.options.get(doctest.SKIP))


def is_found(value):
    """Whether `doctest` finds the docstring of a name where it is defined, and so `test_doctests` runs it."""
    home = import_module(value.__module__)
    return bool(doctest.DocTestFinder(recurse=False).find(value, value.__qualname__, module=home))


def methods(cls):
    """Public methods and properties of a class itself, by name."""
    kinds = (property, classmethod, staticmethod)
    own = {name: value for name, value in vars(cls).items() if not name.startswith("_")}
    return {
        name: value for name, value in own.items() if inspect.isfunction(value) or isinstance(value, kinds)
    }


def test_there_are_public_names():
    assert len(NAMES) > 150
    assert {"linmed.agent.Agent", "linmed.policies.linmed.LinMED", "linmed.ope.evaluate.evaluate"} <= set(
        NAMES
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_an_example(name):
    value = NAMES[name]
    if value.__name__ in NOT_RUN:
        assert ">>> " in value.__doc__
    else:
        assert source(value.__doc__), f"{name} has no example in its docstring"
        assert is_found(value)


@pytest.mark.parametrize("name", [name for name in CLASSES if CLASSES[name].__name__ not in NOT_CALLED])
def test_a_method_is_shown_by_an_example_of_its_class_or_a_page(name):
    cls = CLASSES[name]
    own = methods(cls)
    shown = ON_PAGES + "".join(map(source, [cls.__doc__, *(value.__doc__ for value in own.values())]))
    above = {method for base in cls.__mro__[1:] for method in vars(base)}  # where it is said what they do
    missing = [one for one in own if one not in above and not re.search(rf"(\.|def ){one}\b", shown)]
    assert not missing, f"no example of {name} shows {', '.join(missing)}"


def documented_attributes(cls):
    """Fields of a class itself that are followed by a string that says what they mean."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    pairs = zip(tree.body, tree.body[1:], strict=False)
    return {
        field.target.id
        for field, text in pairs
        if isinstance(field, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def told(cls, seen=()):
    """What `help` says of a policy, and of those to which it refers by name."""
    text = cls.__doc__
    for name in re.findall(r"`(\w+)`", cls.__doc__):
        other = getattr(policies, name, None)
        if inspect.isclass(other) and issubclass(other, Policy) and other not in (cls, *seen):
            text += told(other, (*seen, cls))
    return text


@pytest.mark.parametrize("cls", [*policies.ALL, RidgePolicy, GLMPolicy], ids=lambda cls: cls.__name__)
def test_every_parameter_of_a_policy_says_what_it_means(cls):
    described = set().union(
        *(documented_attributes(base) for base in cls.__mro__ if issubclass(base, Policy))
    )
    named = set(re.findall(r"`(\w+)`", told(cls)))
    for field in fields(cls):
        assert field.name in described, f"{cls.__name__}.{field.name} has no docstring"
        assert field.name in named, f"help({cls.__name__}) does not lead to {field.name}"
