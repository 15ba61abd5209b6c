"""Other people's formats: round trips, and malformed lines counted and named."""

import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linmed.log import LogWriter
from linmed.ope import DecisionLog, evaluate


@pytest.fixture
def written(tmp_path) -> DecisionLog:
    rng = np.random.default_rng(0)
    with LogWriter(tmp_path / "log", flush_rows=4) as writer:
        for i in range(10):
            p = rng.dirichlet(np.ones(3))
            arms = rng.normal(size=(3, 2))
            writer.record(
                f"e{i}",
                arm=i % 3,
                arm_count=3,
                log_probability=float(np.log(p[i % 3])),
                log_probabilities=np.log(p),
                features=arms[i % 3],
                arms=arms,
                arm_id=f"item{i % 3}",
                policy="LinMED-90",
                version=i,
                time=1e9 + i + 0.123456,
            )
            if i != 4:
                writer.reward(f"e{i}", float(rng.random()), time=1e9 + 100 + i)
    return DecisionLog.open(tmp_path / "log")


def filled(log):
    """The columns that have something in them: events do not name the others."""
    table = log.table()
    return [name for name in log.columns if table[name].null_count < len(table)]


def test_dsjson_round_trip_keeps_every_column(written, tmp_path):
    assert written.to_dsjson(tmp_path / "events.json") == 10
    back = DecisionLog.from_dsjson(tmp_path / "events.json")
    assert back.table().select(filled(written)).equals(written.table().select(filled(written)))
    assert back.malformed.count == 0


def test_a_column_that_the_first_event_lacks_is_kept(written, tmp_path):
    """The first decision waits, so its event has no time of a reward."""
    late = DecisionLog.from_table(written.table().slice(4))
    late.to_dsjson(tmp_path / "events.json")
    back = DecisionLog.from_dsjson(tmp_path / "events.json")
    assert back.table().select(filled(late)).equals(late.table().select(filled(late)))


def test_events_of_decisions_that_were_never_carried_out_are_left_out(tmp_path):
    """As Vowpal Wabbit and vw-estimators do; their cost says nothing."""
    skipped = GOOD.replace('"a"', '"_skipLearn":true,"a"')
    (tmp_path / "log.json").write_text(f"{skipped}\n{GOOD}\n{skipped}\n")
    assert DecisionLog.from_dsjson(tmp_path / "log.json").table().num_rows == 1


def test_dsjson_needs_the_number_of_arms(tmp_path):
    """Without it other readers would take one arm for all there are."""
    log = DecisionLog.from_table({"arm": [2, 0], "probability": [0.5, 0.5], "reward": [1.0, 0.0]})
    with pytest.raises(ValueError, match="decision-service JSON needs the column 'arm_count'"):
        log.to_dsjson(tmp_path / "events.json")
    some = DecisionLog.from_table(
        {"arm": [2, 0], "probability": [0.5, 0.5], "reward": [1.0, 0.0], "arm_count": pa.array([3, None])}
    )
    with pytest.raises(ValueError, match="row 1 of table has none"):
        some.to_dsjson(tmp_path / "events.json")
    assert not (tmp_path / "events.json").exists()


def test_dsjson_lists_the_played_action_first(written, tmp_path):
    written.to_dsjson(tmp_path / "events.json")
    event = json.loads((tmp_path / "events.json").read_text().splitlines()[2])
    row = written.table().to_pylist()[2]
    assert event["a"] == [3, 1, 2]
    assert event["_label_Action"] == 3
    assert event["_label_cost"] == -row["reward"]
    assert event["p"] == [row["probabilities"][i] for i in (2, 0, 1)]


def test_dsjson_of_others_is_read(tmp_path):
    """An event as decision services write it: nested features, integers, an action list in another order."""
    event = {
        "_label_cost": -1,
        "_label_probability": 0.8,
        "_label_Action": 2,
        "_labelIndex": 1,
        "Timestamp": "2017-10-24T00:00:15.5160000Z",
        "Version": "1",
        "EventId": "fa68",
        "a": [2, 1],
        "c": {
            "User": {"age": 3},
            "_multi": [{"i": {"price": 1.5}}, {"i": {"price": 2, "id": "x"}, "rank": 1}],
        },
        "p": [0.8, 0.2],
        "VWState": {"m": "model/1"},
    }
    (tmp_path / "log.json").write_text(json.dumps(event) + "\n\n")
    (row,) = DecisionLog.from_dsjson(tmp_path / "log.json", features=["price", "rank"]).table().to_pylist()
    assert row["arm"] == 1
    assert row["reward"] == 1.0
    assert row["probabilities"] == [0.2, 0.8]
    assert row["arms"] == [[1.5, 0.0], [2.0, 1.0]]
    assert row["time"] == datetime(2017, 10, 24, 0, 0, 15, 516000, tzinfo=UTC)
    assert "arms" not in DecisionLog.from_dsjson(tmp_path / "log.json").columns


