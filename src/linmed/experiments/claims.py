"""The paper's claims as predicates over the results: each gives the numbers and a verdict.

Where the paper says "close", "well below" or "near", the claim's text here says what was taken for it.
Intervals are 95 % (Student's t over paired trials); a statement is undecided while its interval
contains the border.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from linmed.checks import Floats
from linmed.experiments.catalogue import (
    ARM_COUNTS,
    BALL_ARMS,
    DELAYS,
    DIMENSIONS,
    EPSILONS,
    MATCHED,
    OVER,
    UNDER,
)
from linmed.experiments.findings import Findings
from linmed.experiments.lineup import LINMED
from linmed.experiments.offline import LINMED_EXACT, LINTS_EXACT, ORACLE, SAMPLES, floor_column
from linmed.experiments.statistics import (
    Estimate,
    Verdict,
    deviation,
    growth,
    jackknife,
    mean,
    ratio,
    slope,
    together,
)

CLOSE = 2.0
"""A regret is "close to" or "among" others up to this factor, and "well" below them beyond it."""
ROOT = (0.35, 0.65)
"""Exponents that count as "like √n"."""
LINEAR = 0.8
"""Exponents above this count as "nearly linear"."""
LITTLE = 1.5
"""A change of regret by less than this factor is "little"."""
PUBLISHED = {1_000: (0.906, 0.099), 10_000: (0.819, 0.069), 100_000: (0.799, 0.039)}
"""M → mean and "standard deviation" of the paper's table."""


@dataclass(frozen=True)
class Row:
    """A line of the ledger."""

    experiment: str
    claim: str
    measured: str
    verdict: Verdict


def ledger(findings: Iterable[Findings]) -> list[Row]:
    """Every claim about these experiments."""
    return [_fair(found, row) for found in findings for row in CLAIMS[found.experiment.name](found)]


def as_records(rows: Iterable[Row]) -> list[dict[str, str]]:
    """The rows as JSON-ready values."""
    return [asdict(row) for row in rows]


def _fair(found: Findings, row: Row) -> Row:
    """A claim about the paper's horizon is not refuted by a shorter one."""
    if row.verdict != "fails" or not found.shortened:
        return row
    paper = found.experiment.sizes["paper"].horizon
    measured = f"{row.measured}; not so after {found.horizon:,} rounds, the claim is about {paper:,}"
    return Row(row.experiment, row.claim, measured, "undecided")


def _row(found: Findings, claim: str, parts: Iterable[tuple[str, Estimate, Verdict]]) -> Row:
    """A claim that needs all of its parts: what to print around each number, the number, its verdict."""
    listed = list(parts)
    marks = {"holds": "", "fails": " (✗)", "undecided": " (?)"}
    several = len({verdict for _, _, verdict in listed}) > 1
    measured = "; ".join(
        label.format(estimate) + (marks[verdict] if several else "") for label, estimate, verdict in listed
    )
    return Row(found.experiment.name, claim, measured, together(verdict for _, _, verdict in listed))


# ---- large-gap ------------------------------------------------------------------------------------------


def _large_gap(found: Findings) -> Iterator[Row]:
    key = ("all",)
    worse = ("SpannerIGW", "SpannerIGW-AT", "LinTS-Freq", "EXP2", "LinIMED-1")
    for name in LINMED:
        ratios = {rival: ratio(found.final(name, *key), found.final(rival, *key)) for rival in worse}
        yield _row(
            found,
            f"{name} has lower regret than {', '.join(worse[:-1])} and {worse[-1]}",
            [(f"{{}} × {rival}'s", r, r.below(1.0)) for rival, r in ratios.items()],
        )
    for name in LINMED:
        ratios = {
            rival: ratio(found.final(name, *key), found.final(rival, *key))
            for rival in ("OFUL", "LinTS-Bayes")
        }
        yield _row(
            found,
            f"{name} is close to OFUL and LinTS-Bayes (at most {CLOSE:g} times their regret)",
            [(f"{{}} × {rival}'s", r, r.below(CLOSE)) for rival, r in ratios.items()],
        )
    horizons = sorted(float(s.key[1]) for s in found.settings if s.key[0] == "horizon")
    if horizons:
        sizes = [*horizons, float(found.horizon)]
        for name in ("SpannerIGW", "EXP2"):
            finals = [
                found.final(name, *s.key) for n in horizons for s in found.settings if s.key == ("horizon", n)
            ]
            p = growth(sizes, *finals, found.final(name, *key))
            inside = slope(found.rounds(*key), found.curves(name, *key), found.horizon / 10)
            row = _row(
                found,
                f"{name}'s regret grows like √n (exponent between {ROOT[0]} and {ROOT[1]}, over "
                f"runs of {sizes[0]:,.0f} to {sizes[-1]:,.0f} rounds)",
                [("exponent {}", p, p.within(*ROOT))],
            )
            yield Row(
                row.experiment, row.claim, f"{row.measured}; within the longest run {inside}", row.verdict
            )
            yield _row(
                found,
                f"{name}'s regret grows at least like √n, as its lower bound says (exponent above 0.45, "
                f"over the same runs)",
                [("exponent {}", p, p.above(0.45))],
            )
    yield _row(
        found,
        f"SpannerIGW-AT's regret grows like √t (exponent of the last decade between {ROOT[0]} and {ROOT[1]})",
        [("exponent {}", p := _last_decade(found, "SpannerIGW-AT", *key), p.within(*ROOT))],
    )
    exponents = {name: _last_decade(found, name, *key) for name in LINMED}
    yield _row(
        found,
        "LinMED's regret grows clearly slower than √t (exponent of the last decade below 0.5)",
        [(f"{name} {{}}", p, p.below(0.5)) for name, p in exponents.items()],
    )
    yield _among_best(found, "", [("×{}", key)])


