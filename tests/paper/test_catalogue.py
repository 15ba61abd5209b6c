"""The tables say what the paper says, and the as-run ones what its public code does."""

import math

import numpy as np
import pytest

from linmed.paper import EXPERIMENTS
from linmed.paper.as_run import ArmZero
from linmed.paper.roster import LINMED, MATCHED, OVER, UNDER, policies
from linmed.policies import LinMED, LinTS
from linmed.report.figures import POLICY

SIZES = {
    "offline-evaluation": (1_000, 5_000),
    "arm-count": (20_000, 10),
    "large-gap": (10_000, 10),
    "end-of-optimism": (1_000_000, 20),
    "end-of-optimism-appendix": (1_000_000, 20),
    "delayed-rewards": (5_000, 100),
    "unit-ball-dimension": (5_000, 50),
    "unit-ball-arms": (5_000, 50),
}


def settings(name, variant="text", horizon=100):
    return {s.key: s for s in EXPERIMENTS[name].plan("quick", variant, horizon).settings}


def test_paper_scale_has_the_papers_horizons_and_trials():
    assert {name: e.paper[:2] for name, e in EXPERIMENTS.items() if not e.ours} == SIZES


def test_the_quick_scale_is_never_longer_and_the_decisive_one_goes_as_far_as_the_paper():
    for experiment in EXPERIMENTS.values():
        assert experiment.quick.horizon <= experiment.paper.horizon
        assert experiment.decisive.horizon == experiment.paper.horizon
        most = experiment.decisive.trials << (experiment.decisive.looks - 1)  # doubled from look to look
        assert most >= experiment.paper.trials


def test_noise_levels_of_the_text_are_variances_and_as_run_standard_deviations():
    text, run = settings("end-of-optimism"), settings("end-of-optimism", "as-run")
    assert text[0.01, MATCHED].sigma == text[0.01, MATCHED].environment.sigma == 0.1
    assert text[0.01, OVER].sigma ** 2 == pytest.approx(2 * 0.1**2)
    assert text[0.01, UNDER].environment.sigma ** 2 == pytest.approx(10.0)
    assert text[0.01, UNDER].sigma == pytest.approx(1.0)
    assert run[0.01, OVER].sigma == pytest.approx(0.2)
    assert (run[0.01, UNDER].environment.sigma, run[0.01, UNDER].sigma) == (10.0, 1.0)
    appendix = settings("end-of-optimism-appendix")
    assert appendix[0.01, MATCHED].environment.sigma ** 2 == pytest.approx(0.1)
    assert appendix[0.01, OVER].sigma ** 2 == pytest.approx(0.2)
    assert appendix[0.01, UNDER] == text[0.01, UNDER]  # σ*² = 10 by either reading


def test_the_arm_count_experiment_has_variance_three_in_the_text_and_sigma_three_as_run():
    for K in (4, 8, 16, 32, 64):
        text, run = settings("arm-count")[K,], settings("arm-count", "as-run")[K,]
        assert text.sigma == text.environment.sigma == pytest.approx(math.sqrt(3))
        assert (run.sigma, run.environment.sigma) == (3.0, 1.0)
        assert text.environment.arms == K


def test_every_policy_is_given_the_settings_sigma_and_the_same_delta():
    for name in SIZES:
        for setting in settings(name).values():
            for policy in setting.policies:
                if hasattr(policy, "sigma"):
                    assert policy.sigma == setting.sigma
                    assert policy.delta == 0.01
                    assert policy.lam == pytest.approx(setting.sigma**2)


def test_the_line_ups_are_the_papers():
    names = {
        name: [p.name for p in next(iter(settings(name).values())).policies]
        for name in SIZES
        if name != "offline-evaluation"
    }
    linmed = set(LINMED)
    everyone = {
        "OFUL",
        "LinTS-Freq",
        "LinTS-Bayes",
        "LinIMED-1",
        "LinIMED-3",
        "SpannerIGW",
        "SpannerIGW-AT",
    } | linmed
    assert set(names["arm-count"]) == {"LinMEDNOPT"} | linmed
    assert set(names["large-gap"]) == everyone | {"EXP2"}
    assert set(names["end-of-optimism"]) == everyone - {"SpannerIGW", "SpannerIGW-AT"}
    assert set(names["delayed-rewards"]) == {"OFUL", "LinTS-Bayes"} | linmed
    assert set(names["unit-ball-dimension"]) == set(names["unit-ball-arms"]) == everyone


def test_grids_are_complete():
    assert len([k for k in settings("end-of-optimism") if len(k) == 2]) == 9
    assert {k for k in settings("delayed-rewards") if len(k) == 1} == {(0,), (10,), (20,)}
    assert {k[1] for k in settings("unit-ball-dimension")} == {2, 20, 50}
    assert {k[1] for k in settings("unit-ball-arms")} == {10, 100, 500}


def test_delays_are_constant_in_the_text_and_batches_as_run():
    assert settings("delayed-rewards")[10,].environment.mode == "constant"
    assert settings("delayed-rewards", "as-run")[10,].environment.mode == "batch"


def test_as_run_policies_differ_as_the_public_code_does():
    run = {p.name: p for p in policies(tuple(POLICY), 0.5, 100, "as-run")}
    text = {p.name: p for p in policies(tuple(POLICY), 0.5, 100, "text")}
    assert run["LinTS-Freq"].scale == "squared-radius"
    assert text["LinTS-Freq"].scale == "frequentist"
    assert run["LinTS-Bayes"].scale == 1.0
    assert text["LinTS-Bayes"].scale == "bayes"
    assert all(not run[name].explore and text[name].explore for name in LINMED)
    assert isinstance(run["LinIMED-3"], ArmZero)
    assert isinstance(text["LinTS-Freq"], LinTS)
    assert isinstance(text["LinMED-50"], LinMED)


def test_linmed_names_are_their_shares():
    shares = {p.name: (p.alpha_emp, p.design_share) for p in policies(LINMED, 1.0, 100, "text")}
    due = {"LinMED-99": (0.99, 0.005), "LinMED-90": (0.9, 0.05), "LinMED-50": (0.5, 0.25)}
    assert shares == {name: pytest.approx(pair) for name, pair in due.items()}


def test_arm_zero_is_random_once_and_then_always_arm_zero():
    policy = ArmZero()
    arms = np.eye(4)[None]
    state = policy.start(2, 4)
    np.testing.assert_allclose(np.exp(policy.log_probabilities(state, arms)), 0.25)
    policy.learn(state, np.eye(4)[[3]], np.array([1.0]), np.array([0]))
    np.testing.assert_allclose(np.exp(policy.log_probabilities(state, arms)), [[1, 0, 0, 0], [0.25] * 4])