GOOD = '{"_label_cost":0,"_label_probability":0.5,"_label_Action":1,"_labelIndex":0,"a":[1,2]}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"_label_cost":0}', "_label_probability must be a number"),
        ('{"_label_cost":0,"_label_probability":2,"_labelIndex":0}', r"must lie in \(0, 1\]"),
        ('{"_label_cost":"x","_label_probability":0.5,"_labelIndex":0}', "_label_cost must be a number"),
        ('{"_label_cost":0,"_label_probability":0.5,"_labelIndex":2,"a":[1,2]}', "index of the 2 actions"),
        (
            '{"_label_cost":0,"_label_probability":0.5,"_labelIndex":0,"a":[1,3],"p":[0.5,0.5]}',
            "every action",
        ),
    ],
)
def test_malformed_events_abort_or_are_counted(tmp_path, line, reason):
    path = tmp_path / "log.json"
    path.write_text(f"{GOOD}\n{line}\n{GOOD}\n{line}\n")
    with pytest.raises(ValueError, match=f"line 2: .*{reason}"):
        DecisionLog.from_dsjson(path).table()
    skipping = DecisionLog.from_dsjson(path, errors="skip")
    assert skipping.malformed.count == 2
    assert [number for number, _ in skipping.malformed.first] == [2, 4]
    assert skipping.table().num_rows == 2
    with pytest.raises(ValueError, match="errors must be one of"):
        DecisionLog.from_dsjson(path, errors="hope")


def test_vw_adf_text_is_read(tmp_path):
    path = tmp_path / "log.vw"
    path.write_text(
        "shared |User age:3\n|Item price:1.5 rank\n0:-1:0.25 'tag |Item price:2\n|Item\n\n"
        "shared |User\n0:0.5:0.5 |Item rank:2\n|Item price:1\n"
    )
    log = DecisionLog.from_vw(path, features=["price", "rank"])
    rows = log.table().to_pylist()
    assert [(row["arm"], row["probability"], row["reward"], row["arm_count"]) for row in rows] == [
        (1, 0.25, 1.0, 3),
        (0, 0.5, -0.5, 2),
    ]
    assert rows[0]["arms"] == [[1.5, 1.0], [2.0, 0.0], [0.0, 0.0]]
    estimate = evaluate(log, "uniform", "ipw", interval="none")["estimate"][0].as_py()
    assert estimate == pytest.approx((1 / 3 / 0.25 - 0.5) / 2, abs=1e-12)


def test_vw_plain_text_is_read(tmp_path):
    path = tmp_path / "log.vw"
    path.write_text("1:2:0.4 | a c\n3:0.5:0.2 | b d\n4:1.2:0.5 | a b c\n")
    log = DecisionLog.from_vw(path, arm_count=4)
    assert log.table()["arm"].to_pylist() == [0, 2, 3]
    assert log.table()["reward"].to_pylist() == [-2.0, -0.5, -1.2]
    with pytest.raises(ValueError, match="line 3: actions are numbered from 1 to 3, got 4"):
        DecisionLog.from_vw(path, arm_count=3).table()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("|a x\n|a y\n", "exactly one action with a label, this one has 0"),
        ("0:1:0.5 |a x\n0:1:0.5 |a y\n|a z\n", "this one has 2"),
        ("0:1 |a x\n|a y\n", "action:cost:probability"),
        ("0:1:1.5 |a x\n|a y\n", r"probability in \(0, 1\].*on line 4"),
        ("0:x:0.5 |a x\n|a y\n", "three numbers"),
        ("0:1:0.5 |a x:y\n|a z\n", "no number after the colon"),
    ],
)
def test_malformed_vw_examples_abort_or_are_counted(tmp_path, bad, reason):
    path = tmp_path / "log.vw"
    good = "0:1:0.5 |a x\n|a y\n\n"
    path.write_text(good + bad + "\n" + good)
    with pytest.raises(ValueError, match=f"line 4: .*{reason}"):
        DecisionLog.from_vw(path, features=["x"]).table()
    skipping = DecisionLog.from_vw(path, features=["x"], errors="skip")
    assert skipping.table().num_rows == 2
    assert skipping.malformed.count == 1
    assert skipping.malformed.first[0][0] == 4


