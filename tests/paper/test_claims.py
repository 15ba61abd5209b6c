"""Each claim answers to the numbers it is about, and to nothing else."""

import dataclasses
import io
import re

import numpy as np
import pytest

from linmed.paper import EXPERIMENTS
from linmed.paper.claims import OURS, Between, Reproduces
from linmed.paper.ledger import claims, decided_first, finals, ledger, markdown, records, side_by_side, tally
from linmed.paper.provenance import Origin
from linmed.paper.roster import LINMED, MATCHED, OVER, UNDER
from linmed.paper.statistics import LEVEL, Normal, spent
from linmed.simulation import Results, Run, checkpoints

TRIALS = 200


def findings(name, regret, horizon=None, trials=TRIALS, noise=0.0, scale="paper", pulls=None, looks=1):
    """Results with mean regret(policy, key, t, horizon); trials differ by common luck and by noise."""
    plan = EXPERIMENTS[name].plan(scale, "text", horizon, trials)
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
            played = np.ones((trials, 3)) if pulls is None else np.tile(pulls(policy.name), (trials, 1))
            runs[policy.name] = Run(
                policy, np.arange(trials), luck[:, None] * curve, np.asarray(played, dtype=np.int64), 1.0
            )
        results[setting.key] = Results(setting.environment, setting.horizon, 0, marks, runs)
    return dataclasses.replace(plan, results=results, most_looks=looks)


def wanting(found):
    return frozenset().union(*(claim.wanting(found) for claim in claims(found)))


def verdicts(found):
    return {row.claim: row.verdict for row in ledger([found])}


def verdict(found, *words):
    rows = [row for row in ledger([found]) if all(word in row.claim for word in words)]
    assert len(rows) == 1, [row.claim for row in rows]
    return rows[0].verdict


SEVEN = [name for name, experiment in EXPERIMENTS.items() if not experiment.ours]


@pytest.mark.parametrize("variant", ["text", "as-run"])
@pytest.mark.parametrize("name", SEVEN)
def test_claims_and_the_rules_that_decide_them_are_known_before_the_run(name, variant):
    plan = EXPERIMENTS[name].plan("quick", variant)
    stated = claims(plan)
    assert len(stated) >= 2
    assert len({claim.text for claim in stated}) == len(stated)
    for claim in stated:
        assert any(part.rule is not None for part in claim.parts), claim.text
        assert claim.place
        assert claim.predicate
        assert claim.threshold in ("the paper's", "ours")
        assert all(name in plan.names(*key) for key, name in claim.cells)
    assert stated[0].text == claims(plan)[0].text


def test_all_seven_experiments_have_claims_and_one_is_read_twice():
    assert len(SEVEN) == 8
    first, again = (
        {c.text: c for c in claims(EXPERIMENTS[name].plan("quick", "text"))}
        for name in ("end-of-optimism", "end-of-optimism-appendix")
    )
    assert set(first) - set(again) == {
        "OFUL becomes nearly linear when the noise is under-specified",
        "LinTS-Bayes becomes nearly linear when the noise is under-specified",
        "LinTS-Freq performs well when the noise is under-specified",
    }  # about σ*² = 10 alone, which both readings have
    assert set(again) < set(first)
    assert all("(σ* = 0.1)" in claim.place for claim in first.values() if claim.place != OURS)
    assert all("(σ*² = 0.1)" in claim.place for claim in again.values() if claim.place != OURS)


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


@pytest.mark.parametrize("scale", ["paper", "decisive"])
def test_large_gap_as_the_paper_has_it_holds(scale):
    assert set(verdicts(findings("large-gap", large_gap, scale=scale)).values()) == {"holds"}


def test_large_gap_notices_each_departure():
    def slow(name, key, t, n):
        return 100 * large_gap(name, key, t, n) if name == "LinMED-50" else large_gap(name, key, t, n)

    found = findings("large-gap", slow)
    assert verdict(found, "LinMED-50 outperforms") == "fails"
    assert verdict(found, "LinMED-90 outperforms") == "holds"
    assert verdict(found, "close to OFUL") == "holds"  # by the best version
    linear = findings(
        "large-gap", lambda name, key, t, n: t if name in LINMED else 0.1 * large_gap(name, key, t, n)
    )
    assert verdict(linear, "O(log² n") == "fails"
    assert verdict(linear, "close to OFUL") == "fails"
    flat = findings("large-gap", lambda name, key, t, n: 5.0)
    assert verdict(flat, "lower bound", "EXP2") == "fails"


