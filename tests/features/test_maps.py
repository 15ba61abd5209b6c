"""From tables of any library to arms: equal bits, and affine in the item."""

import json
import math
from collections import namedtuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from linmed.features import Category, Features, Fourier, Number, Vector
from linmed.features.features import outer, plain
from linmed.validation import BadType, BadValue

CONTEXT = [Category("device", ["phone", "desk"]), Number("age", scale=(40, 12)), Fourier("hour", 3, seed=1)]
ITEM = [Category("genre"), Number("price"), Vector("emb", 2)]
ITEMS = {
    "genre": ["drama", "comedy", None, "drama"],
    "price": [3.0, 1.5, math.nan, 7.25],
    "emb": [[0.1, 0.2], [0.3, -0.4], [1.0, 2.0], [0.0, 0.5]],
    "title": ["a", "b", "c", "d"],
}
USERS = [{"device": "phone", "age": 31, "hour": 8.5}, {"device": "tv", "age": None, "hour": 23}]
INTERACTIONS = ["plain", "outer", [("age", "genre"), ("hour", "emb")], []]


def fitted(interactions="outer", intercept=True):
    return Features(CONTEXT, ITEM, interactions, intercept).fit(contexts=USERS, items=ITEMS)


def frames():
    pandas = pd.DataFrame(ITEMS)
    polars = pl.DataFrame({**ITEMS, "price": [3.0, 1.5, None, 7.25]})
    rows = [dict(zip(ITEMS, row, strict=True)) for row in zip(*ITEMS.values(), strict=True)]
    record = np.array(
        [(r["genre"], r["price"], r["emb"]) for r in rows],
        dtype=[("genre", object), ("price", float), ("emb", float, 2)],
    )
    return {
        "pandas": pandas,
        "pandas, own types": pandas.convert_dtypes(),
        "pandas, categorical": pandas.astype({"genre": "category"}),
        "polars": polars,
        "polars array": polars.with_columns(pl.col("emb").cast(pl.Array(pl.Float64, 2))),
        "arrow": pa.Table.from_pandas(pandas),
        "arrow batch": pa.RecordBatch.from_pandas(pandas),
        "columns": ITEMS,
        "rows": rows,
        "generator": (row for row in rows),
        "series": [pandas.iloc[i] for i in range(4)],
        "named tuples": list(pandas.itertuples(index=False)),
        "records": record,
    }


@pytest.mark.parametrize("kind", list(frames()))
def test_every_kind_of_table_gives_the_same_bits(kind):
    expected = fitted().encode_items(ITEMS)
    assert fitted().encode_items(frames()[kind]).tobytes() == expected.tobytes()
    if kind != "generator":
        assert Features(CONTEXT, ITEM).fit(USERS, frames()[kind]) == fitted()


def test_a_row_of_any_kind_is_a_context():
    map = fitted()
    expected = map.encode_context(USERS[0])
    frame = pd.DataFrame(USERS)
    row = namedtuple("row", USERS[0])(**USERS[0])
    for one in (
        frame.iloc[0],
        frame.head(1),
        row,
        pl.DataFrame(USERS).row(0, named=True),
        pl.DataFrame(USERS)[:1],
    ):
        assert map.encode_context(one).tobytes() == expected.tobytes()
    assert map.encode_contexts(frame)[0].tobytes() == expected.tobytes()
    with pytest.raises(BadValue, match="one row"):
        map.encode_context(frame)


def test_matrices_do_where_all_columns_are_numbers():
    map = Features(context=[Number("a", scale=None)], item=[Vector("x", 2), Number("y", scale=(1, 2))])
    matrix = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert map.encode_items(matrix).tolist() == [[1.0, 2.0, 1.0], [4.0, 5.0, 2.5]]
    assert map.encode_items(matrix.tolist()).tolist() == [[1.0, 2.0, 1.0], [4.0, 5.0, 2.5]]
    assert map.encode_context([7]).tolist() == map.encode_context(np.array([7.0])).tolist() == [7.0]
    with pytest.raises(BadValue, match=r"3 columns \(x, y in this order\)"):
        map.encode_items(matrix[:, :2])
    with pytest.raises(BadType, match="names no columns"):
        fitted().encode_items(matrix)


@pytest.mark.parametrize("interactions", INTERACTIONS)
@pytest.mark.parametrize("intercept", [True, False])
def test_arms_are_affine_in_the_item(interactions, intercept):
    map = fitted(interactions, intercept)
    items = map.encode_items(ITEMS)
    for user in USERS:
        x = map.encode_context(user)
        matrix, constant = map.lift(x)
        assert matrix.shape == (map.dim, map.item_width)
        np.testing.assert_allclose(items @ matrix.T + constant, map.join(items, x), rtol=0, atol=1e-12)
        assert map.arms(ITEMS, user).tobytes() == map.join(items, x).tobytes()
    assert len(map.names) == len(set(map.names)) == map.dim


