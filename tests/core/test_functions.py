"""exp, log and the rest of core/functions.hpp, against mpmath with 60 digits."""

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest

from linmed.core import core

INF, NAN = math.inf, math.nan
LEAST, NORMAL, LARGEST = 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308
N = 2_000  # points for each function, besides its edges


def evaluate(name: str, x: np.ndarray, *more: np.ndarray) -> np.ndarray:
    out = np.full(x.size, NAN)
    getattr(core.functions, name)(x, *more, out)
    return out


def ulps(got: np.ndarray, exact: list) -> np.ndarray:
    """Errors in units in the last place of the exact value; not rounded to float64 first."""
    errors = np.empty(got.size)
    for i, (g, e) in enumerate(zip(got.tolist(), exact, strict=True)):
        nearest = float(e)
        if math.isinf(nearest) or not math.isfinite(g):
            errors[i] = 0.0 if g == nearest else INF
        else:
            errors[i] = float(abs(mpmath.mpf(g) - e) / mpmath.mpf(math.ulp(nearest)))
    return errors


def points(seed: int, *parts: tuple) -> np.ndarray:
    """N numbers in all, evenly in value or in logarithm, from each (kind, low, high[, offset])."""
    rng = np.random.default_rng(seed)
    each = -(-N // len(parts))
    drawn = []
    for kind, low, high, *offset in parts:
        u = rng.random(each)
        if kind == "even":
            x = low + (high - low) * u
        else:  # a ratio
            x = np.exp(math.log(low) + (math.log(high) - math.log(low)) * u)
            if kind == "both":
                x *= rng.choice([-1.0, 1.0], each)
        drawn.append(x + (offset[0] if offset else 0.0))
    return np.concatenate(drawn)


def around(*values: float) -> list[float]:
    """Each value with its four neighbours."""
    near = []
    for v in values:
        down, up = math.nextafter(v, -INF), math.nextafter(v, INF)
        near += [math.nextafter(down, -INF), down, v, up, math.nextafter(up, INF)]
    return near


LOG2 = math.log(2.0)
ROOT2 = math.sqrt(2.0)
REDUCED = [LOG2 * (n + 0.5) for n in (-1022, -1, 0, 1, 700)]  # where exp's whole part changes
CASES: dict[str, tuple[float, Callable, np.ndarray, list[float]]] = {
    # name: (largest error in ulps, exact, points, edges)
    "exp": (
        1.0,
        mpmath.exp,
        points(
            1, ("even", -745.0, 709.7), ("both", 1e-20, 1.0), ("even", -2.0, 2.0), ("even", -745.1, -708.0)
        ),
        around(-745.1332191019411, 709.782712893384, -708.3964185322641, 0.0, 1.0, *REDUCED),
    ),
    "exp2": (
        1.0,
        lambda x: mpmath.mpf(2) ** x,
        points(
            2,
            ("even", -1074.0, 1023.9),
            ("both", 1e-20, 1.0),
            ("even", -2.0, 2.0),
            ("even", -1074.9, -1022.0),
        ),
        around(-1074.0, -1022.0, -0.5, 0.0, 0.5, 1.0, 1024.0),
    ),
    "expm1": (
        1.2,
        mpmath.expm1,
        points(3, ("even", -60.0, 709.7), ("both", 1e-300, 1.0), ("even", -2.0, 2.0), ("even", 0.3, 0.5)),
        around(-60.0, 60.0, 709.782712893384, 0.0, NORMAL, *REDUCED[1:]),
    ),
    "log": (
        1.0,
        mpmath.log,
        points(
            4,
            ("ratio", 1e-323, 1.7e308),
            ("even", 0.5, 2.0),
            ("both", 1e-16, 0.5, 1.0),
            ("ratio", 1e-323, 1e-307),
        ),
        [*around(1.0, ROOT2, ROOT2 / 2, NORMAL, 2.0, 1e-310), LEAST, LARGEST],
    ),
    "log1p": (
        1.0,
        mpmath.log1p,
        points(
            5,
            ("ratio", 1e-300, 1.7e308),
            ("even", -0.999, 1.0),
            ("both", 1e-17, 0.5),
            ("ratio", 1.2e-16, 0.5, -1.0),
            ("even", -0.32, -0.28),
            ("even", 0.3, 8.0),
        ),
        [*around(0.0, ROOT2 - 1, ROOT2 / 2 - 1, 1.0, 2**53, -0.5), -1.0 + 2**-53, LARGEST],
    ),
    "log2": (
        1.0,
        lambda x: mpmath.log(x, 2),
        points(6, ("ratio", 1e-323, 1.7e308), ("even", 0.5, 2.0), ("both", 1e-16, 0.5, 1.0)),
        [*around(1.0, ROOT2, ROOT2 / 2, NORMAL, 2.0), LEAST, LARGEST],
    ),
    "tanh": (
        2.0,
        mpmath.tanh,
        points(7, ("even", -22.0, 22.0), ("both", 1e-300, 1.0), ("even", -1.0, 1.0)),
        around(0.0, 2**-28, 0.35, 1.0, 18.7, 19.1, 20.0, 1e300),
    ),
    "lgamma": (
        2.0,
        mpmath.loggamma,
        points(
            8,
            ("ratio", 1e-300, 1e305),
            ("even", 1e-3, 3.0),
            ("even", 2.0, 10.0),
            ("even", 8.0, 200.0),
            ("both", 1e-15, 0.4, 1.0),
            ("both", 1e-15, 0.5, 2.0),
        ),
        [*around(0.25, 0.75, 1.0, 1.25, 1.75, 2.0, 3.0, 8.0), LEAST, NORMAL, 1e305],
    ),
    "erfc": (
        2.0,
        mpmath.erfc,
        points(9, ("even", -6.0, 0.5), ("even", 0.4, 3.0), ("even", 0.45, 26.2), ("both", 1e-20, 1.0)),
        around(-27.0, -0.45, 0.0, 0.45, 1.0, 3.0, 26.2),
    ),
    "sin": (
        1.0,
        mpmath.sin,
        points(10, ("even", -10.0, 10.0), ("even", -1e5, 1e5), ("both", 1e-300, 1e9)),
        around(0.0, *(k * math.pi / 4 for k in (1, 2, 3, 4, 5, 99, 12345, 127323, 1_000_000_000))),
    ),
    "cos": (
        1.0,
        mpmath.cos,
        points(11, ("even", -10.0, 10.0), ("even", -1e5, 1e5), ("both", 1e-300, 1e9)),
        around(0.0, *(k * math.pi / 4 for k in (1, 2, 3, 4, 5, 99, 12345, 127323, 1_000_000_000))),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_errors(name):
    allowed, exact, inside, edges = CASES[name]
    x = np.concatenate([inside, edges])
    with mpmath.workdps(60):
        errors = ulps(evaluate(name, x), [exact(mpmath.mpf(v)) for v in x.tolist()])
    worst = int(np.argmax(errors))
    assert errors[worst] < allowed, f"{name}({x[worst]!r}) is {errors[worst]:.2f} ulp from the truth"


def test_errors_of_angles():
    rng = np.random.default_rng(12)
    x = np.concatenate([rng.uniform(-1, 1, N // 2), points(13, ("both", 1e-300, 1e300))[: N // 2]])
    y = np.concatenate([rng.uniform(-1, 1, N // 2), points(14, ("both", 1e-300, 1e300))[: N // 2]])
    x[::50] = y[::50] * (1 + 1e-15)
    with mpmath.workdps(60):
        exact = [
            mpmath.atan2(mpmath.mpf(b), mpmath.mpf(a)) for a, b in zip(x.tolist(), y.tolist(), strict=True)
        ]
        assert ulps(evaluate("atan2", y, x), exact).max() < 2.0


# Where a number is not to be had, or is exact.
SPECIAL: dict[str, dict[float, float]] = {
    "exp": {0.0: 1.0, INF: INF, -INF: 0.0, 1e308: INF, -1e308: 0.0, 709.79: INF, -745.14: 0.0},
    "exp2": {
        0.0: 1.0,
        INF: INF,
        -INF: 0.0,
        1024.0: INF,
        1023.0: 2.0**1023,
        -1074.0: LEAST,
        -1076.0: 0.0,
        10.0: 1024.0,
    },
    "expm1": {0.0: 0.0, INF: INF, -INF: -1.0, LEAST: LEAST, -1e308: -1.0, 1e308: INF},
    "log": {0.0: -INF, 1.0: 0.0, INF: INF, -1.0: NAN, -LEAST: NAN, -INF: NAN},
    "log1p": {0.0: 0.0, -1.0: -INF, INF: INF, -1.1: NAN, -INF: NAN, LEAST: LEAST},
    "log2": {0.0: -INF, 1.0: 0.0, 8.0: 3.0, INF: INF, -1.0: NAN, LEAST: -1074.0, 2.0**1023: 1023.0},
    "tanh": {0.0: 0.0, INF: 1.0, -INF: -1.0, LEAST: LEAST},
    "lgamma": {0.0: INF, 1.0: 0.0, 2.0: 0.0, INF: INF, -1.5: NAN, -INF: NAN, 1e308: INF},
    "erfc": {0.0: 1.0, INF: 0.0, -INF: 2.0, 28.0: 0.0, 1e308: 0.0, -1e308: 2.0},
    "sin": {0.0: 0.0, LEAST: LEAST, 1.1e9: NAN, -1.1e9: NAN, INF: NAN},
    "cos": {0.0: 1.0, LEAST: 1.0, 1.1e9: NAN, INF: NAN},
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name):
    zero = [(-0.0, -0.0)] if SPECIAL[name][0.0] == 0.0 else []  # odd functions keep its sign
    for x, wanted in [*SPECIAL[name].items(), *zero, (NAN, NAN)]:
        got = evaluate(name, np.array([x]))[0]
        same = math.isnan(got) if math.isnan(wanted) else got == wanted
        assert same, f"{name}({x}) is {got}"
        assert got != 0.0 or math.copysign(1.0, got) == math.copysign(1.0, wanted), f"{name}({x}) is {got}"


def test_special_angles():
    values = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, LEAST, -LEAST, 1e308, -1e308, NAN])
    y, x = (grid.ravel().copy() for grid in np.meshgrid(values, values))
    got = evaluate("atan2", y, x)
    for a, b, angle in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
        wanted = math.atan2(b, a)
        assert (math.isnan(angle) and math.isnan(wanted)) or repr(angle) == repr(wanted), (
            f"atan2({b}, {a}) is {angle}"
        )


def test_far_in_the_tail():
    """erfc keeps its relative accuracy down to 1e-300."""
    x = np.linspace(25.0, 26.2, 200)
    with mpmath.workdps(60):
        exact = [mpmath.erfc(mpmath.mpf(v)) for v in x.tolist()]
        assert min(exact) < 1e-299
        assert ulps(evaluate("erfc", x), exact).max() < 2.0


def test_monotone_where_pieces_meet():
    """No step back of more than rounding at the borders between two formulas."""
    for name, borders, sign in [
        ("erfc", (-0.45, 0.45), -1),
        ("lgamma", (3.0, 8.0), 1),
        ("log1p", (ROOT2 - 1, ROOT2 / 2 - 1), 1),
        ("tanh", (2**-28, 1.0, 20.0), 1),
        ("expm1", (60.0, LOG2 / 2), 1),
    ]:
        for border in borders:
            x = border + abs(border) * np.linspace(-1e-12, 1e-12, 65)
            y = sign * evaluate(name, x)
            assert (np.diff(y) >= -2.0 * np.spacing(np.abs(y[1:]))).all(), (name, border)


def test_lanes_have_the_bits_of_numbers():
    """Eight at once give what one at a time does."""
    down = -points(15, ("ratio", 1e-300, 707.9), ("even", 1e-9, 700.0))
    up = points(16, ("ratio", NORMAL, 1.7e308), ("even", 0.1, 4.0))
    assert down.size % 8 == 0
    assert np.array_equal(evaluate("exp_lanes", down), evaluate("exp", down))
    assert np.array_equal(evaluate("log_lanes", up), evaluate("log", up))
    flushed = evaluate("exp_lanes", np.array([0.0, -0.0, -708.0, -709.0, -INF, -1e308, -1e-320, -1.0]))
    assert flushed.tolist()[:7] == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