def optimism(name, key, t, n):
    if key[-1] == "theory":
        return 5.0
    if key[0] == "long":
        return 1.0 + t / n
    if key[0] == "scale 1":
        return 100.0
    eps, noise = key
    if noise == UNDER:
        return {"OFUL": t, "LinTS-Bayes": t, "LinMED-99": 60_000.0, "LinIMED-3": 50.0}.get(name, 2_000.0)
    late = t / n
    if name in ("OFUL", "LinIMED-1"):
        return 5 + late**2 * 400 * (0.02 / eps) * (2 if noise == OVER else 1)
    if name.startswith("LinTS"):
        return 100.0 * (3 if noise == OVER and name == "LinTS-Freq" else 1)
    return {"LinIMED-3": 10.0}.get(name, 20.0)


def pulls(name):
    return (1000, 5, 500) if name.startswith(("OFUL", "LinTS")) else (1000, 50, 50)


@pytest.mark.parametrize("scale", ["paper", "decisive"])
def test_end_of_optimism_as_the_paper_has_it_holds(scale):
    found = findings("end-of-optimism", optimism, pulls=pulls, scale=scale)
    assert {claim: v for claim, v in verdicts(found).items() if v != "holds"} == {}


def test_end_of_optimism_notices_optimists_that_stay_good():
    found = findings("end-of-optimism", lambda *a: 5.0 if a[0] == "OFUL" else optimism(*a), pulls=pulls)
    assert verdict(found, "OFUL starts") == "holds"
    assert verdict(found, "OFUL's effectiveness") == "fails"
    assert verdict(found, "ε is small (OFUL)") == "fails"
    assert verdict(found, "OFUL becomes nearly linear") == "fails"
    assert verdict(found, "LinIMED-1's effectiveness") == "holds"


def test_the_two_readings_of_lints_are_judged_apart():
    def cheap(name, key, t, n):
        return 1.0 if name == "LinTS-Bayes" and key[0] != "scale 1" else optimism(name, key, t, n)

    found = findings("end-of-optimism", cheap, pulls=pulls)
    rows = [
        row for row in ledger([found]) if row.claim.startswith("LinMED-99 significantly outperforms LinTS")
    ]
    assert [row.verdict for row in rows] == ["holds", "fails", "holds"]  # Freq, Bayes, Bayes with scale 1


def test_one_panel_is_enough_to_refute_a_claim_about_all():
    def nearly(name, key, t, n):
        bad = name == "LinMED-99" and key == (0.01, MATCHED)
        return 500.0 if bad else optimism(name, key, t, n)

    found = findings("end-of-optimism", nearly, pulls=pulls)
    assert verdict(found, "LinMED-99 significantly outperforms LinTS-Freq") == "fails"
    assert verdict(found, "LinIMED-3 significantly outperforms LinTS-Freq") == "holds"


def test_becoming_linear_is_about_the_share_of_stuck_trials():
    found = findings("end-of-optimism", optimism, pulls=pulls)
    key = (0.005, UNDER)
    curves = found.results[key].regret("OFUL")
    curves[10:] = 20.0  # the mean stays linear, carried by one trial of twenty
    assert found.stuck("OFUL", *key).sum() == 10
    assert verdict(found, "OFUL becomes nearly linear") == "undecided"
    curves[:] = 20.0
    assert verdict(found, "OFUL becomes nearly linear") == "fails"


def delayed(name, key, t, n):
    if key[0] == "omitted":
        return 500.0
    D = key[-1]
    return (50.0 if name != "OFUL" else 60.0) + D * (5.0 if name == "OFUL" else 0.5)


def test_delayed_rewards_compare_factors():
    assert set(verdicts(findings("delayed-rewards", delayed)).values()) == {"holds"}
    alike = findings("delayed-rewards", lambda name, key, t, n: 50.0 + key[-1], trials=800)
    assert verdict(alike, "OFUL significantly deteriorates") == "holds"
    assert verdict(alike, "in contrast to LinMED-99") == "fails"
    assert verdict(alike, "the one that is left out") == "fails"
    worse = findings("delayed-rewards", lambda name, key, t, n: 50.0 + key[-1] * (1 if name == "OFUL" else 9))
    assert verdict(worse, "in contrast to LinMED-99") == "fails"
    assert verdict(worse, "LinMED-50 performs strongly") == "fails"


