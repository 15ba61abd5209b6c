"""Items that come, change and go; and readers who do not notice until they look."""

import json
import threading
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from linmed import Agent, Disjoint, LinMED
from linmed.features import Catalogue, Category, Features, Number, Vector
from linmed.validation import BadType, BadValue

TABLE = pd.DataFrame(
    {
        "item_id": ["a", "b", "c"],
        "price": [1.0, 2.0, 3.0],
        "kind": ["x", "y", "x"],
        "new": [True, False, True],
    }
)


def live_ids(catalogue):
    return [name for name, live in zip(catalogue.ids, catalogue.live, strict=True) if live]


def test_a_table_becomes_a_catalogue_with_columns_of_its_own():
    catalogue = Catalogue.from_table(TABLE.assign(emb=[[1.0, 2.0]] * 3))
    price, kind, new, emb = catalogue.features.item
    assert price == Number("price", scale=(2.0, np.sqrt(2 / 3)))
    assert kind == Category("kind", ["x", "y"])
    assert new == Number("new", scale=None)
    assert emb == Vector("emb", 2)
    assert catalogue.matrix.shape == (3, 6)
    assert (catalogue.count, len(catalogue), catalogue.version) == (3, 3, 0)
    assert catalogue.place("b") == 1
    assert "b" in catalogue
    assert "z" not in catalogue


def test_items_of_which_only_the_id_is_known_are_told_apart_by_it():
    catalogue = Catalogue.from_table([{"item_id": "a"}, {"item_id": "b"}])
    assert catalogue.matrix.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    catalogue.add({"item_id": "new"})
    assert catalogue.matrix[2].tolist() == [0.0, 0.0]


def test_what_cannot_be_guessed_is_asked_for():
    with pytest.raises(BadValue, match=r"items\['day'\] is neither"):
        Catalogue.from_table({"item_id": [1], "day": [pd.Timestamp("2020-01-01")]})
    with pytest.raises(BadValue, match="items has no column 'item_id'; it has 'sku', 'price'"):
        Catalogue.from_table({"sku": [1], "price": [2.0]})


def test_changes_leave_a_snapshot_as_it_was():
    catalogue = Catalogue.from_table(TABLE)
    before = catalogue.snapshot()
    copy = before.matrix.copy()
    catalogue.change({"item_id": "b", "price": 9.0, "kind": "x", "new": False})
    catalogue.remove("a")
    catalogue.add([{"item_id": f"n{i}", "price": i} for i in range(50)])
    assert before.version == 0
    assert before.live.tolist() == [True] * 3
    assert before.matrix.tobytes() == copy.tobytes()
    assert catalogue.version == 3
    assert catalogue.count == 52
    assert live_ids(catalogue)[:3] == ["c", "b", "n0"]
    assert catalogue.place("b") == 3
    assert catalogue.live[:5].tolist() == [False, False, True, True, True]


def test_a_removed_item_may_come_back():
    catalogue = Catalogue.from_table(TABLE)
    catalogue.remove(["a", "b"])
    with pytest.raises(BadValue, match="'a' was removed"):
        catalogue.place("a")
    catalogue.add({"item_id": "a", "price": 5.0})
    assert catalogue.place("a") == 3


def test_unknown_and_double_ids_are_refused_and_change_nothing():
    catalogue = Catalogue.from_table(TABLE)
    row = {"price": 1.0, "kind": "x", "new": True}
    for change, message in [
        (lambda: catalogue.add({"item_id": "a", **row}), "'a' is already in the catalogue; use change"),
        (lambda: catalogue.add([{"item_id": "z", **row}] * 2), "twice"),
        (lambda: catalogue.change({"item_id": "z", **row}), "'z' is not in the catalogue"),
        (lambda: catalogue.change({"item_id": "a", "price": 2.0}), "items has no column 'kind'"),
        (lambda: catalogue.add({"item_id": 2**63, **row}), "64 bits"),
        (lambda: catalogue.remove("z"), "'z' is not in the catalogue"),
        (lambda: catalogue.remove(["a", "z"]), "'z' is not in the catalogue"),
        (lambda: catalogue.add(row), "items has no column 'item_id'"),
        (lambda: catalogue.add({"item_id": "", **row}), "must not be empty"),
        (lambda: catalogue.add([{"item_id": "q", "price": np.inf}]), "price"),
    ]:
        with pytest.raises(BadValue, match=message):
            change()
    for wrong in (True, 1.5, None, ["a"], b"a"):
        with pytest.raises((BadType, BadValue), match="must be text or a whole number"):
            catalogue.place(wrong)
        with pytest.raises((BadType, BadValue)):
            catalogue.add({"item_id": wrong, **row})
    assert catalogue.version == 0
    assert live_ids(catalogue) == ["a", "b", "c"]
    with pytest.raises(BadValue, match="twice"):
        Catalogue([17, "17"], np.eye(2))