def _last_decade(found: Findings, name: str, *key: str | float) -> Estimate:
    return slope(found.rounds(*key), found.curves(name, *key), found.results[key].horizon / 10)


def _among_best(found: Findings, where: str, cells: list[tuple[str, tuple[str | float, ...]]]) -> Row:
    parts = []
    for label, key in cells:
        others = [found.final(name, *key) for name in found.names(*key) if name != "LinIMED-3"]
        r = jackknife(
            lambda own, *rest: own.mean() / min(x.mean() for x in rest),
            found.final("LinIMED-3", *key),
            *others,
        )
        parts.append((label, r, r.below(CLOSE)))
    claim = f"LinIMED-3 is among the best{where} (at most {CLOSE:g} times the lowest regret of the others)"
    return _row(found, claim, parts)


# ---- end-of-optimism ------------------------------------------------------------------------------------


def _end_of_optimism(found: Findings) -> Iterator[Row]:
    for noise in (MATCHED, OVER):
        ratios = {
            eps: ratio(found.final("LinMED-99", eps, noise), found.final("LinTS-Freq", eps, noise))
            for eps in EPSILONS
        }
        yield _row(
            found,
            f"{noise}: LinMED-99 ends well below LinTS-Freq (less than 1/{CLOSE:g} of its regret)",
            [(f"ε={eps}: ×{{}}", r, r.below(1 / CLOSE)) for eps, r in ratios.items()],
        )
    for name in ("OFUL", "LinIMED-1"):
        yield from _deteriorates(found, name)
    for name in ("OFUL", "LinTS-Bayes"):
        slopes = {eps: _last_decade(found, name, eps, UNDER) for eps in EPSILONS}
        yield _row(
            found,
            f"{UNDER}: {name} becomes nearly linear (exponent of the last decade above {LINEAR})",
            [(f"ε={eps}: {{}}", p, p.above(LINEAR)) for eps, p in slopes.items()],
        )
    for other in ("LinMED-90", "LinMED-50"):
        ratios = {
            eps: ratio(found.final("LinMED-99", eps, UNDER), found.final(other, eps, UNDER))
            for eps in EPSILONS
        }
        yield _row(
            found,
            f"{UNDER}: LinMED-99 suffers more than {other}",
            [(f"ε={eps}: ×{{}}", r, r.above(1.0)) for eps, r in ratios.items()],
        )
    for noise in (MATCHED, OVER, UNDER):
        yield _among_best(found, f", {noise}", [(f"ε={eps}: ×{{}}", (eps, noise)) for eps in EPSILONS])


