"""Each claim answers to the numbers it is about, and to nothing else."""

import dataclasses

import numpy as np
import pytest

from linmed.experiments.catalogue import EXPERIMENTS
from linmed.experiments.claims import Between, Reproduces, ledger
from linmed.experiments.common import MATCHED, OVER, UNDER
from linmed.experiments.end_of_optimism import EPSILONS
from linmed.experiments.offline import LINMED_EXACT, LINTS_EXACT, SAMPLES, floor_column, plus_one_column
from linmed.experiments.statistics import Estimate
from linmed.simulation import Results, Run, checkpoints

TRIALS = 12


def findings(name, regret, horizon=None, trials=TRIALS, noise=0.0):
    """Results with mean regret(policy, key, t, horizon); trials differ by common luck and by noise."""
    plan = EXPERIMENTS[name].plan("paper", "text", horizon, trials)
    results = {}
    rng = np.random.default_rng(0)
    common = 1.0 + 0.01 * rng.standard_normal(trials)
    for setting in plan.settings:
        marks = checkpoints(setting.horizon)
        runs = {}
        for policy in setting.policies:
            curve = np.array(
                [regret(policy.name, setting.key, t, setting.horizon) for t in marks], dtype=float
            )
            luck = common * (1.0 + noise * rng.standard_normal(trials))
            runs[policy.name] = Run(
                policy, np.arange(trials), luck[:, None] * curve, np.zeros((trials, 2), dtype=np.int64), 1.0
            )
        results[setting.key] = Results(setting.environment, setting.horizon, 0, marks, runs)
    return dataclasses.replace(plan, results=results)


def verdicts(found):
    return {row.claim: row.verdict for row in ledger([found])}


def verdict(found, *words):
    rows = [row for row in ledger([found]) if all(word in row.claim for word in words)]
    assert len(rows) == 1, [row.claim for row in rows]
    return rows[0].verdict


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_claims_and_the_rules_that_decide_them_are_known_before_the_run(name):
    plan = EXPERIMENTS[name].plan("quick", "text")
    claims = list(plan.experiment.claims(plan))
    assert len(claims) >= 2
    for claim in claims:
        assert any(part.rule is not None for part in claim.parts), claim.text
    assert claims[0].text == next(plan.experiment.claims(plan)).text


def test_arm_count_tells_growth_with_k_from_none():
    def paper(name, key, t, n):
        return (key[0] if name == "LinMEDNOPT" else 10.0) * t / n

    found = findings("arm-count", paper)
    assert set(verdicts(found).values()) == {"holds"}
    reverse = findings("arm-count", lambda name, key, t, n: 10.0 if name == "LinMEDNOPT" else key[0])
    assert set(verdicts(reverse).values()) == {"fails"}


def large_gap(name, key, t, n):
    if name in ("SpannerIGW", "EXP2"):
        return 30 * np.sqrt(n) * t / n  # told its horizon: linear inside a run, √n between runs
    if name == "SpannerIGW-AT":
        return 30 * np.sqrt(t)
    level = {"LinTS-Freq": 20, "LinIMED-1": 15, "LinIMED-3": 4}.get(name, 5)
    return level * (1 + np.log(t))


def test_large_gap_as_the_paper_has_it_holds():
    assert set(verdicts(findings("large-gap", large_gap)).values()) == {"holds"}


def test_large_gap_notices_each_departure():
    def slow(name, key, t, n):
        return 100 * large_gap(name, key, t, n) if name == "LinMED-50" else large_gap(name, key, t, n)

    found = findings("large-gap", slow)
    assert verdict(found, "LinMED-50 has lower regret") == "fails"
    assert verdict(found, "LinMED-50 is close") == "fails"
    assert verdict(found, "LinMED-90 has lower regret") == "holds"
    linear = findings("large-gap", lambda name, key, t, n: t if name != "LinIMED-3" else 10 * t)
    assert verdict(linear, "SpannerIGW's", "grows like") == "fails"
    assert verdict(linear, "SpannerIGW's", "at least") == "holds"
    assert verdict(linear, "LinMED's regret grows clearly slower") == "fails"
    assert verdict(linear, "LinIMED-3 is among the best") == "fails"


def optimism(name, key, t, n):
    if key == ("theory",):
        return 5.0
    eps, noise = key
    if noise == UNDER:
        return {"OFUL": t, "LinTS-Bayes": t, "LinMED-99": 900, "LinIMED-3": 50}.get(name, 100.0)
    late = t / n
    if name in ("OFUL", "LinIMED-1"):
        return 5 + late * 40 * (0.02 / eps) * (2 if noise == OVER else 1)
    return {"LinTS-Freq": 100.0, "LinIMED-3": 10.0}.get(name, 20.0)


def test_end_of_optimism_as_the_paper_has_it_holds():
    assert set(verdicts(findings("end-of-optimism", optimism)).values()) == {"holds"}


def test_end_of_optimism_notices_optimists_that_stay_good():
    found = findings("end-of-optimism", lambda *a: 5.0 if a[0] == "OFUL" else optimism(*a))
    assert verdict(found, "OFUL starts well") == "holds"
    assert verdict(found, "OFUL deteriorates") == "fails"
    assert verdict(found, "OFUL is worst at small ε") == "fails"
    assert verdict(found, UNDER, "OFUL becomes nearly linear") == "fails"
    assert verdict(found, "LinIMED-1 deteriorates") == "holds"


