"""Results: lookup by name, summaries, pictures."""

from dataclasses import dataclass

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from linmed.environments import LargeGap
from linmed.policies import LinMED, LinMEDNoDesign, LinTS
from linmed.simulation import simulate


@pytest.fixture(scope="module")
def results():
    policies = [LinMED(), LinMED(alpha_emp=0.5, alpha_opt=0.25), LinMEDNoDesign()]
    return simulate(policies, LargeGap(), 200, 5, progress=False)


def test_a_policy_is_found_by_name_and_by_class_where_that_is_unambiguous(results):
    assert results.regret("LinMED-90").shape == (5, len(results.checkpoints))
    assert results.regret("LinMEDNoDesign") is results.regret(results.names[2])
    with pytest.raises(ValueError, match="'LinMED' could be any of LinMED-90, LinMED-50"):
        results.regret("LinMED")
    with pytest.raises(ValueError, match="did you mean 'LinMED-50'"):
        results.regret("LinMED-5O")


def test_summary_has_the_mean_its_standard_error_and_the_time(results):
    row = results.summary().to_pylist()[0]
    final = results.final("LinMED-90")
    assert row["policy"] == "LinMED-90"
    assert row["mean_regret"] == pytest.approx(final.mean())
    assert row["standard_error"] == pytest.approx(final.std(ddof=1) / np.sqrt(5))
    assert row["trials"] == 5
    assert row["seconds"] > 0
    assert all(name in str(results) for name in results.names)


def test_regret_follows_from_the_pulls(results):
    for name in results.names:
        np.testing.assert_allclose(results.final(name), results.pulls(name)[:, 1])  # the gap is 1
        assert (results.pulls(name).sum(axis=1) == 200).all()
        assert (np.diff(results.regret(name), axis=1) >= 0).all()


def test_the_long_table_has_parameters_as_columns(results):
    table = results.table()
    assert table.num_rows == 3 * 5 * len(results.checkpoints)
    assert set(table["policy.alpha_emp"].to_pylist()) >= {0.9, 0.5}
    one = table.filter(table["policy"].to_numpy(zero_copy_only=False) == "LinMED-50")
    np.testing.assert_array_equal(one["regret"].to_numpy(), results.regret("LinMED-50").ravel())


@dataclass(frozen=True)
class Clashing(LinMED):
    """Parameters with the names of results."""

    round: int = 7
    regret: float = -1.0
    trial: int = 2**70


def test_a_parameter_does_not_take_the_place_of_a_result(tmp_path):
    results = simulate(Clashing(), LargeGap(), 5, 2, store=tmp_path / "s", progress=False)
    table = results.table()
    assert table["round"].to_pylist() == [1, 2, 3, 4, 5] * 2
    np.testing.assert_array_equal(table["regret"].to_numpy(), results.regret("Clashing").ravel())
    assert set(table["policy.round"].to_pylist()) == {7}
    assert set(table["policy.trial"].to_pylist()) == {None}  # no 64 bits hold it; the configuration does


def test_a_number_that_may_be_unknown_is_a_column_of_numbers():
    policies = [LinMED(sigma=0.5), LinMED(sigma="unknown", ridge="learned")]
    table = simulate(policies, LargeGap(), 5, 2, progress=False).table()
    assert set(table["policy.sigma"].to_pylist()) == {0.5, None}
    assert set(table["policy.confidence"].to_pylist()) == {"paper"}


def test_a_parameter_that_is_text_here_and_a_number_there_is_one_column():
    table = simulate([LinTS(), LinTS(scale=2.0)], LargeGap(), 5, 2, progress=False).table()
    assert set(table["policy.scale"].to_pylist()) == {"frequentist", "2.0"}
    assert "policy.alpha_emp" not in table.column_names


def test_results_and_their_tables_print_readably_and_go_to_pandas(results):
    lines = repr(results).splitlines()
    assert lines[0] == "LargeGap, 200 rounds, seed 0"
    assert lines[1].split() == ["policy", "mean_regret", "standard_error", "trials", "seconds"]
    assert len(lines) == 2 + 3
    regrets = [float(line.split()[1]) for line in lines[2:]]
    assert regrets == sorted(regrets)
    assert str(results.summary()).splitlines()[0] == lines[1]
    assert list(results.summary().to_pandas()["policy"]) == results.names
    assert len(repr(results.run("LinMED-90"))) < 500


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_plot_is_saved_with_a_legend_beside_the_curves(results, tmp_path, ending):
    axes = results.plot(tmp_path / f"regret.{ending}")
    assert (tmp_path / f"regret.{ending}").stat().st_size > 1000
    axes.figure.canvas.draw()
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == results.names
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
    if ending == "png":
        assert imread(tmp_path / "regret.png").std() > 0.01


def test_one_trial_has_no_standard_error_and_can_be_drawn():
    results = simulate(LinMED(), LargeGap(), 10, 1, progress=False)
    assert np.isnan(results.standard_error("LinMED")).all()
    axes = Figure().add_subplot()
    assert results.plot(ax=axes) is axes
    assert axes.get_xlabel() == "round"