def test_the_order_of_features():
    e, x = np.array([[2.0, 3.0]]), np.array([5.0, 7.0])
    assert plain(2, 2).join(e, x).tolist() == [[2, 3, 5, 7]]
    assert plain(2, 2, True).join(e, x).tolist() == [[2, 3, 5, 7, 1]]
    assert outer(2, 2).join(e, x).tolist() == [[10, 14, 15, 21]]
    assert outer(2, 2, True).join(e, x).tolist() == [[10, 14, 2, 15, 21, 3, 5, 7, 1]]
    numbers = [Number(name, scale=None) for name in "abcd"]
    pairs = Features(numbers[:2], numbers[2:], [("b", "c")])
    assert pairs.join(e, x).tolist() == [[2, 3, 5, 7, 1, 14]]
    assert pairs.names == ("c", "d", "a", "b", "1", "c×b")


@pytest.mark.parametrize("interactions", INTERACTIONS)
def test_maps_survive_json(interactions):
    map = fitted(interactions, intercept=False)
    again = Features.from_dict(json.loads(json.dumps(map.to_dict())))
    assert again == map
    assert hash(again) == hash(map)
    assert again.arms(ITEMS, USERS[1]).tobytes() == map.arms(ITEMS, USERS[1]).tobytes()


def test_only_what_is_unknown_is_learned():
    map = Features(context=[Number("age", scale=(1, 2)), Category("c", ["z"])])
    assert map.fit(contexts=[{"age": 100, "c": "a"}]) == map
    assert Features(CONTEXT, ITEM).unknown == (
        "the scale of 'hour'",
        "the categories of 'genre'",
        "the scale of 'price'",
    )
    assert fitted().unknown == ()


def test_a_map_that_is_not_fitted_says_so():
    with pytest.raises(BadValue, match=r"the categories of 'genre'.*fit\(items=…\)"):
        Features(CONTEXT, ITEM).encode_items(ITEMS)
    with pytest.raises(BadValue, match=r"the scale of 'hour'.*fit\(context=…\)|the scale of 'hour'"):
        Features(CONTEXT, ITEM).encode_context(USERS[0])
    with pytest.raises(BadValue, match="the categories of 'genre' are not known"):
        _ = Features(CONTEXT, ITEM).dim


def test_wrong_names_are_told():
    map = fitted()
    with pytest.raises(BadValue, match="none of the fields 'age', 'device', 'hour'; it has 'Age', 'Device'"):
        map.encode_context({"Age": 3, "Device": "phone"})
    with pytest.raises(BadValue, match="items has no column 'genre'; it has 'Genre'"):
        map.encode_items(pd.DataFrame({"Genre": ["a"]}))
    with pytest.raises(BadValue, match="items has none of the fields"):
        map.encode_items([{"Genre": "a"}])
    with pytest.raises(BadType, match=r"context must be a dictionary or a row of a table, got 'phone'"):
        map.encode_context("phone")
    with pytest.raises(BadType, match="items must be a pandas"):
        map.encode_items(7)
    with pytest.raises(BadType, match=r"items\['genre'\] must be a column of values, got 'a'; write \[row\]"):
        map.encode_items({"genre": "a", "price": 3})
    with pytest.raises(BadValue, match="one length"):
        map.encode_items({"genre": ["a"], "price": [3, 4]})
    with pytest.raises(BadType, match=r"items\['price'\]\[1\] must be a number, got 'cheap'"):
        map.encode_items([{"price": 3}, {"price": "cheap"}])


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "item"),
        ({"context": "age"}, "context"),
        ({"context": ["age"]}, "context"),
        ({"item": Number("a")}, "item"),
        ({"item": [Number("a"), Category("a")]}, "item"),
        ({"item": [Number("a")], "interactions": "inner"}, "interactions"),
        ({"item": [Number("a")], "interactions": 3}, "interactions"),
        ({"item": [Number("a")], "interactions": ["ab"]}, "interactions"),
        ({"item": [Number("a")], "interactions": [("u", "a")]}, "interactions"),
        ({"context": [Number("u")], "item": [Number("a")], "interactions": [("a", "u")]}, "interactions"),
        ({"context": [Number("u")], "item": [Number("a")], "interactions": [("u", "a")] * 2}, "interactions"),
        ({"item": [Number("a")], "intercept": 1}, "intercept"),
    ],
)
def test_wrong_maps_are_refused_by_argument(arguments, field):
    with pytest.raises((BadValue, BadType)) as caught:
        Features(**arguments)
    assert caught.value.field == field


def test_wrong_json_is_refused():
    good = fitted().to_dict()
    for change in ({"format": 2}, {"more": 1}, {"context": "x"}, {"item": [3]}, {"item": [{"column": "No"}]}):
        with pytest.raises((BadValue, BadType)):
            Features.from_dict({**good, **change})
    with pytest.raises(BadValue):
        Features.from_dict({key: value for key, value in good.items() if key != "item"})
    with pytest.raises(BadType):
        Features.from_dict([1])


def test_wrong_shapes_are_told():
    map = fitted()
    items, x = map.encode_items(ITEMS), map.encode_context(USERS[0])
    with pytest.raises(BadValue, match="items must have shape"):
        map.join(items[:, 1:], x)
    with pytest.raises(BadValue, match="context must have shape"):
        map.join(items, x[1:])
    with pytest.raises(BadValue, match="context must have shape"):
        map.lift(x[1:])
    with pytest.raises(BadValue, match="'outer' without an intercept needs"):
        _ = Features(item=[Number("a", scale=None)], intercept=False).dim
