"""The verdict from a log alone, and `linmed verdict`."""

import json

import numpy as np
import pytest

from linmed import EXP2, Agent, LinMED, Pinpoint, Verdicts
from linmed.cli import main
from linmed.ope import Arms, DecisionLog, verdict
from linmed.validation import BadValue
from tests.blame import blames

E1, E2 = [1.0, 0.0], [0.0, 1.0]
ARMS = [E1, E2, [0.6, 0.8]]
THETA = np.array([0.3, 0.6])


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """The logs of an experiment, whole and without the arms that were not played; and arms in files."""
    folder = tmp_path_factory.mktemp("shop")
    for name, log_arms in (("log", True), ("played", False)):
        rng = np.random.default_rng(0)
        policy = Pinpoint(sigma=0.5, delta=0.1)
        with Agent(policy, dim=2, seed=1, log=folder / name, log_arms=log_arms) as agent:
            for _ in range(2500):
                decision = agent.decide(ARMS)
                agent.learn(decision, float(rng.random() < np.dot(ARMS[decision.arm], THETA)))
            agent.decide(ARMS)  # whose reward never comes
    agent.save(folder / "agent")
    (folder / "arms.csv").write_text("name, x, y\nred, 1, 0\ngreen, 0.6, 0.8\n")
    (folder / "plain.csv").write_text("1,0\n0.6,0.8\n")
    (folder / "arms.json").write_text('{"red": [1, 0], "green": [0.6, 0.8]}')
    rows = "".join(f"{i % 2},0.5,{i % 3 == 0:d}\n" for i in range(300))
    (folder / "groups.csv").write_text("arm,probability,reward\n" + rows)
    return folder


def table(arms=ARMS, rounds=400, seed=0, **more):
    rng = np.random.default_rng(seed)
    arm = rng.integers(len(arms), size=rounds)
    features = np.array(arms)[arm]
    reward = features @ THETA + 0.1 * rng.standard_normal(rounds)
    return {"arm": arm, "probability": [1 / 3] * rounds, "reward": reward, "features": features, **more}


def test_a_log_says_what_an_agent_says_that_looked_after_every_reward():
    columns = table()
    policy = LinMED(sigma=0.1)
    agent, verdicts = Agent(policy, dim=2), Verdicts(ARMS, 0.1)
    for features, reward in zip(columns["features"], columns["reward"], strict=True):
        agent.observe(features, reward)
        expected = verdicts.look(agent)
    for batch in (1, 7, 65_536):
        found = verdict(DecisionLog.from_table(columns), policy, delta=0.1, batch=batch)
        assert (found.verdict.best, found.verdict.candidates, found.verdict.count) == (2, (2,), 400)
        assert found.decided_after == verdicts.decided_after < 400
        assert found.verdict.difference(2, 1) == pytest.approx(expected.difference(2, 1), rel=1e-9)
        assert str(found).endswith(f"That was known after {found.decided_after}.")


def test_the_whole_log_and_that_of_what_was_played_say_the_same(shop):
    whole, played = (verdict(shop / name, LinMED(sigma=0.5)) for name in ("log", "played"))
    assert str(whole) == str(played)
    assert whole.table.to_pylist() == played.table.to_pylist()
    assert whole.verdict.count == 2500  # decisions without a reward are left out


def test_the_table_has_the_best_first_and_differences_to_it():
    found = verdict(DecisionLog.from_table(table()), LinMED(sigma=0.1))
    rows = found.table.to_pylist()
    assert [row["arm"] for row in rows] == ["arm 2", "arm 1", "arm 0"]
    assert (rows[0]["estimate"], rows[0]["possible"]) == (0.0, "yes")
    for row in rows[1:]:
        behind = found.verdict.difference(2, int(row["arm"][-1]))
        assert [row["estimate"], row["lower"], row["upper"]] == list(behind)
        assert row["possible"] == "no"


