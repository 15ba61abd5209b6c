"""The coefficients in core/functions.hpp: polynomials of least weighted error, by Remez's exchange.

    python tools/minimax.py            # all of them, as they stand in the header, lowest power first
    python tools/minimax.py exp atan   # some

Each list is followed by the largest error, relative to the function that is computed, of the polynomial with
coefficients rounded to float64.
"""

import sys
from collections.abc import Callable

from mpmath import (
    atan,
    atanh,
    cos,
    erf,
    erfc,
    exp,
    expm1,
    fabs,
    log,
    loggamma,
    lu_solve,
    matrix,
    mp,
    mpf,
    nstr,
    pi,
    polyval,
    sin,
    sqrt,
    taylor,
)

mp.dps = 120
Function = Callable[[mpf], mpf]


def remez(f: Function, weight: Function, low: mpf, high: mpf, terms: int) -> tuple[list[float], mpf]:
    """Coefficients of the polynomial p whose largest weight·|f − p| on [low, high] is least; that error."""
    middle, half = (low + high) / 2, (high - low) / 2

    def apart(x: mpf) -> mpf:  # differences of f cancel at 0: take a number beside it
        return x if fabs(x) > mpf("1e-20") else mpf("1e-20")

    def inside(steps: int, first: mpf) -> list[mpf]:
        return [
            apart(middle - half * cos(pi * (i + first) / steps)) for i in range(steps + 1 - int(2 * first))
        ]

    points, grid = inside(terms + 1, mpf("0.5")), inside(40 * terms, mpf(0))
    values, weights = [f(x) for x in grid], [fabs(weight(x)) for x in grid]
    for _ in range(12):
        rows, right = matrix(terms + 1, terms + 1), matrix(terms + 1, 1)
        for i, x in enumerate(points):
            for j in range(terms):
                rows[i, j] = ((x - middle) / half) ** j
            rows[i, terms] = (-1) ** i / fabs(weight(x))
            right[i] = f(x)
        scaled = list(lu_solve(rows, right))[:terms][::-1]
        errors = [
            w * (v - polyval(scaled, (x - middle) / half))
            for x, v, w in zip(grid, values, weights, strict=True)
        ]
        extremes: list[int] = []  # the largest of every run of one sign
        for i, e in enumerate(errors):
            if not extremes or errors[extremes[-1]] * e < 0:
                extremes.append(i)
            elif fabs(e) > fabs(errors[extremes[-1]]):
                extremes[-1] = i
        while len(extremes) > terms + 1:
            del extremes[0 if fabs(errors[extremes[0]]) < fabs(errors[extremes[-1]]) else -1]
        better = [grid[i] for i in extremes]
        if len(better) <= terms or better == points:
            break
        points = better
    rounded = [float(c) for c in taylor(lambda x: polyval(scaled, (x - middle) / half), 0, terms - 1)]
    back = [mpf(c) for c in rounded][::-1]
    return rounded, max(w * fabs(v - polyval(back, x)) for x, v, w in zip(grid, values, weights, strict=True))


def erfc_factor(t: mpf) -> mpf:
    """(1 + 2x) exp(x²) erfc(x) at the x for which t = (x − 3)/(x + 3)."""
    t = min(t, 1 - mpf("1e-25"))
    x = 3 * (1 + t) / (1 - t)
    return (1 + 2 * x) * exp(x * x) * erfc(x)


def between(x: mpf) -> mpf:
    """The t of that x."""
    return (x - 3) / (x + 3)


ROOM = mpf("1.0001")  # arguments may be beyond their interval by rounding
HALF_LOG2, EIGHTH, FOURTH = ROOM * log(mpf(2)) / 2, ROOM * (sqrt(mpf(2)) - 1), ROOM * pi / 4
LONGEST = ROOM * (sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)  # s of the logarithm
QUARTER, ONE = ROOM / 4, mpf(1)

# f, weight, interval and number of terms; z is a square.
TABLES: dict[str, tuple[Function, Function, mpf, mpf, int]] = {
    # exp r = 1 + r + r² p(r); the weight is that of expm1
    "exp": (lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / expm1(r), -HALF_LOG2, HALF_LOG2, 11),
    # 2 artanh s = 2s + s z p(z)
    "log": (lambda z: 2 * (atanh(sqrt(z)) / sqrt(z) - 1) / z, lambda z: z / 2, mpf(0), LONGEST**2, 7),
    # log Γ(1 + t) = t p(t), log Γ(3/2 + t) = −1/8 + p(t), log Γ(2 + t) = t p(t)
    "lgamma_near_1": (lambda t: loggamma(1 + t) / t, lambda t: ONE, -QUARTER, QUARTER, 18),
    "lgamma_near_1_5": (
        lambda t: loggamma(t + 1.5) + mpf("0.125"),
        lambda t: 1 / loggamma(t + 1.5),
        -QUARTER,
        QUARTER,
        16,
    ),
    "lgamma_near_2": (lambda t: loggamma(2 + t) / t, lambda t: ONE, -QUARTER, ROOM, 19),
    # erf x = x p(z); erfc x = exp(−x²) (5/4 + p(t))/(1 + 2x)
    "erf": (lambda z: erf(sqrt(z)) / sqrt(z), lambda z: ONE, mpf(0), ROOM * mpf("0.45") ** 2, 9),
    "erfc": (lambda t: erfc_factor(t) - mpf("1.25"), lambda t: ONE, between(mpf("0.449")), ONE, 24),
    # sin r = r + r z p(z), cos r = 1 − z/2 + z² p(z), atan u = u + u z p(z)
    "sin": (lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, lambda z: z, mpf(0), FOURTH**2, 6),
    "cos": (lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2, mpf(0), FOURTH**2, 6),
    "atan": (lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, lambda z: z, mpf(0), EIGHTH**2, 12),
}


def main(names: list[str]) -> None:
    """Prints the tables of these names, or all."""
    for name in names or list(TABLES):
        coefficients, error = remez(*TABLES[name])
        print(f"{name}: error 2^{nstr(log(error, 2), 4)}")
        print("    " + ", ".join(map(repr, coefficients)))


if __name__ == "__main__":
    main(sys.argv[1:])