def test_one_epsilon_is_enough_to_refute_a_claim_about_all():
    def nearly(name, key, t, n):
        bad = name == "LinMED-99" and key == (EPSILONS[1], MATCHED)
        return 500.0 if bad else optimism(name, key, t, n)

    found = findings("end-of-optimism", nearly)
    assert verdict(found, f"{MATCHED}: LinMED-99 ends well below") == "fails"
    assert verdict(found, f"{OVER}: LinMED-99 ends well below") == "holds"


def test_delayed_rewards_compare_rises():
    def paper(name, key, t, n):
        return 50.0 + key[0] * (5.0 if name == "OFUL" else 0.5)

    assert set(verdicts(findings("delayed-rewards", paper)).values()) == {"holds"}
    alike = findings("delayed-rewards", lambda name, key, t, n: 50.0 + key[0])
    assert verdict(alike, "OFUL's regret rises") == "holds"
    assert verdict(alike, "much more than LinMED-99") == "fails"


def ball(name, key, t, n):
    noise, size = key
    if name == "LinTS-Freq":
        return size * {MATCHED: 1.0, OVER: 2.0, UNDER: 0.5}[noise]
    return {"LinIMED-3": 500.0, "LinMED-90": 40.0}.get(name, 50.0)


def test_unit_ball_as_the_paper_has_it_holds():
    assert set(verdicts(findings("unit-ball-dimension", ball)).values()) == {"holds"}

    def fixed(name, key, t, n):
        return ball(name, (key[0], 20), t, n)

    assert set(verdicts(findings("unit-ball-arms", fixed)).values()) == {"holds"}


def test_unit_ball_notices_dependence_on_k_and_on_sigma():
    found = findings("unit-ball-arms", lambda name, key, t, n: key[1] * (4.0 if key[0] == UNDER else 1.0))
    assert verdict(found, "No method depends on K") == "fails"
    assert verdict(found, "LinMED-50 is little affected") == "fails"
    assert verdict(found, "LinTS-Freq deteriorates") == "fails"
    assert verdict(found, "LinIMED-3 is notably poor") == "fails"


def test_much_noise_leaves_claims_undecided():
    found = findings("delayed-rewards", lambda name, key, t, n: 50.0 + 0.01 * key[0], trials=3, noise=0.3)
    assert "undecided" in verdicts(found).values()


def test_a_shorter_horizon_does_not_refute():
    short = findings(
        "large-gap", lambda *a: 10 * large_gap(*a) if a[0] == "LinMED-50" else large_gap(*a), 1_000
    )
    row = next(row for row in ledger([short]) if row.claim.startswith("LinMED-50 has lower"))
    assert row.verdict == "undecided"
    assert "after 1,000 rounds" in row.measured


def test_offline_rows_say_which_published_numbers_are_reproduced():
    rng = np.random.default_rng(0)
    columns = {LINMED_EXACT: (0.8, 0.16), LINTS_EXACT: (0.8, 0.2)}
    columns |= {
        floor_column(M): (m, s)
        for M, m, s in zip(SAMPLES, (0.906, 0.819, 0.799), (0.315, 0.268, 0.2), strict=True)
    }
    columns |= {plus_one_column(M): (0.8, 0.2) for M in SAMPLES}
    drawn = {}
    for name, (centre, spread) in columns.items():
        x = rng.standard_normal(5_000)
        drawn[name] = centre + spread * (x - x.mean()) / x.std()
    plan = EXPERIMENTS["offline-evaluation"].plan("paper", "as-run")
    found = dataclasses.replace(plan, scores=drawn)
    rows = ledger([found])
    assert [row.verdict for row in rows] == ["holds"] * 5 + ["fails"]
    assert "0.315" in rows[-1].measured
    biased = dataclasses.replace(found, scores={**drawn, LINMED_EXACT: drawn[LINMED_EXACT] + 0.02})
    assert ledger([biased])[0].verdict == "fails"


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (0.81, 0.005, "holds"),
        (0.9, 0.005, "fails"),
        (0.81, 0.5, "undecided"),
        (0.81, float("nan"), "undecided"),
    ],
)
def test_published_means_are_reproduced_within_three_standard_errors(value, error, expected):
    assert Reproduces(0.8, 0.0005).verdict(Estimate(value, error, 100)) == expected


def test_a_border_that_is_not_there_is_never_crossed():
    assert Between(high=1.0).verdict(Estimate(-1e9, 1.0, 10)) == "holds"
    assert Between(low=1.0).verdict(Estimate(1e9, 1.0, 10)) == "holds"
    assert Between(high=1.0).verdict(Estimate(2.0, 0.1, 10)) == "fails"
    assert Between(low=1.0).verdict(Estimate(1.0, 0.1, 10)) == "undecided"


def test_records_have_the_ledgers_four_fields():
    records = [row._asdict() for row in ledger([findings("arm-count", lambda *a: 1.0)])]
    assert all(set(r) == {"experiment", "claim", "measured", "verdict"} for r in records)
    assert all(r["verdict"] in ("holds", "fails", "undecided") for r in records)
