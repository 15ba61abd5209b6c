"""Tables with bars: where lines and marks stand, at every width."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from linmed.report.tables import Table
from linmed.report.text_report import Scale, bar, cell_len, ends, render

NAN = math.nan


def table(rows, first="target", **extras):
    """Rows of (name, estimate, lower, upper)."""
    columns = dict(zip((first, "estimate", "lower", "upper"), zip(*rows, strict=True), strict=True))
    return Table({**columns, **extras})


def row(estimate, lower, upper):
    return {"estimate": estimate, "lower": lower, "upper": upper}


USUAL = Table(
    {
        "target": ["uniform"] * 3 + ["LinMED-90 (sigma=0.5)"] * 3,
        "estimator": ["ipw", "snipw", "dr"] * 2,
        "estimate": [0.491, 0.488, 0.490, 0.551, 0.547, 0.561],
        "lower": [0.451, 0.451, 0.471, 0.501, 0.501, 0.520],
        "upper": [0.531, 0.531, 0.521, 0.620, 0.620, 0.600],
        "n": [1000] * 6,
        "effective_n": [412.3] * 3 + [88.2] * 3,
        "valid": ["any time"] * 6,
    }
)


UNIT, BOTH = Scale(0.0, 1.0, 0.1), Scale(-1.0, 1.0, 0.2)


@pytest.mark.parametrize(
    ("numbers", "scale", "drawn"),
    [
        ((0.5, 0.2, 0.8), UNIT, "  ├──●──┤"),
        ((0.5, 0.0, 1.0), UNIT, "├────●────┤"),
        ((0.1, 0.5, 0.7), UNIT, " ●   ├─┤"),  # the estimate outside its interval
        ((0.0, 1.0, 1.0), UNIT, "●         │"),  # an interval of one point
        ((NAN, 0.5, 0.7), UNIT, "     ├─┤"),
        ((0.5, NAN, NAN), UNIT, "no interval"),
        ((7.0, 0.5, 0.7), UNIT, "     ├─┤  ▸"),  # beyond the scale
        ((-7.0, 0.5, 0.7), UNIT, "◂    ├─┤"),
        ((0.8, 0.6, 1.0), BOTH, "     ┊  ├●┤"),  # zero, where the scale crosses it
        ((0.6, -0.4, 1.0), BOTH, "   ├─┼──●─┤"),
    ],
)
def test_a_bar_shows_the_interval_and_the_estimate_on_the_scale(numbers, scale, drawn):
    assert bar(row(*numbers), scale, 11) == drawn


def test_the_ends_of_a_scale_stand_above_it_and_zero_between_them():
    assert ends(BOTH, 15) == "-1.0   0    1.0"
    assert ends(UNIT, 11) == "0.0     1.0"


@given(st.lists(st.floats(-1e12, 1e12), min_size=1), st.sampled_from([1e-9, 1e-3, 1.0, 1e6]))
@example([5e-324], 1.0)
def test_a_scale_holds_all_values_between_round_ends(values, size):
    values = [value * size for value in values]
    scale = Scale.over([*values, NAN])
    spare = 1e-6 * scale.step
    assert scale.low < scale.high
    assert all(scale.low - spare <= value <= scale.high + spare for value in values)
    steps = (scale.high - scale.low) / scale.step
    assert steps == pytest.approx(round(steps), abs=1e-3)
    assert 2 <= round(steps) <= 12 or max(values) - min(values) <= 1e-12 * max(map(abs, values))


def test_the_scale_follows_the_intervals_and_not_a_wild_estimate():
    assert Scale.of([row(0.1, 0.03, 0.2)])[:2] == pytest.approx((0.0, 0.2))  # zero is near
    assert Scale.of([row(-0.1, -0.2, -0.03)])[:2] == pytest.approx((-0.2, 0.0))
    assert Scale.of([row(50.0, 0.4, 0.8), row(0.9, 0.5, 0.6)])[:2] == pytest.approx((0.4, 0.9))
    assert Scale.of([row(0.5, NAN, NAN), row(0.7, NAN, NAN)])[:2] == pytest.approx((0.5, 0.7))


@pytest.mark.parametrize("width", [1, 40, 60, 80, 200])
def test_every_number_is_told_within_every_width(width):
    text = render(USUAL, width)
    assert max(map(cell_len, text.splitlines())) <= max(width, 24)
    words = " ".join(text.split())
    told = ("uniform", "LinMED-90 (sigma=0.5)", "snipw", "0.491", "0.451", "0.531", "412", "88.2", "1,000")
    assert all(word in words for word in told)
    assert text.count("●") == 6
    assert "0.44" in text  # the ends of the scale
    assert "0.62" in text


def test_eighty_columns_hold_a_line_a_row():
    lines = render(USUAL, 80).splitlines()
    assert lines[1] == "uniform"
    assert lines[2].split()[:5] == ["ipw", "0.491", "0.451", "0.531", "412"]
    assert lines[-1] == "all rows: n 1,000, valid any time"
    assert len(lines) == 1 + 2 + 6 + 1
    assert len(render(USUAL, 100).splitlines()) == 1 + 6 + 1


@pytest.mark.parametrize("width", [40, 80])
def test_an_interval_that_is_not_there_is_said_so(width):
    text = render(table([("a", 0.5, 0.4, 0.6), ("b", 0.0, NAN, NAN)]), width)
    (line,) = [line for line in text.splitlines() if line.startswith("b ")]
    assert "no interval" in line
    assert "nan" not in text
    alone = render(table([("b", 0.0, NAN, NAN)], valid=["—"]), width)
    assert alone.splitlines()[-1] == "no interval"


def test_any_table_of_estimates_can_be_drawn():
    rows = [("blue", 0.21, 0.19, 0.24), ("red", 0.27, 0.25, 0.30)]
    text = render(table(rows, "candidate", n=[10, 20], effective_n=[9.0, 18.5], left=[False, True]), 80)
    assert text.splitlines()[0].split()[:7] == ["candidate", "estimate", "lower", "upper", "n", "eff.", "n"]
    assert text.splitlines()[2].split()[:7] == ["red", "0.270", "0.250", "0.300", "20", "18.5", "yes"]
    assert render(table(rows, "group"), 80).startswith("group ")
    assert render(Table(table(rows).to_arrow().slice(0, 0))) == "(an empty table)"


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ((0.0030, 0.0015, 0.1663), ("0.0030", "0.0015", "0.1663")),
        ((0.00001, -0.05, 0.05), ("0.000", "-0.050", "0.050")),
        ((1234.5, 1200.25, 1270.0), ("1234", "1200", "1270")),
        ((1.0, 0.987, 1.0), ("1.000", "0.987", "1.000")),
        ((2e10, 1e10, 3e10), ("2e+10", "1e+10", "3e+10")),
        ((1.0, 1.0, 1.0), ("1.000", "1.000", "1.000")),
    ],
)
def test_numbers_have_the_digits_that_their_interval_gives_a_meaning(numbers, shown):
    assert render(table([("a", *numbers)]), 80).splitlines()[1].split()[1:4] == list(shown)


def test_names_can_neither_steer_the_terminal_nor_shift_the_columns():
    rows = [("\x1b[31mred\n", 0.5, 0.4, 0.6), ("日本", 0.5, 0.4, 0.6)]
    text = render(table(rows), 80)
    assert "\x1b" not in text
    assert r"\x1b[31mred\n" in text
    starts = [cell_len(line[: line.index("├")]) for line in text.splitlines() if "├" in line]
    assert len(starts) == 2
    assert len(set(starts)) == 1