def _deteriorates(found: Findings, name: str) -> Iterator[Row]:
    early = found.horizon / 100
    both = [(eps, noise) for noise in (MATCHED, OVER) for eps in EPSILONS]
    label = {cell: f"ε={cell[0]}, {cell[1]}:" for cell in both}

    def relative(cell: tuple[float, str], round_: float) -> tuple[Floats, Floats]:
        return found.at(round_, name, *cell), found.at(round_, "LinMED-99", *cell)

    starts = {cell: ratio(*relative(cell, early)) for cell in both}
    yield _row(
        found,
        f"{name} starts well (below LinMED-99 after {early:,.0f} rounds)",
        [(f"{label[cell]} ×{{}}", r, r.below(1.0)) for cell, r in starts.items()],
    )
    changes = {
        cell: _ratio_of_ratios(*relative(cell, found.horizon), *relative(cell, early)) for cell in both
    }
    yield _row(
        found,
        f"{name} deteriorates (its regret relative to LinMED-99's grows from round {early:,.0f} on)",
        [(f"{label[cell]} ×{{}}", r, r.above(1.0)) for cell, r in changes.items()],
    )
    end = found.horizon
    small = {
        n: _ratio_of_ratios(*relative((0.005, n), end), *relative((0.02, n), end)) for n in (MATCHED, OVER)
    }
    yield _row(
        found,
        f"{name} is worst at small ε (final regret relative to LinMED-99's, ε = 0.005 over ε = 0.02)",
        [(f"{n}: ×{{}}", r, r.above(1.0)) for n, r in small.items()],
    )
    noise = {
        eps: _ratio_of_ratios(*relative((eps, OVER), end), *relative((eps, MATCHED), end)) for eps in EPSILONS
    }
    yield _row(
        found,
        f"{name} is worse with σ² over-specified (final regret relative to LinMED-99's, {OVER} "
        f"over {MATCHED})",
        [(f"ε={eps}: ×{{}}", r, r.above(1.0)) for eps, r in noise.items()],
    )


def _ratio_of_ratios(a: Floats, b: Floats, c: Floats, d: Floats) -> Estimate:
    """(mean a / mean b) / (mean c / mean d)."""
    return jackknife(lambda w, x, y, z: (w.mean() / x.mean()) / (y.mean() / z.mean()), a, b, c, d)


# ---- arm-count ------------------------------------------------------------------------------------------


def _arm_count(found: Findings) -> Iterator[Row]:
    def exponent(name: str) -> Estimate:
        return growth(ARM_COUNTS, *(found.final(name, K) for K in ARM_COUNTS))

    p = exponent("LinMEDNOPT")
    yield _row(
        found,
        "LinMEDNOPT's regret grows in proportion to K (exponent between 0.7 and 1.3)",
        [("exponent {}", p, p.within(0.7, 1.3))],
    )
    yield _row(
        found,
        "LinMED's regret does not grow with K (exponent between −0.2 and 0.2)",
        [(f"{name} {{}}", q := exponent(name), q.within(-0.2, 0.2)) for name in LINMED],
    )


# ---- delayed-rewards ------------------------------------------------------------------------------------


def _delayed(found: Findings) -> Iterator[Row]:
    longest = DELAYS[-1]

    def rise(name: str) -> Estimate:
        return mean(found.final(name, longest) - found.final(name, 0))

    own = rise("OFUL")
    yield _row(
        found,
        f"OFUL's regret rises with the delay (from none to {longest} rounds)",
        [("by {}", own, own.above(0.0))],
    )
    for name in (*LINMED, "LinTS-Bayes"):
        gap = mean(
            found.final("OFUL", longest)
            - found.final("OFUL", 0)
            - CLOSE * (found.final(name, longest) - found.final(name, 0))
        )
        verdict = together([own.above(0.0), gap.above(0.0)])  # a rise there must be, to be larger
        claim = f"OFUL deteriorates with the delay much more than {name} (more than {CLOSE:g} times its rise)"
        yield Row(found.experiment.name, claim, f"rise of {own} against {rise(name)}", verdict)


# ---- unit ball ------------------------------------------------------------------------------------------


def _dimension(found: Findings) -> Iterator[Row]:
    lowest, highest = DIMENSIONS[0], DIMENSIONS[-1]
    rises = {
        n: ratio(found.final("LinTS-Freq", n, highest), found.final("LinTS-Freq", n, lowest))
        for n in (MATCHED, OVER, UNDER)
    }
    yield _row(
        found,
        f"LinTS-Freq deteriorates with d (regret at d = {highest} over d = {lowest})",
        [(f"{n}: ×{{}}", r, r.above(1.0)) for n, r in rises.items()],
    )
    yield from _misspecified(found, DIMENSIONS, "d")
    beats = {
        n: ratio(found.final("LinMED-90", n, highest), found.final("LinMED-99", n, highest))
        for n in (MATCHED, OVER, UNDER)
    }
    yield _row(
        found,
        f"LinMED-90 beats LinMED-99 at d = {highest}",
        [(f"{n}: ×{{}}", r, r.below(1.0)) for n, r in beats.items()],
    )


def _ball_arms(found: Findings) -> Iterator[Row]:
    yield from _misspecified(found, BALL_ARMS, "K")
    lowest, highest = BALL_ARMS[0], BALL_ARMS[-1]
    changes = {
        name: ratio(found.final(name, MATCHED, highest), found.final(name, MATCHED, lowest))
        for name in found.names(MATCHED, lowest)
    }
    yield _row(
        found,
        f"No method depends on K (regret at K = {highest} within a factor {CLOSE:g} of K = {lowest}, "
        f"{MATCHED})",
        [(f"{name} ×{{}}", r, r.within(1 / CLOSE, CLOSE)) for name, r in changes.items()],
    )