HEADER = ",timestamp,item_id,position,click,{},user_feature_0\n"
LINE = "{0},2019-11-24 00:01:0{0}.979311+00:00,{0},3,{1},0.25,abc\n"


@pytest.mark.parametrize("column", ["propensity_score", "action_prob"])
def test_open_bandit_csv_is_read(tmp_path, column):
    path = tmp_path / "men.csv"
    path.write_text(HEADER.format(column) + LINE.format(1, 0) + LINE.format(2, 1))
    (tmp_path / "item_context.csv").write_text(",item_id,x\n0,0,1\n1,1,1\n2,2,1\n3,3,1\n")
    log = DecisionLog.from_open_bandit(path)
    assert log.table().to_pylist()[1] == {
        "time": datetime(2019, 11, 24, 0, 1, 2, 979311, tzinfo=UTC),
        "arm": 2,
        "arm_count": 4,
        "probability": 0.25,
        "reward": 1.0,
        "position": 3,
        "user_feature_0": "abc",
    }
    assert evaluate(log, "uniform", "ipw", reward_range=(0, 1))["estimate"][0].as_py() == 0.5
    assert DecisionLog.from_open_bandit(path, arm_count=9).table()["arm_count"].to_pylist() == [9, 9]


def test_open_bandit_logs_keep_users_and_affinities(tmp_path):
    path = tmp_path / "men.csv"
    affinity = ",".join(f"user-item_affinity_{a}" for a in range(3))
    lines = [
        "0,2019-11-24 00:01:00+00:00,2,1,0,0.25,abc,def,0.0,0.5,7.0\n",
        "1,2019-11-24 00:02:00+00:00,0,3,1,0.5,abc,xyz,1.0,0.0,x\n",
        "2,2019-11-24 00:03:00+00:00,1,2,1,0.5,ghi,xyz,4.0,5.0,6.0\n",
    ]
    head = f",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,{affinity}\n"
    path.write_text(head + lines[0] + lines[2])
    items = ",item_id,item_feature_0,item_feature_1\n1,1,-0.5,a\n0,0,0.25,b\n2,2,2.0,b\n"
    (tmp_path / "item_context.csv").write_text(items)
    log = DecisionLog.from_open_bandit(path)
    first = log.table().to_pylist()[0]
    assert (first["user_feature_0"], first["user_feature_1"]) == ("abc", "def")
    assert first["affinities"] == [0.0, 0.5, 7.0]

    path.write_text(head + "".join(lines))
    torn = DecisionLog.from_open_bandit(path)
    assert torn.table(["arm", "reward", "user_feature_1"]).num_rows == 3  # what is not read is not parsed
    with pytest.raises(
        ValueError, match=r"line 3: column 'user-item_affinity_2' .*affinities.*'x', a number"
    ):
        torn.table(["affinities"])
    skipping = DecisionLog.from_open_bandit(path, errors="skip")
    assert len(skipping) == len(skipping.table(["affinities"])) == 2
    assert skipping.malformed.count == 1
    assert "affinities" not in DecisionLog.from_open_bandit(path, 4).columns


def test_csv_files_of_another_kind_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="not an Open Bandit log"):
        DecisionLog.from_open_bandit(tmp_path / "x.csv", arm_count=2)
    (tmp_path / "y.csv").write_text(HEADER.format("action_prob") + LINE.format(1, 0))
    with pytest.raises(ValueError, match="arm_count is needed"):
        DecisionLog.from_open_bandit(tmp_path / "y.csv")
    with pytest.raises(FileNotFoundError, match="there is no log"):
        DecisionLog.from_open_bandit(tmp_path / "z.csv")


def test_obp_round_trip_keeps_what_obp_knows(written):
    feedback = written.to_obp()
    rewarded = [row for row in written.table().to_pylist() if row["reward"] is not None]
    assert feedback["n_rounds"] == 9
    assert feedback["pi_b"].shape == (9, 3, 1)
    assert feedback["context"].shape == (9, 6)
    back = DecisionLog.from_obp(feedback).table().to_pylist()
    for ours, theirs in zip(rewarded, back, strict=True):
        for name in ("arm", "arm_count", "probability", "probabilities", "arms", "features", "reward"):
            assert theirs[name] == ours[name]