def test_a_range_of_ids_needs_no_list():
    catalogue = Catalogue(range(1000), np.ones((1000, 2), dtype=np.float32))
    assert catalogue.place(999) == catalogue.place("999") == 999
    for wrong in ("0999", 1000, -1, "x", "٣"):
        assert wrong not in catalogue
    catalogue.remove(5)
    catalogue.add({"id": "new", "features": [0.5, 1e-3]})
    assert catalogue.count == 1000
    assert catalogue.place("new") == 1000
    assert catalogue.matrix.dtype == np.float32
    assert catalogue.ids[999:] == (999, "new")


@pytest.mark.parametrize("mapped", [True, False])
def test_a_directory_keeps_everything(tmp_path, mapped):
    catalogue = Catalogue.from_table(TABLE)
    catalogue.remove("b")
    catalogue.save(tmp_path / "c")
    again = Catalogue.open(tmp_path / "c", mapped=mapped)
    assert isinstance(again.matrix, np.memmap) == mapped
    assert (again.ids, again.version, again.count) == (catalogue.ids, 1, 2)
    assert again.features == catalogue.features
    assert again.matrix.tobytes() == catalogue.matrix.tobytes()
    assert again.live.tolist() == [True, False, True]
    again.add({"item_id": "d", "price": 4.0, "kind": "y", "new": False})
    again.change({"item_id": "a", "price": 4.0, "kind": "y", "new": False})
    assert again.matrix[3].tobytes() == again.matrix[4].tobytes()
    again.save(tmp_path / "c")
    assert Catalogue.open(tmp_path / "c").ids == ("a", "b", "c", "d", "a")
    assert len(list((tmp_path / "c").iterdir())) == 3
    assert Catalogue.open(tmp_path / "c").place("a") == 4


def test_half_precision_on_the_disk(tmp_path):
    Catalogue(range(10), np.arange(20, dtype=np.float16).reshape(10, 2)).save(tmp_path)
    again = Catalogue.open(tmp_path)
    assert again.matrix.dtype == np.float16
    with pytest.raises(BadValue, match="finite"):
        again.add({"id": 10, "features": [1e6, 0.0]})


def test_what_is_no_catalogue_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no catalogue"):
        Catalogue.open(tmp_path / "none")
    Catalogue.from_table(TABLE).save(tmp_path / "c")
    (tmp_path / "c" / "live-0.npy").write_bytes(b"")
    with pytest.raises(ValueError, match="damaged"):
        Catalogue.open(tmp_path / "c")
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadValue, match="is a file"):
        Catalogue.from_table(TABLE).save(tmp_path / "file")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (([1, 2], np.eye(3)), "ids"),
        (([1, 2, 3], [1, 2, 3]), "matrix"),
        (([1, 2], [["a"], ["b"]]), "matrix"),
        (([1, 2], [[1.0], [np.nan]]), "matrix"),
        (([1, 2], np.eye(2), "map"), "features"),
        (([1, 2], np.eye(2), Features(item=[Number("a", scale=None)])), "matrix"),
        (([None, 2], np.eye(2)), "ids"),
    ],
)
def test_wrong_catalogues_are_refused_by_argument(arguments, field):
    with pytest.raises((BadValue, BadType)) as caught:
        Catalogue(*arguments)
    assert caught.value.field == field


def test_threads_read_what_others_change():
    catalogue = Catalogue(range(20), np.arange(20.0)[:, None])
    wrong, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            items = catalogue.snapshot()
            rows = np.flatnonzero(items.live)
            # Item i has the feature i mod 20, whoever has changed the catalogue meanwhile.
            if any(items.matrix[row, 0] != int(items.ids[row]) % 20 for row in rows[-5:]):
                wrong.append(items.version)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for i in range(20, 400):
        catalogue.add({"id": i, "features": [i % 20]})
        catalogue.remove(i - 20)
        catalogue.change({"id": i, "features": [i % 20]})
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert catalogue.version == 3 * 380
    assert catalogue.count == 20


def test_every_version_is_remembered(tmp_path):
    rng = np.random.default_rng(0)
    catalogue, snapshots = Catalogue(range(6), rng.normal(size=(6, 2))), []

    def row(name):
        return {"id": name, "features": rng.normal(size=2).tolist()}

    for step in range(60):
        snapshots.append(catalogue.snapshot())
        there = [name for name, live in zip(catalogue.ids, catalogue.live, strict=True) if live]
        some = [there[i] for i in rng.choice(len(there), size=min(2, len(there) - 1), replace=False)]
        if step % 3 == 0:
            catalogue.add([row(f"new-{step}-{i}") for i in range(rng.integers(1, 4))])
        elif step % 3 == 1:
            catalogue.change([row(name) for name in some])
        else:
            catalogue.remove(some)
    snapshots.append(catalogue.snapshot())
    catalogue.save(tmp_path / "saved")
    meta, arrays = catalogue.arrays()
    again = Catalogue.from_arrays(json.loads(json.dumps(meta)), arrays)
    for one in (catalogue, Catalogue.open(tmp_path / "saved"), again):
        assert (one.since, one.version) == (0, 60)
        for version, then in enumerate(snapshots):
            found = one.at(version)
            np.testing.assert_array_equal(found.matrix, then.matrix)
            np.testing.assert_array_equal(found.live, then.live)
            assert (found.count, found.version) == (then.count, version)
            assert list(found.ids[: len(found.live)]) == list(then.ids[: len(then.live)])
    with pytest.raises(BadValue, match=r"version must lie in 0\.\.60, got 61"):
        catalogue.at(61)