def ball(name, key, t, n):
    noise, size = key
    if name == "LinTS-Freq":
        return size**2 * {MATCHED: 1.0, OVER: 2.0 * (1 + size / 50), UNDER: 0.5}[noise]
    if name == "OFUL":
        return (2.0 + size / 100) * {MATCHED: 1.0, OVER: 500.0, UNDER: 1.0}[noise]
    level = {"LinIMED-3": 500.0, "LinMED-90": 4.0}.get(name, 5.0) * (1 + size / 100)
    factor = {MATCHED: 1.0, OVER: 1.4, UNDER: 1.2}[noise]
    return level * (1.0 if name in LINMED else factor)


def test_unit_ball_as_the_paper_has_it_holds():
    assert {c: v for c, v in verdicts(findings("unit-ball-dimension", ball)).items() if v != "holds"} == {}

    def fixed(name, key, t, n):
        return ball(name, (key[0], 20), t, n)

    assert {c: v for c, v in verdicts(findings("unit-ball-arms", fixed)).items() if v != "holds"} == {}


def test_unit_ball_notices_dependence_on_k_and_on_sigma():
    found = findings("unit-ball-arms", lambda name, key, t, n: key[1] * (4.0 if key[0] == UNDER else 1.0))
    assert verdict(found, "does not depend on K") == "fails"
    assert verdict(found, "LinIMED-3 performs notably poorly") == "fails"
    hurt = findings(
        "unit-ball-dimension", lambda *a: ball(*a) * (9 if a[0] == "LinMED-50" and a[1][0] == OVER else 1)
    )
    assert verdict(hurt, "LinMED-50 is not significantly affected") == "fails"
    assert verdict(hurt, "LinMED-99 is not significantly affected") == "holds"


def test_an_improvement_is_never_held_against_a_policy():
    better = findings(
        "unit-ball-dimension",
        lambda *a: ball(*a) * (0.1 if a[0] == "LinMED-50" and a[1][0] != MATCHED else 1),
    )
    assert verdict(better, "LinMED-50 is not significantly affected") == "holds"


def test_much_noise_leaves_claims_undecided_and_says_whose_trials_would_help():
    found = dataclasses.replace(findings("delayed-rewards", delayed, trials=3, noise=0.3), most_looks=4)
    assert "undecided" in verdicts(found).values()
    assert ((20,), "OFUL") in wanting(found)
    assert wanting(dataclasses.replace(found, most_looks=1)) == frozenset()  # no more can be played
    assert wanting(findings("delayed-rewards", delayed)) == frozenset()


def test_the_first_look_that_decides_counts_and_each_has_its_share_of_the_level():
    found = findings("delayed-rewards", delayed, trials=80, noise=0.05)
    found = dataclasses.replace(found, trials=10, most_looks=4)
    assert [len(found.until(look).final("OFUL", 0)) for look in (1, 2, 3, 4)] == [10, 20, 40, 80]
    rows = {row.claim: row for row in ledger([found])}
    assert rows["OFUL significantly deteriorates when rewards are delayed"].trials == 20
    assert {row.trials for row in rows.values()} <= {10, 20, 40, 80}
    assert sum(spent(look, 9) for look in range(1, 10_000)) <= LEVEL
    assert spent(1, 1) == LEVEL


def test_a_longer_run_decides_more_and_changes_no_verdict():
    whole = findings("unit-ball-dimension", ball, trials=80, noise=0.3)
    seen = {}
    for trials in (10, 20, 40, 80):
        cut = {
            key: dataclasses.replace(
                r,
                runs={
                    name: dataclasses.replace(
                        run, trials=run.trials[:trials], regret=run.regret[:trials], pulls=run.pulls[:trials]
                    )
                    for name, run in r.runs.items()
                },
            )
            for key, r in whole.results.items()
        }
        now = verdicts(dataclasses.replace(whole, results=cut, trials=10, most_looks=4))
        assert all(now[claim] == verdict for claim, verdict in seen.items())
        seen = {claim: verdict for claim, verdict in now.items() if verdict != "undecided"}
    assert seen


def test_to_refute_a_claim_the_part_closest_to_it_is_given_trials():
    def one_bad(name, key, t, n):
        return optimism(name, key, t, n) * (50.0 if name == "LinMED-99" and key == (0.01, OVER) else 1.0)

    found = findings("end-of-optimism", one_bad, pulls=pulls, trials=2, noise=0.02)
    found = dataclasses.replace(found, most_looks=3)
    claim = next(c for c in claims(found) if c.text == "LinMED-99 significantly outperforms LinTS-Freq")
    assert claim.judge(found).verdict == "undecided"
    assert claim.wanting(found) == {((0.01, OVER), "LinMED-99"), ((0.01, OVER), "LinTS-Freq")}