def test_names_of_arms_come_from_the_log_or_from_those_who_ask():
    names = np.array(["red", "green", "blue"])
    columns = table()
    log = DecisionLog.from_table(columns | {"arm_id": names[columns["arm"]]})
    assert verdict(log, LinMED(sigma=0.1)).arms.names == ("red", "green", "blue")
    assert str(verdict(log, LinMED(sigma=0.1))).startswith(
        "blue is the best (95 % confidence after 400 rewards)"
    )
    some = verdict(log, LinMED(sigma=0.1), Arms.of(ARMS[:2], ["left", "right"]))
    assert some.arms.names == ("left", "right")
    assert some.verdict.arms == 2
    assert verdict(log, LinMED(sigma=0.1), ARMS[:2]).arms.names == ("arm 0", "arm 1")


def test_logs_that_do_not_tell_their_arms_are_refused_like_by_a_colleague(shop):
    policy = LinMED(sigma=0.5)
    columns = table(rounds=3)
    changing = {**columns, "arms": [ARMS] * 2 + [[E1] * 3]}
    for given, field, message in (
        (changing, "arms", "change, first in row 2: give the arms that are to be compared"),
        (columns | {"features": [E1, E2, [0.5, 0.5]], "arm": [0, 1, 1]}, "arms", "features of arm 1 change"),
        (
            columns | {"arm": [0, 1, 1], "features": [E1, E2, E2], "arm_count": [3] * 3},
            "arms",
            "does not tell the features of arm 2, never played",
        ),
        (
            {name: columns[name] for name in ("arm", "probability", "reward")},
            "log",
            "no features of arms.*compare",
        ),
    ):
        with blames(field, message):
            verdict(DecisionLog.from_table(given), policy)
    assert verdict(DecisionLog.from_table(changing), policy, ARMS).verdict.count == 3
    with pytest.raises(ValueError, match="dimension 3"):
        verdict(DecisionLog.from_table(columns), policy, np.eye(3))
    with pytest.raises(TypeError, match="EXP2 keeps no ridge"):
        verdict(DecisionLog.from_table(columns), EXP2())
    with pytest.raises(BadValue, match="red"):
        Arms.of(ARMS[:2], ["red", "red"])


def test_missing_rewards_count_as_they_are_said_to():
    columns = table()
    columns["reward"] = [None if i % 5 == 0 else value for i, value in enumerate(columns["reward"].tolist())]
    log = DecisionLog.from_table({**columns, "time": [1_700_000_000 + i for i in range(400)]})
    assert verdict(log, LinMED(sigma=1.0)).verdict.count == 320
    assert verdict(log, LinMED(sigma=1.0), missing=0.0, mature=0.0).verdict.count == 400


# The command


def test_the_command_prints_the_sentence_first_and_a_bar_an_arm(shop, capsys, monkeypatch):
    for width in (80, 50):
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(["verdict", str(shop / "log"), "--sigma", "0.5"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= width
        text = " ".join(" ".join(lines).split())
        assert text.startswith(str(verdict(shop / "log", LinMED(sigma=0.5))))
        for told in (
            "2,500",
            "95 % for all at once, at every look",
            "sigma=0.5",
            "norm_bound=1",
            "how much less than arm 2",
        ):
            assert told in text
        assert sum("●" in line for line in lines) == 3


def test_the_command_tells_programs_the_same(shop, capsys):
    options = ["--sigma", "0.5", "--norm-bound", "0.8", "--ridge", "2", "--delta", "0.1", "--epsilon", "0.02"]
    assert (
        main(["verdict", str(shop / "log"), *options, "--json", "--arms-from", str(shop / "arms.csv")]) == 0
    )
    facts = json.loads(capsys.readouterr().out)
    policy = LinMED(sigma=0.5, norm_bound=0.8, ridge=2.0)
    expected = verdict(shop / "log", policy, Arms.read(shop / "arms.json"), delta=0.1, epsilon=0.02)
    assert facts["sentence"] == str(expected)
    assert facts["best"] == "green"
    assert facts["candidates"] == [expected.arms.names[i] for i in expected.verdict.candidates]
    assert facts["margin"] == expected.verdict.margin
    assert facts["decided_after"] == expected.decided_after
    assert (facts["decided"], facts["proved"], facts["delta"], facts["epsilon"]) == (True, True, 0.1, 0.02)
    assert [row["arm"] for row in facts["arms"]] == ["green", "red"]


def test_rewards_that_contradict_what_was_assumed_are_said_to(shop, capsys):
    assert main(["verdict", str(shop / "log"), "--sigma", "0.001"]) == 0
    assert capsys.readouterr().out.startswith("CONTRADICTION after 2,500 rewards")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--sigma"),
        (["--sigma", "loud"], "sigma must be a number"),
        (["--sigma", "-1"], "sigma must be positive"),
        (["--sigma", "0.5", "--delta", "0"], "delta must lie strictly between 0 and 1"),
        (["--sigma", "0.5", "--epsilon", "-1"], "epsilon"),
        (["--sigma", "0.5", "--arms-from", "nowhere.csv"], "nowhere.csv"),
        (["--sigma", "0.5", "--html", "nowhere/page.html"], "no directory nowhere"),
    ],
)
def test_wrong_requests_are_refused_by_name(shop, capsys, options, said):
    if options:
        assert main(["verdict", str(shop / "log"), *options]) == 2
    else:
        with pytest.raises(SystemExit):
            main(["verdict", str(shop / "log")])
    assert said in capsys.readouterr().err