def test_obp_positions_choose_the_probabilities_that_were_used():
    pi_b = np.array([[[0.5, 0.2], [0.5, 0.8]], [[0.1, 0.6], [0.9, 0.4]]])
    feedback = {
        "n_rounds": 2,
        "n_actions": 2,
        "action": np.array([1, 0]),
        "position": np.array([1, 0]),
        "reward": np.array([1, 0]),
        "pscore": np.array([0.8, 0.1]),
        "pi_b": pi_b,
        "context": np.ones((2, 5)),
        "action_context": np.eye(2),
        "expected_reward": None,
    }
    rows = DecisionLog.from_obp(feedback).table().to_pylist()
    assert [row["probabilities"] for row in rows] == [[0.2, 0.8], [0.1, 0.9]]
    assert rows[0]["features"] == [0.0, 1.0]
    again = DecisionLog.from_obp(feedback).to_obp()
    np.testing.assert_array_equal(again["action_context"], np.eye(2))
    np.testing.assert_array_equal(again["position"], [1, 0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pscore": None}, "needs 'pscore'"),
        ({"reward": np.zeros(3)}, r"reward must have shape \(2,\)"),
        ({"pi_b": np.zeros((2, 2))}, "pi_b must have shape"),
        ({"action_context": np.eye(3)}, "action_context must have shape"),
    ],
)
def test_wrong_obp_dictionaries_are_explained(change, message):
    feedback = {"n_actions": 2, "action": np.array([1, 0]), "reward": np.ones(2), "pscore": np.full(2, 0.5)}
    with pytest.raises(ValueError, match=message):
        DecisionLog.from_obp(feedback | change)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_are_tables(library):
    frames = pytest.importorskip(library, reason=f"{library} is not installed")
    columns = {"arm": [1, 0], "probability": [0.5, 0.25], "r": [1.0, 0.0], "arm_count": [2, 2]}
    frame = frames.DataFrame(columns)
    log = DecisionLog.from_table(frame, {"reward": "r"})
    assert evaluate(log, "uniform", "ipw", interval="none")["estimate"][0].as_py() == pytest.approx(0.5)
    times, names = ["2024-05-01", "2024-05-02T00:00:00Z"], ["b", "a"]
    frame = frames.DataFrame(columns | {"arm": names, "time": times, "shop": names})
    if library == "polars":
        frame = frame.with_columns(frame["arm"].cast(frames.Categorical))
    log = DecisionLog.from_table(frame, {"reward": "r"})
    assert log.where(shop="b").table(["arm", "arm_id"]).to_pylist() == [{"arm": 1, "arm_id": "b"}]
    assert log.after("2024-05-02").table()["arm_id"].to_pylist() == ["a"]


@pytest.mark.parametrize("library", ["dictionary", "pandas"])
def test_matrices_one_for_each_row_are_a_column(library):
    arms = [np.eye(2), np.ones((3, 2)), np.eye(2, dtype=int)]
    columns = {"arm": [0, 2, 1], "probability": [0.5, 0.2, 0.5], "reward": [True, False, True], "arms": arms}
    if library == "pandas":
        columns = pytest.importorskip("pandas").DataFrame(columns)
    table = DecisionLog.from_table(columns).table()
    assert table["arms"].to_pylist() == [matrix.tolist() for matrix in arms]
    assert table["arm_count"].to_pylist() == [2, 3, 2]
    assert table["reward"].to_pylist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "arms",
    [[np.eye(2), np.ones(3)], [np.eye(2), 3.0], [object(), object()], [np.ones((1, 1, 1))] * 2],
)
def test_columns_that_no_log_can_hold_are_named(arms):
    with pytest.raises(ValueError, match="column 'arms' cannot be read"):
        DecisionLog.from_table({"arm": [0, 0], "probability": [0.5, 0.5], "reward": [1.0, 1.0], "arms": arms})


def test_lists_with_wide_offsets_are_read(tmp_path):
    """Polars writes such columns."""
    columns = {"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0], "arm_count": [2, 2]}
    wide = pa.array([[0.5, 0.5]] * 2, pa.large_list(pa.float64()))
    pq.write_table(pa.table(columns | {"probabilities": wide}), tmp_path / "log.parquet")
    log = DecisionLog.open(tmp_path / "log.parquet")
    assert log.to_obp()["pi_b"].tolist() == [[[0.5], [0.5]]] * 2
    assert evaluate(log, "logged", "ipw", interval="none")["estimate"][0].as_py() == 0.5