def test_a_shorter_horizon_does_not_refute():
    short = findings(
        "large-gap", lambda *a: 10 * large_gap(*a) if a[0] == "LinMED-50" else large_gap(*a), 1_000
    )
    row = next(row for row in ledger([short]) if row.claim.startswith("LinMED-50 outperforms"))
    assert row.verdict == "undecided"
    assert "after 1,000 rounds" in row.measured


@pytest.mark.parametrize(
    ("rule", "estimate", "expected"),
    [
        (Reproduces(0.8, 0.0005), Normal(0.81, 0.005, 100), "holds"),  # within three standard errors
        (Reproduces(0.8, 0.0005), Normal(0.9, 0.005, 100), "fails"),
        (Reproduces(0.8, 0.0005), Normal(0.81, 0.5, 100), "undecided"),
        (Reproduces(0.8, 0.0005), Normal(0.81, float("nan"), 100), "undecided"),
        (Between(high=1.0), Normal(-1e9, 1.0, 10), "holds"),  # a border that is not there is never crossed
        (Between(low=1.0), Normal(1e9, 1.0, 10), "holds"),
        (Between(high=1.0), Normal(2.0, 0.1, 10), "fails"),
        (Between(low=1.0), Normal(1.0, 0.1, 10), "undecided"),
    ],
)
def test_rules_decide_by_their_borders(rule, estimate, expected):
    assert rule.verdict(estimate) == expected


def origin(digest="0" * 12):
    return Origin("2026-01-01T00:00:00+00:00", "0.1.0", "abc1234", "def5678", digest)


def test_the_ledger_can_be_cited():
    rows = ledger([findings("arm-count", lambda *a: 1.0)])
    text = records(rows, [origin()], "linmed reproduce arm-count")
    for word in ('"place"', '"predicate"', '"threshold"', '"verdict"', "abc1234", "def5678"):
        assert word in text
    page = markdown(rows, [origin()], "linmed reproduce arm-count")
    assert "rules of commit def5678" in page
    assert "Figure 2" in page
    assert tally(rows) in page
    assert "Judged on 2026-01-01 at commit abc1234" in page


def test_our_own_statements_and_a_second_reading_are_counted_apart():
    row = ledger([findings("arm-count", lambda *a: 1.0)])[0]._replace(verdict="holds")
    again = row._replace(experiment="end-of-optimism-appendix", verdict="fails")
    assert tally([row, again, row._replace(place=OURS)]) == (
        "1 claims: 1 hold, 0 do not, 0 are undecided; 1 read with σ*² = 0.1: 0 hold, 1 do not, 0 are "
        "undecided; 1 of our own: 1 hold, 0 do not, 0 are undecided"
    )


def test_the_trials_behind_each_number_and_the_origin_of_the_films_are_said():
    found = dataclasses.replace(findings("delayed-rewards", delayed, trials=32), trials=16, most_looks=2)
    page = markdown(ledger([found]), [origin()], "x")
    assert "Generated features of the shape of MovieLens 100K" in page
    line = next(line for line in page.splitlines() if line.startswith("| OFUL significantly deteriorates"))
    assert re.search(r"D=10: ×\S+ \(.*?\), 32 trials; OFUL, D=20: ×\S+ \(.*?\), 16 trials", line), line


def test_rules_that_were_changed_between_runs_are_told():
    rows = ledger([findings("arm-count", lambda *a: 1.0)])
    assert "The rules were changed" in markdown(rows, [origin(), origin("1" * 12)], "x")
    assert "The rules were changed" not in markdown(rows, [origin(), origin()], "x")


def test_both_variants_stand_side_by_side_and_what_is_decided_first():
    rows = ledger([findings("arm-count", lambda name, key, t, n: key[0])])
    both = [*rows, *(row._replace(variant="as-run", verdict="undecided") for row in rows)]
    assert [len(group) for group in side_by_side(both)] == [2, 2]
    assert "as the public code runs it: verdict" in markdown(both, [origin()], "x")
    assert [row.verdict == "undecided" for row in decided_first(both)] == [False, False, True, True]


def test_final_regrets_are_kept_trial_by_trial():
    found = findings("arm-count", lambda name, key, t, n: key[0], trials=5)
    kept = np.load(io.BytesIO(finals([found])))
    np.testing.assert_allclose(kept["text|arm-count|64|LinMED-99"], found.final("LinMED-99", 64), rtol=1e-6)
    assert len(kept.files) == 20
