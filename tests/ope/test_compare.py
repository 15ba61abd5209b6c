"""`compare`: A/B tests of every shape, looked at often, on tables that are not always what they seem."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

from linmed.ope import OPEWarning, compare
from linmed.ope.compare import MISMATCH, log_evidence
from linmed.validation import BadValue
from tests.blame import blames

FALSE_ALARM = 1e-3
"""How often a test that counts errors fails though as many happen as are promised."""


def visits(n, rates, seed, shares=None):
    """Visitors put into as many groups as there are rates, and whether they clicked."""
    rng = np.random.default_rng(seed)
    group = rng.choice(len(rates), n, p=shares)
    return group, (rng.random(n) < np.asarray(rates)[group]).astype(float)


def table(n=2_000, rates=(0.2, 0.3), seed=0, names="abcdefgh", shares=None):
    group, click = visits(n, rates, seed, shares)
    return {"variant": np.array(list(names))[group], "click": click}


def rows(found):
    return {row["target"]: row for row in found.to_pylist()}


def test_what_a_group_earns_and_what_more_than_the_baseline():
    test = table(6_000, (0.2, 0.3, 0.25))
    found = rows(compare(test, "variant", reward="click"))
    assert list(found) == ["a", "b", "c", "b − a", "c − a"]
    for name, rate in (("a", 0.2), ("b", 0.3), ("c", 0.25), ("b − a", 0.1), ("c − a", 0.05)):
        row = found[name]
        assert row["lower"] <= rate <= row["upper"]
        assert row["valid"] == "any time"
        assert row["n"] == 6_000
    assert found["b − a"]["lower"] > 0
    for name in "abc":
        assert found[name]["estimate"] == pytest.approx(
            test["click"][test["variant"] == name].mean(), abs=0.01
        )
    other = rows(compare(test, "variant", reward="click", baseline="b"))
    assert list(other)[3:] == ["a − b", "c − b"]
    for end, opposite in (("estimate", "estimate"), ("lower", "upper"), ("upper", "lower")):
        assert other["a − b"][end] == pytest.approx(-found["b − a"][opposite], abs=1e-12)


def values(name):
    return {
        "text": ["a", "b"],
        "large text": pa.array(["a", "b"], pa.large_string()),
        "ints": [3, -1],
        "small ints": pa.array([3, 4], pa.int8()),
        "booleans": [False, True],
        "floats": [0.5, 1.5],
        "dates": pa.array([1, 2], pa.date32()),
        "dictionary": pa.array(["a", "b", "unused"]).dictionary_encode(),
    }[name]


@pytest.mark.parametrize(
    "kind", ["text", "large text", "ints", "small ints", "booleans", "floats", "dates", "dictionary"]
)
def test_groups_are_values_of_any_kind(kind, tmp_path):
    group, click = visits(800, (0.2, 0.7), 1)
    names = values(kind)
    column = names.take(pa.array(group)) if isinstance(names, pa.Array) else pa.array(np.array(names)[group])
    whole = pa.table({"group": column, "reward": click})
    found = compare(whole, "group")
    first, second = sorted(dict.fromkeys(column.to_pylist()))
    assert found["target"].to_pylist() == [str(first), str(second), f"{second} − {first}"]
    better = column.to_pylist()[int(np.argmax(group))]
    row = rows(found)[f"{second} − {first}"]
    assert row["lower"] > 0 if better == second else row["upper"] < 0
    for baseline in (second, str(second)):
        assert compare(whole, "group", baseline=baseline)["target"].to_pylist()[2] == f"{first} − {second}"
    if kind in ("text", "ints", "dictionary"):
        pq.write_table(whole, tmp_path / "visits.parquet")
        assert compare(tmp_path / "visits.parquet", "group") == found


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_of_other_libraries_give_the_same(library):
    frames = pytest.importorskip(library, reason=f"{library} is not installed")
    test = table()
    expected = compare(test, "variant", reward="click")
    assert compare(frames.DataFrame(test), "variant", reward="click") == expected
    assert compare(pa.table(test), "variant", reward="click") == expected
    if library == "pandas":
        frame = frames.DataFrame(test).astype({"variant": "category", "click": bool})
        assert compare(frame, "variant", reward="click") == expected


def test_shares_are_those_of_the_assignment():
    test = table(4_000, (0.2, 0.3, 0.2), shares=[0.5, 0.25, 0.25])
    shares = {"a": 0.5, "b": 0.25, "c": 0.25}
    found = rows(compare(test, "variant", reward="click", shares=shares))
    assert found["b"]["lower"] <= 0.3 <= found["b"]["upper"]
    assert found["b − a"]["lower"] <= 0.1 <= found["b − a"]["upper"]
    with blames("shares", r"a 2,031 \(50.8%\).* where 33.3%, 33.3%, 33.3% were expected"):
        compare(test, "variant", reward="click")


def test_a_sample_ratio_mismatch_is_found_and_hardly_ever_where_there_is_none():
    rng = np.random.default_rng(0)
    shares = np.array([0.5, 0.3, 0.2])
    alarms, found, logs = 0, 0, 40
    for _ in range(logs):
        true, lost = (
            np.cumsum(np.eye(3)[rng.choice(3, 5_000, p=p)], axis=0)[::50]
            for p in (shares, [0.45, 0.33, 0.22])
        )
        evidence, against = ([log_evidence(look[None], shares) for look in looks] for looks in (true, lost))
        alarms += max(evidence) >= -np.log(MISMATCH)  # at any of a hundred looks
        found += max(against) >= -np.log(MISMATCH)
    assert alarms <= binom.isf(FALSE_ALARM, logs, MISMATCH)
    assert found > 0.75 * logs


def test_a_table_sorted_by_group_is_judged_without_regard_to_the_order():
    test = table(6_000, (0.2, 0.3))
    order = np.argsort(test["variant"], kind="stable")
    sorted_ = {name: column[order] for name, column in test.items()}
    with pytest.warns(OPEWarning, match="order of the rows"):
        found = compare(sorted_, "variant", reward="click")
    shuffled = compare(test, "variant", reward="click")
    for name in ("estimate", "lower", "upper"):
        assert found[name].to_pylist() == pytest.approx(shuffled[name].to_pylist(), abs=1e-12)
    difference = rows(found)["b − a"]
    assert difference["lower"] <= 0.1 <= difference["upper"]


def test_visitors_in_turns_and_visitors_with_several_rows_are_noticed_and_others_are_not():
    click = visits(2_000, (0.2, 0.3), 0)[1]
    with pytest.warns(OPEWarning, match="order of the rows"):
        compare({"variant": ["a", "b"] * 1_000, "click": click}, "variant", reward="click")
    several = np.repeat(np.random.default_rng(4).permutation([0, 1] * 250), 4)
    with pytest.warns(OPEWarning, match="visitors have several rows"):
        compare({"variant": several, "click": click}, "variant", reward="click")
    rng = np.random.default_rng(1)
    shares, alarms = np.array([0.5, 0.3, 0.2]), 0
    for _ in range(40):
        group = rng.choice(3, 1_000, p=shares)
        looks = (np.bincount(group[: n - 1] * 3 + group[1:n], minlength=9) for n in range(100, 1_001, 100))
        alarms += max(log_evidence(look.reshape(3, 3), shares) for look in looks) >= -np.log(MISMATCH)
    assert alarms <= binom.isf(FALSE_ALARM, 40, MISMATCH)


def test_all_differences_are_in_their_intervals_at_once_as_often_as_promised():
    tests, wrong, rates = 12, 0, np.array([0.3, 0.5, 0.32, 0.7])
    for seed in range(tests):
        group, click = visits(1_000, rates, [seed, 4])
        found = compare({"g": group, "r": click}, "g", reward="r").to_pylist()
        wrong += any(
            not row["lower"] <= gain <= row["upper"]
            for row, gain in zip(found[4:], rates[1:] - rates[0], strict=True)
        )
    assert wrong <= binom.isf(FALSE_ALARM, tests, 0.05)


@pytest.mark.parametrize("interval", ["betting", "asymptotic", "normal", "none"])
def test_estimates_are_the_groups_means_whatever_the_interval(interval):
    test = table()
    found = compare(test, "variant", reward="click", interval=interval)
    means = [test["click"][test["variant"] == name].mean() for name in "ab"]
    assert found["estimate"].to_pylist() == pytest.approx([*means, means[1] - means[0]], abs=1e-12)
    row = rows(found)["b − a"]
    if interval == "none":
        assert np.isnan(row["lower"])
    else:
        assert row["lower"] <= 0.1 <= row["upper"]


def test_rewards_that_are_missing_or_not_old_enough():
    group, click = visits(1_000, (0.2, 0.3), 0)
    time = 60.0 * np.arange(1_000)
    reward = [None if i >= 900 else value for i, value in enumerate(click)]
    rows_ = {"g": group, "reward": reward, "time": time}
    with pytest.warns(OPEWarning, match="100 of 1,000 decisions"):
        stopped = compare(rows_, "g")
    assert stopped["n"][0].as_py() == 900
    with pytest.warns(OPEWarning, match="have no reward, which is harmless only if"):
        assert compare(rows_, "g", missing="skip")["n"][0].as_py() == 900
    old = compare(rows_, "g", missing=0.0, mature=timedelta(minutes=49))
    assert old["n"][0].as_py() == 951
    filled = compare({"g": group[:951], "reward": np.where(np.arange(951) < 900, click[:951], 0.0)}, "g")
    assert old == filled


def test_an_executor_gives_the_same_numbers(tmp_path):
    whole = pa.table(table(3_000))
    for part in range(3):
        pq.write_table(whole.slice(1_000 * part, 1_000), tmp_path / f"{part}.parquet")
    with ThreadPoolExecutor(2) as pool:
        for interval in ("betting", "asymptotic"):
            asked = {"reward": "click", "interval": interval}
            here = compare(tmp_path, "variant", **asked)
            assert compare(tmp_path, "variant", **asked, executor=pool) == here
    assert compare(whole, "variant", reward="click")["estimate"].to_pylist() == pytest.approx(
        compare(tmp_path, "variant", reward="click")["estimate"].to_pylist(), abs=1e-12
    )


@pytest.mark.parametrize(
    ("asked", "field", "message"),
    [
        ({"groups": "colour"}, "groups", "groups must be one of the columns variant, click, got 'colour'"),
        ({"groups": 3}, "groups", "must be a string"),
        ({"reward": "clack"}, "reward", "reward must be one of the columns"),
        (
            {"groups": "click", "reward": "click", "baseline": 7},
            "baseline",
            r"one of the groups 0.0, 1.0, got 7",
        ),
        ({"baseline": "z"}, "baseline", "one of the groups 'a', 'b', got 'z'"),
        ({"shares": {"a": 0.5}}, "shares", "each once"),
        ({"shares": {"a": 0.5, "b": 0.25, "c": 0.25}}, "shares", "one of the groups 'a', 'b', got 'c'"),
        ({"shares": {"a": 0.5, "b": 0.6}}, "shares", "sum to one"),
        ({"shares": {"a": 1.0, "b": 0.0}}, "shares", "positive"),
        ({"shares": [0.5, 0.5]}, "shares", "mapping"),
        ({"confidence": 0.0}, "confidence", "strictly between"),
        ({"interval": "adaptive"}, "interval", "betting"),
        ({"log": 3}, "log", "log must be a log, the path of one"),
    ],
)
def test_bad_input_is_named(asked, field, message):
    given = {"log": table(), "groups": "variant", "reward": "click", **asked}
    if asked.get("groups") == "click":
        given["log"] = {"click": np.random.default_rng(0).integers(0, 2, 500).astype(float)}
    with blames(field, message):
        compare(given.pop("log"), **given)


def test_groups_that_are_none_are_named(small):
    click = np.zeros(300)
    for group, message in (
        (["a", None, "b"] * 100, "row 1 has none"),
        ([0.5, float("nan"), 1.5] * 100, "row 1 has none"),
        (["a"] * 300, r"at least two, table has \['a'\] alone"),
        (list(range(300)), "at most 100"),
        ([[1], [2], [3]] * 100, "names or numbers"),
    ):
        with blames("groups", message):
            compare({"g": group, "reward": click}, "g")
    with pytest.raises(BadValue, match="comparing groups needs the column 'policy'"):
        compare(small.log, "policy")
    with pytest.raises(BadValue, match="reward must be the log's own column"):
        compare(small.log, "arm", reward="revenue")
    with pytest.raises(BadValue, match="stand in table once"):
        compare({"g": [0, 1] * 150, "reward": click, "decision_id": ["x"] * 300}, "g")


def users(seed, n=300, most=40, more=0.0):
    """Rows of users who were put into groups, each with its own rate, in an order that tells nothing."""
    rng = np.random.default_rng(seed)
    group, size = rng.integers(2, size=n), rng.integers(5, most + 1, size=n)
    rate = np.clip(rng.beta(0.5, 0.5, size=n) + more * group, 0.0, 1.0)
    user = rng.permutation(np.repeat(np.arange(n), size))
    return {
        "variant": np.array(["a", "b"])[group[user]],
        "click": (rng.random(user.size) < rate[user]).astype(float),
        "user": np.char.add("u", user.astype(str)),
    }


@pytest.mark.parametrize("interval", ["betting", "normal"])
def test_units_with_several_rows_count_once_and_equal_groups_stay_equal(interval):
    """8 A/A tests at 5 %: more than 3 are wrong in one of 2,000 such runs."""
    wrong = 0
    for seed in range(8):
        found = compare(users(seed), "variant", reward="click", unit="user", interval=interval).to_pylist()
        wrong += not found[-1]["lower"] <= 0.0 <= found[-1]["upper"]
        assert [row["n"] for row in found] == [300] * 3
    assert wrong <= 3
    assert {row["valid"] for row in found} == {"one look" if interval == "betting" else "independent"}


def test_a_unit_counts_once_with_its_mean(tmp_path):
    rows_of = users(1, more=0.3)
    asked = {"groups": "variant", "reward": "click", "unit": "user"}
    found = rows(compare(rows_of, **asked))
    mean = {}
    for group in "ab":
        own = rows_of["variant"] == group
        each = [rows_of["click"][rows_of["user"] == user].mean() for user in np.unique(rows_of["user"][own])]
        mean[group] = np.mean(each)
        assert found[group]["estimate"] == pytest.approx(mean[group], abs=1e-12)
        assert found[group]["effective_n"] == pytest.approx(len(each))
    assert found["b − a"]["estimate"] == pytest.approx(mean["b"] - mean["a"], abs=1e-12)
    pq.write_table(pa.table(rows_of), tmp_path / "visits.parquet")
    assert compare(tmp_path / "visits.parquet", **asked).to_pylist() == compare(rows_of, **asked).to_pylist()
    once = table(500) | {"user": np.arange(500)}
    alike = compare(once, **asked).to_pylist()
    assert alike == compare({k: once[k] for k in ("variant", "click")}, "variant", reward="click").to_pylist()
    assert alike[0]["valid"] == "any time"  # a unit's only row does not change


def test_rewards_that_units_still_wait_for():
    late = users(2)
    late["click"] = [None if i % 7 == 3 else one for i, one in enumerate(late["click"])]
    asked = {"groups": "variant", "reward": "click", "unit": "user"}
    with pytest.warns(OPEWarning, match="have no reward, which is harmless only if lateness"):
        found = compare(late, missing="skip", **asked).to_pylist()
    told = [i for i, one in enumerate(late["click"]) if one is not None]
    kept = {name: [column[i] for i in told] for name, column in late.items()}
    assert found == compare(kept, **asked).to_pylist()
    with pytest.warns(OPEWarning, match="the first is row 3 of table, and the log is judged up to it"):
        assert compare(late, **asked)["n"][0].as_py() == 3


@pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")
def test_a_column_by_which_rows_were_put_into_groups_is_named():
    said = r"the column 'user' has 300 values in [\d,]+ rows, and rows of one .*too narrow. Give unit='user'"
    test = users(6)
    n = len(test["user"])
    rng = np.random.default_rng(0)
    test |= {"country": rng.integers(50, size=n), "page": test["variant"], "score": rng.random(n)}
    with pytest.warns(OPEWarning, match=said):
        compare(test | {"odd": [{1: 2}] * n}, "variant", reward="click")
    coded = pa.array(test.pop("user")).dictionary_encode()
    with pytest.warns(OPEWarning, match="Give unit='number'"):
        compare(test | {"number": coded}, "variant", reward="click")
    uneven = users(4)  # rows 45 : 55, users 50 : 50
    with (
        pytest.warns(OPEWarning, match=said),
        pytest.raises(
            BadValue, match=r"shares must be .* missing. But the column 'user' .* Give unit='user'"
        ),
    ):
        compare(uneven, "variant", reward="click")
    compare(uneven, "variant", reward="click", unit="user")


def test_columns_that_name_no_units_are_not_taken_for_them():
    """Visitors drawn row by row: their countries, what they were shown, and ids of which some come twice."""
    for seed in range(4):
        rng = np.random.default_rng([seed, 5])
        test = table(3_000, seed=seed)
        shown = np.char.add(test["variant"], rng.integers(3, size=3_000).astype(str))
        ids = {"country": rng.integers(200, size=3_000), "id": rng.integers(2_000, size=3_000)}
        compare(test | ids | {"shown": shown}, "variant", reward="click")


def test_units_that_cannot_be_are_refused():
    test = users(5)
    with pytest.raises(BadValue, match=r"unit must be one of the columns variant, click, user, got 'person'"):
        compare(test, "variant", reward="click", unit="person")
    moved = test | {"variant": np.where(np.arange(len(test["user"])) == 700, "a", "b")}
    message = r"stay there: 'u\d+' is in one group in row \d+ and in another in row \d+"
    with blames("unit", message):
        compare(moved, "variant", reward="click", unit="user")
    gaps = test | {"user": [None, *test["user"][1:]]}
    with pytest.raises(BadValue, match="unit must be given in every row: row 0 has none"):
        compare(gaps, "variant", reward="click", unit="user")
    with pytest.raises(TypeError, match="unit must be"):
        compare(test, "variant", reward="click", unit=3)
    with pytest.raises(BadValue, match="unit must be another column than groups and reward, got 'variant'"):
        compare(test, "variant", reward="click", unit="variant")
