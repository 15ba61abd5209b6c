"""The table of policies: printed, documented, and true."""

import re
from pathlib import Path

import numpy as np
import pytest

from linmed import policies
from linmed.policies.table import COLUMNS, compositions, markdown, rows, text
from tests.policies.toy import random_state, sphere

GUIDE = Path(__file__).parents[2] / "docs" / "policies.md"


def test_every_exported_policy_has_a_row():
    assert [row[0] for row in rows()] == [cls.__name__ for cls in policies.ALL]
    assert all(len(row) == len(COLUMNS) and all(row) for row in rows())
    assert {cls.__name__ for cls in policies.ALL} <= set(policies.__all__)


def test_the_printed_table_holds_every_policy():
    lines = text().splitlines()
    assert max(map(len, lines)) <= 80
    assert all(any(line.split()[:1] == [cls.__name__] for line in lines) for cls in policies.ALL)


def test_the_guide_holds_the_table_as_it_is():
    inside = re.search(r"<!-- table -->\n\n(.*)\n<!-- /table -->", GUIDE.read_text(), re.S)[1]
    assert inside == markdown(), (
        "docs/policies.md is out of date: paste linmed.policies.table.markdown() there"
    )


def test_the_guide_says_what_goes_around_what():
    """Each cell is made, decides and learns, and its probabilities are checked, or its reason is given."""
    text = GUIDE.read_text()
    inside = re.search(r"<!-- compositions -->\n\n(.*)\n<!-- /compositions -->", text, re.S)[1]
    assert inside == compositions(), (
        "docs/policies.md is out of date: paste linmed.policies.table.compositions() there"
    )


def test_the_columns_of_the_paper_are_those_of_its_table_1():
    paper = {row[0]: (row[2], row[3], row[5], row[7]) for row in rows() if row[5] != "—"}
    assert paper == {
        "OFUL": ("d √n", "d² log³(n) / Δ", "N/A", "no"),
        "LinIMED": ("d √n", "unknown", "N/A", "no"),
        "LinTS": ("d √(d n)", "unknown", "no", "no"),
        "RandUCB": ("d √n", "unknown", "no", "no"),
        "SquareCB": ("√(K d n)", "unknown", "yes", "no"),
        "E2D": ("d √n", "unknown", "yes", "no*"),
        "SpannerIGW": ("d √n", "at least Δ √n", "yes", "no*"),
        "EXP2": ("√(d n log K)", "at least Δ √n", "yes", "yes"),
        "LinMED": ("d √n", "d² log²(n) / Δ", "yes", "yes"),
    }


RIDGE = [cls for cls in policies.ALL if issubclass(cls, policies.RidgePolicy)]


@pytest.mark.parametrize("cls", RIDGE, ids=lambda cls: cls.__name__)
def test_all_arms_positive_says_what_happens(cls):
    """60 arms in 3 dimensions, one inside their hull, after 2,000 rewards, when every rule is decided."""
    arms = sphere(60, 3)
    arms[0, 0] *= 0.1
    policy = cls()
    p = np.exp(policy.log_probabilities(random_state(policy, arms, 2000), arms))
    declared = cls.properties.all_arms
    assert (p > 0).all() == (declared == "yes")
    for parameter in ("floor", "epsilon"):
        if f"{parameter} > 0" in declared:
            policy = cls(**{parameter: 0.06})
            log_p = policy.log_probabilities(random_state(policy, arms, 2000), arms)
            assert (log_p >= np.log(0.001) - 1e-9).all()


@pytest.mark.parametrize(
    "cls", [c for c in RIDGE if not c.properties.randomised], ids=lambda cls: cls.__name__
)
def test_a_rule_that_is_not_randomised_plays_one_arm(cls):
    arms = sphere(60, 3)
    policy = cls()
    p = np.exp(policy.log_probabilities(random_state(policy, arms, 50), arms))
    assert p.max() == 1