def test_a_catalogue_saved_without_its_history_has_its_last_version():
    catalogue = Catalogue(range(3), np.eye(3))
    catalogue.remove([0])
    meta, arrays = catalogue.arrays()
    old = {name: value for name, value in meta.items() if name != "history"}
    again = Catalogue.from_arrays(old, arrays)
    again.remove([1])
    assert again.since == 1
    assert again.at(1).live.tolist() == [False, True, True]
    with pytest.raises(BadValue, match=r"version must lie in 1\.\.2, got 0"):
        again.at(0)
    for grown, gone in (([[0, 3]], []), ([[0, 3]], [[2, 0]]), ([], [[1, 0]]), ([[0, 2]], [[1, 0]])):
        with pytest.raises(BadValue, match="history must"):
            Catalogue.from_arrays({**meta, "history": {"grown": grown, "gone": gone}}, arrays)


def test_prices_of_a_database_are_numbers():
    """Decimals, of Python and of Arrow."""
    prices = [Decimal("39.95"), Decimal("90.00"), None]
    table = pa.table({"item_id": ["a", "b", "c"], "price": pa.array(prices, pa.decimal128(8, 2))})
    rows = [{"item_id": name, "price": price} for name, price in zip("abc", prices, strict=True)]
    floats = [{**row, "price": None if row["price"] is None else float(row["price"])} for row in rows]
    expected = Catalogue.from_table(floats)
    for given in (table, rows):
        found = Catalogue.from_table(given)
        assert found.features == expected.features
        np.testing.assert_array_equal(found.matrix, expected.matrix)


def test_text_that_is_no_category_is_left_out_of_a_guess_with_a_warning():
    titles, kinds = [f"t{i}" for i in range(30)], ["a", "b", "c"] * 10
    with pytest.warns(
        UserWarning, match=r"items\['title'\] is left out: 30 different texts in 30 rows"
    ) as caught:
        made = Catalogue.from_table({"item_id": range(30), "title": titles, "kind": kinds})
    assert [warning.filename for warning in caught] == [__file__]
    assert made.features.names == ("kind=a", "kind=b", "kind=c", "1")
    with pytest.warns(UserWarning, match="60 different texts in 120 rows"):
        alone = Catalogue.from_table({"item_id": range(120), "title": [f"t{i % 60}" for i in range(120)]})
    assert alone.features.item[0].name == "item_id"
    few = Catalogue.from_table({"item_id": range(4), "title": list("abcd")})  # of few items
    assert few.features.item_width == 4


def test_a_guessed_map_expects_less_of_products_and_says_when_there_are_many():
    items = [{"item_id": i, "price": float(i), "kind": "ab"[i % 2]} for i in range(6)]
    context, catalogue = [Category("device", ["phone", "desk"])], Catalogue.from_table(items)
    agent = Agent(LinMED(), catalogue=catalogue, context=context)
    outer = Features(context, catalogue.features.item)
    both = np.array(["×" in name for name in outer.names])
    assert agent.features.names == outer.names
    phone = {"device": "phone"}
    expected = np.where(both, 0.1, 1.0) * outer.join(catalogue.matrix, outer.encode_context(phone))
    np.testing.assert_array_equal(agent.arms(context=phone), expected)
    B, c = agent.features.lift(outer.encode_context(phone))
    np.testing.assert_allclose(catalogue.matrix @ B.T + c, expected, rtol=1e-15)
    assert Features.from_dict(json.loads(json.dumps(agent.features.to_dict()))) == agent.features
    assert str(agent.features).startswith("12 features: 3 of the item (price 1, kind 2), 2 of the context")
    cities = [Category("city", [f"c{i}" for i in range(50)])]
    with pytest.warns(
        UserWarning, match=r"the guessed map has 204 features: 3 of the item .* 150 products"
    ) as caught:
        Agent(LinMED(), catalogue=catalogue, context=cities)
    assert [warning.filename for warning in caught] == [__file__]
    Agent(Disjoint(LinMED()), catalogue=catalogue, context=cities)  # which makes none
    Agent(LinMED(), catalogue=catalogue, features=Features(cities, catalogue.features.item))  # which says so
