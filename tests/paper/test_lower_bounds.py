"""Theorems 3 and 4 beside runs, and regret without chance beside runs with it."""

from dataclasses import replace

import numpy as np
import pytest

from linmed.environments import EndOfOptimism, LargeGap
from linmed.paper import EXPERIMENTS
from linmed.paper.drawing import drawings
from linmed.paper.experiment import THEORY
from linmed.paper.lower_bounds import ANYTIME, TOLD, horizons_up_to
from linmed.paper.theory_overlay import FAR, draw_theory, mean_field, overlay
from linmed.policies import LinMED
from linmed.simulation import simulate

LOWER = EXPERIMENTS["lower-bounds"]


def played(plan, keys=None):
    results = {
        s.key: simulate(s.policies, s.environment, s.horizon, plan.trials, plan.seed, progress=False)
        for s in plan.settings
        if keys is None or s.key in keys
    }
    return replace(plan, results=results)


@pytest.fixture(scope="module")
def found():
    return played(LOWER.plan("quick", "text", horizon=10_000, trials=40))


def test_it_is_the_instance_of_the_proofs_and_nobody_is_told_that_there_is_no_noise():
    for variant in ("text", "as-run"):
        for setting in LOWER.settings(variant, 1_000):
            assert setting.environment == LargeGap(sigma=0.0)
            assert setting.sigma == 1.0
            if setting.key[0] == TOLD:
                assert (
                    {policy.horizon for policy in setting.policies} == {setting.key[1]} == {setting.horizon}
                )
    assert LOWER.settings("text", 1_000)[-1].key == (ANYTIME, 1_000)


@pytest.mark.parametrize("last", [1, 40, 100, 999, 1_000, 123_456, 1_000_000])
def test_horizons_are_a_grid_that_ends_with_the_last(last):
    grid = horizons_up_to(last)
    assert grid[-1] == last
    assert len(grid) == 1 or grid[0] >= 100
    np.testing.assert_allclose(np.diff(np.log10(grid)), 0.5, atol=0.01)


def test_measured_regret_is_at_the_bounds_and_not_below_them(found):
    compared = LOWER.comparison(found)
    assert compared.horizons.tolist() == horizons_up_to(10_000)
    for name, bound in compared.bounds.items():
        assert (np.diff(bound) > 0).all()
        for estimate, least in zip(compared.measured[name], bound, strict=True):
            assert estimate.value > least - 4 * estimate.error
            assert estimate.value < least * 1.05 + 4 * estimate.error
    assert (compared.theorem < compared.bounds["EXP2"]).all()


def test_the_others_grow_as_they_should(found):
    compared = LOWER.comparison(found)
    assert compared.exponent("EXP2") == pytest.approx(0.5, abs=0.05)
    assert compared.exponent("SpannerIGW") > 0.5
    assert compared.measured["LinMED-90"][-1].value < compared.bounds["EXP2"][-1]
    assert [compared.measured["LinMED-90"][-1].value] == [found.final("LinMED-90", ANYTIME, 10_000).mean()]


def test_the_figure_and_the_table_say_it_all(found):
    (drawing,) = drawings(found)
    assert drawing.name == "lower-bounds"
    assert "no noise" in drawing.caption
    assert "10,000 rounds" in drawing.text
    (numbers,) = LOWER.numbers(found)
    assert len(numbers.columns) == 1 + 5
    assert [row[0] for row in numbers.rows] == [
        "SpannerIGW",
        "SpannerIGW: at least",
        "EXP2",
        "EXP2: at least",
        "SpannerIGW-AT",
        "LinMED-90",
        "EXP2: Theorem 3",
    ]


def test_one_short_run_is_enough_for_a_figure():
    (drawing,) = drawings(played(LOWER.plan("quick", "as-run", horizon=3, trials=1)))
    assert "nan" not in drawing.text
    assert drawing.png().startswith(b"\x89PNG")


# ---- regret without chance, and the theory figures


@pytest.mark.parametrize(
    ("environment", "rounds"), [(LargeGap(sigma=1.0), 30_000), (EndOfOptimism(eps=0.05, sigma=0.1), 100_000)]
)
@pytest.mark.parametrize("alpha_emp", [0.9, 0.5])
def test_regret_without_chance_is_near_the_mean_over_chance(environment, rounds, alpha_emp):
    policy = LinMED(sigma=environment.sigma, alpha_emp=alpha_emp)
    block = next(environment.blocks(np.random.default_rng(0)))
    limit = mean_field(policy, block.arms, block.means, rounds)
    results = simulate(policy, environment, rounds, 20, progress=False)
    assert limit.rounds[-1] == rounds
    assert limit.regret[-1] == pytest.approx(results.mean(policy.name)[-1], rel=0.15)


def test_the_exponents_of_regret_without_chance_turn_and_come_down_to_those_of_the_squared_logarithm():
    block = next(EndOfOptimism(eps=0.01, sigma=0.1).blocks(np.random.default_rng(0)))
    limit = mean_field(LinMED(sigma=0.1), block.arms, block.means, FAR)
    assert limit.exponent(1e5, 1e6) == pytest.approx(0.56, abs=0.03)
    assert 1e6 < limit.turn < 1e7
    assert limit.exponent(1e11, 1e12) < 0.12
    nearly_best = np.array([False, False, True])
    assert limit.share(nearly_best, 1e5, 1e6) > 0.8
    assert limit.share(~nearly_best, 1e5, 1e6) == pytest.approx(1 - limit.share(nearly_best, 1e5, 1e6))


@pytest.mark.parametrize("name", ["large-gap", "end-of-optimism"])
def test_theory_figures_name_the_problem_and_discuss_the_growth(name):
    found = played(EXPERIMENTS[name].plan("quick", "text", horizon=2_000, trials=3), [THEORY])
    curves = overlay(found)
    assert (curves.spanner_igw is None) == (name == "end-of-optimism")
    assert (curves.exp2 < curves.far.trivial).all()
    assert (curves.far.lemma <= curves.far.instance * (1 + 1e-9)).all()
    assert curves.far.begins(curves.far.instance) < curves.far.begins(curves.far.minimax) < FAR
    drawing = draw_theory(found)
    assert "σ = σ*" in drawing.caption
    assert "log² n" in drawing.text
    assert set(curves.decades) == {100}


@pytest.mark.parametrize(("name", "least"), [("large-gap", 8.6), ("end-of-optimism", 3_200)])
def test_the_orders_of_the_two_theorems_cross_where_they_are_equal(name, least):
    found = played(EXPERIMENTS[name].plan("quick", "text", horizon=50, trials=2), [THEORY])
    curves = overlay(found)
    n, problem = curves.orders_cross, curves.problem
    assert n == pytest.approx(least, rel=0.02)
    instance = (problem.d * problem.sigma * np.log(n)) ** 2 / problem.gap
    assert instance == pytest.approx(problem.sigma * problem.d * np.sqrt(n) * np.log(n) ** 1.5, rel=1e-6)
