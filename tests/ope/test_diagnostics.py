"""Diagnostics and the plot."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from linmed.ope import DecisionLog, diagnose, plot_sequences, sequence


def test_diagnosis_equals_hand_computation():
    log = DecisionLog.from_table(
        {
            "arm": [0, 1, 1],
            "probability": [0.5, 0.25, 1.0],
            "reward": [1.0, 0.0, 1.0],
            "probabilities": [[0.5, 0.5], [0.75, 0.25], [0.0, 1.0]],
        }
    )
    found = diagnose(log, "uniform")
    weight = np.array([1.0, 2.0, 0.5])
    assert found.n == 3
    assert found.effective_n == pytest.approx(3.5**2 / 5.25)
    assert found.largest_weight == 2.0
    assert found.smallest_probability == 0.25
    assert found.mean_weight == pytest.approx(3.5 / 3)
    assert found.mean_weight_error == pytest.approx(weight.std(ddof=1) / np.sqrt(3))
    assert found.no_overlap == pytest.approx(0.5 / 3)
    assert any("16.67% of the target's mass" in text for text in found.warnings)
    assert any("worth only 2.3" in text for text in found.warnings)


def test_impossible_propensities_are_an_error_with_the_rows():
    columns = {"arm": [0, 0], "probability": [0.5, 0.0], "reward": [1.0, 1.0], "arm_count": [2, 2]}
    log = DecisionLog.from_table(columns)
    with pytest.raises(ValueError, match=r"row 1 has 0\.0"):
        diagnose(log, "uniform")


def test_a_healthy_log_has_nothing_to_complain_of(small):
    assert diagnose(small.log, "uniform").warnings == []


def test_wrong_probabilities_show_in_the_mean_weight(small):
    """Halved probabilities, as when a draw was made from a sharper policy than the one logged."""
    columns = {"arm": small.columns["arm"], "reward": small.columns["reward"], "arm_count": np.full(500, 4)}
    log = DecisionLog.from_table(columns | {"probability": small.columns["probability"] / 2})
    assert any("where it should be 1" in text for text in diagnose(log, "uniform").warnings)
    shuffled = small.columns["probabilities"][:, ::-1]
    arm = small.columns["arm"]
    wrong = small.columns | {"probabilities": shuffled, "probability": shuffled[np.arange(500), arm]}
    assert any(
        "where it should be 1" in text for text in diagnose(DecisionLog.from_table(wrong), "uniform").warnings
    )


def test_one_dominating_decision_is_pointed_out():
    p = np.full(1000, 0.5)
    p[7] = 0.0005
    columns = {"arm": np.zeros(1000, int), "probability": p, "reward": p, "arm_count": np.full(1000, 2)}
    log = DecisionLog.from_table(columns)
    assert any("one decision carries 50%" in text for text in diagnose(log, "uniform").warnings)


def test_the_plot_is_written(small, tmp_path):
    traces = {"uniform": sequence(small.log, "uniform"), "arm 1": sequence(small.log, 1)}
    plot_sequences(traces, tmp_path / "plot.png", "a title", truth=0.3)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_sequences({}, tmp_path / "none.png")


def test_bands_that_overlap_keep_their_edges(small):
    traces = {name: sequence(small.log, name) for name in ("uniform", "arm:0", "arm:1")}
    ax = plot_sequences(traces, ax=Figure().subplots())
    colours = [line.get_color() for line in ax.get_lines()]
    assert sorted(map(colours.count, set(colours))) == [3, 3, 3]  # an estimate and two edges each
    assert max(band.get_alpha() for band in ax.collections) < 0.1
    alone = plot_sequences({"uniform": traces["uniform"]}, ax=Figure().subplots())
    assert alone.collections[0].get_alpha() > 0.1
