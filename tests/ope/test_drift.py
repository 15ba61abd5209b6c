"""Has the world changed while a log was written? `drift` and `linmed drift`."""

import json
import math

import numpy as np
import pytest

from linmed.cli import main
from linmed.ope import DecisionLog, drift
from linmed.policies import GLMMED, Forgetful, LinMED
from tests.policies.test_forgetful import world
from tests.policies.test_forgetful_glm import world as click_world


def log_of(rewards, rows, times=None):
    count = len(rewards)
    columns = {"arm": np.zeros(count, dtype=int), "probability": np.ones(count), "reward": rewards}
    columns["features"] = rows.tolist()
    if times is not None:
        columns["time"] = (np.round(times * 1e6)).astype("datetime64[us]")
    return DecisionLog.from_table(columns)


def test_a_log_tells_when_the_world_changed(tmp_path, capsys):
    rows, rewards = world(900, change=600)
    times = 1.7e9 + 60.0 * np.arange(900)
    log = log_of(rewards, rows, times)
    found = drift(log)
    assert found.doubt is None
    (alarm,) = found.drift.alarms
    assert 600 < alarm.reward <= 700
    assert alarm.time == times[alarm.reward - 1]
    log.save(tmp_path / "log")
    assert main(["drift", str(tmp_path / "log"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == found.drift.to_dict()
    assert main(["drift", str(tmp_path / "log"), "--half-lives", "inf,6h,1h", "--sigma", "0.3"]) == 0
    said = capsys.readouterr().out
    assert "The world has changed" in said
    assert "restarted from memory 1h" in said


def test_rewards_of_few_values_are_doubted_where_the_noise_is_not_told():
    rows, rewards = world(200)
    clicks = (rewards > 0.0).astype(float)
    assert "sigma = 0.5 is enough" in drift(log_of(clicks, rows)).doubt
    assert drift(log_of(clicks, rows), Forgetful(LinMED(sigma=0.5))).doubt is None


def test_heavy_tails_are_doubted_and_no_change(tmp_path, capsys):
    rows, _ = world(1500)
    rng = np.random.default_rng(2)
    paid = np.where(rng.random(1500) < 0.1, np.exp(3.0 + rng.standard_normal(1500)), 0.0)
    found = drift(log_of(paid, rows))
    assert not found.drift.changed
    assert "of 1,500 rewards lie farther than 4 standard deviations" in found.doubt
    log_of(paid, rows).save(tmp_path / "log")
    assert main(["drift", str(tmp_path / "log")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("No change in 1,500 rewards")
    assert f"But {found.doubt}." in said


def test_clicks_have_a_family_of_their_own(tmp_path, capsys):
    rows, clicks = click_world(2000, change=1500)
    log = log_of(clicks, rows)
    assert "family logistic" in drift(log).doubt
    found = drift(log, Forgetful(GLMMED(family="logistic")))
    assert found.doubt is None
    assert 1500 < found.drift.alarms[0].reward <= 2000
    log.save(tmp_path / "log")
    assert main(["drift", str(tmp_path / "log"), "--family", "logistic", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found.drift.to_dict()
    assert main(["drift", str(tmp_path / "log"), "--family", "logistic", "--sigma", "0.5"]) == 2
    assert "--family linear" in capsys.readouterr().err
    log_of(3.0 * clicks, rows).save(tmp_path / "stars")
    assert main(["drift", str(tmp_path / "stars"), "--family", "logistic"]) == 2
    assert "between 0 and 1" in capsys.readouterr().err


def test_durations_need_the_column_time(tmp_path, capsys):
    rows, rewards = world(20)
    log_of(rewards, rows).save(tmp_path / "log")
    assert main(["drift", str(tmp_path / "log"), "--half-lives", "inf,1d"]) == 2
    assert "time" in capsys.readouterr().err
    with pytest.raises(TypeError, match="Forgetful"):
        drift(log_of(rewards, rows), LinMED())


def test_a_log_in_pieces_is_the_same():
    rows, rewards = world(300, change=150)
    log = log_of(rewards, rows)
    policy = Forgetful(LinMED(sigma=0.3), half_lives=(math.inf, 30))
    assert drift(log, policy, batch=7).drift == drift(log, policy).drift