def test_a_log_without_features_is_told_about_compare_and_one_whose_arms_change_about_the_option(
    shop, capsys
):
    assert main(["verdict", str(shop / "groups.csv"), "--sigma", "0.5"]) == 2
    told = capsys.readouterr().err
    assert "linmed compare" in told
    assert "--columns features=x1+x2" in told
    (shop / "flat.csv").write_text(
        "arm,probability,reward,x,y\n"
        + "".join(f"{i % 2},0.5,{i % 2},{1 - i % 2},{i % 2}\n" for i in range(300))
    )
    assert main(["verdict", str(shop / "flat.csv"), "--sigma", "0.5", "--columns", "features=x+y"]) == 0
    assert capsys.readouterr().out.startswith("Arm 1 is the best (95 % confidence after 300 rewards)")
    rng = np.random.default_rng(0)
    with Agent(LinMED(sigma=0.5), dim=2, seed=0, log=shop / "changing") as agent:
        for _ in range(20):
            decision = agent.decide(rng.random((3, 2)))
            agent.learn(decision, 0.5)
    assert main(["verdict", str(shop / "changing"), "--sigma", "0.5"]) == 2
    assert "give the arms that are to be compared with --arms-from FILE" in capsys.readouterr().err
    assert (
        main(["verdict", str(shop / "changing"), "--sigma", "0.5", "--arms-from", str(shop / "plain.csv")])
        == 0
    )
    assert "arm 0, arm 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "red, 1, 0\ngreen, x, 1\n", "'x' in arm 2 is not a number"),
        ("a.csv", "1, 0\n1\n", "rectangular"),
        ("a.json", "[[1, 2]", "is not JSON"),
        ("a.json", '{"red": "blue"}', "arms"),
        ("a.json", "[]", "arms"),
    ],
)
def test_files_of_arms_are_checked(tmp_path, name, content, said):
    (tmp_path / name).write_text(content)
    with pytest.raises((ValueError, TypeError), match=said):
        Arms.read(tmp_path / name)


def test_names_of_some_arms_alone_are_left_out():
    arms = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    table = {
        "arm": [0, 1] * 100, "arm_id": ["a", "b"] * 100, "probability": [0.5] * 200,
        "reward": [0.2, 0.6] * 100, "arms": [arms] * 200, "features": [arms[0], arms[1]] * 100,
    }  # fmt: skip
    found = verdict(DecisionLog.from_table(table), LinMED(sigma=0.5))
    assert found.arms.names == ("arm 0", "arm 1", "arm 2")


def test_an_arm_without_a_name_is_refused(tmp_path):
    path = tmp_path / "arms.csv"
    path.write_text(",0,1\na,1.0,0.0\nb,0.0,1.0\n")
    with pytest.raises(ValueError, match="arm 0 has no name"):
        Arms.read(path)