def _misspecified(found: Findings, sizes: tuple[int, ...], symbol: str) -> Iterator[Row]:
    rises = {
        size: ratio(found.final("LinTS-Freq", OVER, size), found.final("LinTS-Freq", MATCHED, size))
        for size in sizes
    }
    yield _row(
        found,
        f"LinTS-Freq deteriorates with over-specified σ (regret with {OVER} over {MATCHED})",
        [(f"{symbol}={size}: ×{{}}", r, r.above(1.0)) for size, r in rises.items()],
    )
    for name in LINMED:
        parts = []
        for noise in (OVER, UNDER):
            for size in sizes:
                r = ratio(found.final(name, noise, size), found.final(name, MATCHED, size))
                parts.append((f"{noise}, {symbol}={size}: ×{{}}", r, r.within(1 / LITTLE, LITTLE)))
        yield _row(
            found,
            f"{name} is little affected by mis-specified σ (regret changes by less than a factor {LITTLE:g})",
            parts,
        )
    parts = []
    for size in sizes:
        others = [
            found.final(name, MATCHED, size) for name in found.names(MATCHED, size) if name != "LinIMED-3"
        ]
        r = jackknife(
            lambda own, *rest: own.mean() / float(np.median([x.mean() for x in rest])),
            found.final("LinIMED-3", MATCHED, size),
            *others,
        )
        parts.append((f"{symbol}={size}: ×{{}}", r, r.above(CLOSE)))
    yield _row(
        found,
        f"LinIMED-3 is notably poor (more than {CLOSE:g} times the median of the others, {MATCHED})",
        parts,
    )


# ---- offline-evaluation ---------------------------------------------------------------------------------

RESOLUTION = 0.02
"""Means whose three standard errors exceed this cannot tell the largest published bias, 0.1, from little."""


def agrees(estimate: Estimate, published: float, rounding: float) -> Verdict:
    """Whether a published mean is reproduced: within three standard errors, or within its rounding."""
    reach = 3.0 * estimate.error
    if not reach <= RESOLUTION:
        return "undecided"
    return "holds" if abs(estimate.value - published) <= max(reach, rounding) else "fails"


def _offline(found: Findings) -> Iterator[Row]:
    def row(claim: str, measured: str, verdict: Verdict) -> Row:
        return Row(found.experiment.name, claim, measured, verdict)

    own = mean(found.scores[LINMED_EXACT])
    yield row(
        "The uniform policy's mean IPW score from LinMED-50's log is 0.800 to two decimals",
        _decimals(own),
        agrees(own, ORACLE, 0.005),
    )
    for M in SAMPLES:
        sample = found.scores[floor_column(M)]
        estimate = mean(sample)
        rest = mean(np.delete(sample, sample.argmax()))  # tails are heavy: one trial can carry the error
        yield row(
            f"From LinTS-Freq's log with M = {M:,} Monte-Carlo samples it is {PUBLISHED[M][0]:.3f}",
            f"{_decimals(estimate)}; without the largest score ({sample.max():.1f}) {_decimals(rest)}",
            agrees(estimate, PUBLISHED[M][0], 0.0005),
        )
    exact = mean(found.scores[LINTS_EXACT])
    yield row(
        "With LinTS-Freq's exact probabilities the score is unbiased: the bias is the estimates' "
        "(our addition)",
        _decimals(exact),
        agrees(exact, ORACLE, 0.0005),
    )
    spreads = {M: deviation(found.scores[floor_column(M)]) for M in SAMPLES}
    measured = "; ".join(
        f"M = {M:,}: standard deviation {s.value:.3f} ± {s.error:.3f}, variance {s.value**2:.4f}"
        for M, s in spreads.items()
    )
    yield row(
        "The standard deviations of those scores are 0.099, 0.069 and 0.039",
        measured,
        together(agrees(s, PUBLISHED[M][1], 0.0005) for M, s in spreads.items()),
    )


def _decimals(estimate: Estimate) -> str:
    return f"{estimate.value:.4f} ± {estimate.error:.4f}"


CLAIMS: dict[str, Callable[[Findings], Iterator[Row]]] = {
    "offline-evaluation": _offline,
    "arm-count": _arm_count,
    "large-gap": _large_gap,
    "end-of-optimism": _end_of_optimism,
    "delayed-rewards": _delayed,
    "unit-ball-dimension": _dimension,
    "unit-ball-arms": _ball_arms,
}
"""By experiment."""
