"""What a value becomes: known, unknown, missing, or refused by name."""

import json
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linmed.features import Category, Column, Features, Fourier, Number, Vector
from linmed.validation import BadType, BadValue

MISSING = [None, math.nan, np.nan, pd.NA, pd.NaT, np.ma.masked, Decimal("nan"), Decimal("snan")]


def one(column, value):
    return Features(context=[column]).encode_context({column.name: value}).tolist()


def test_a_number_is_scaled_and_a_missing_one_is_the_centre():
    column = Number("age", scale=(40, 8))
    assert (
        one(column, 48) == one(column, 48.0) == one(column, np.int32(48)) == one(column, Decimal(48)) == [1.0]
    )
    assert one(Number("age", scale=None), True) == [1.0]
    for missing in MISSING:
        assert one(column, missing) == [0.0]
    assert Features(context=[column]).encode_context({}).tolist() == [0.0]


@pytest.mark.parametrize("value", ["48", "", [48], b"4", object(), pd.Timestamp("2020-01-01"), 1j])
def test_what_is_no_number_is_refused_by_name(value):
    with pytest.raises(BadType, match=r"context\['age'\] must be a number"):
        one(Number("age", scale=None), value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 10**400, 1e101, np.float64("inf")])
def test_a_number_without_size_is_refused(value):
    with pytest.raises(BadValue, match=r"context\['age'\]"):
        one(Number("age", scale=None), value)
    with pytest.raises(BadValue, match=r"context\['age'\]"):
        one(Number("age", scale=(0.0, 1e-60)), 1e60)


def test_a_scale_is_mean_and_deviation_of_what_is_there():
    ages = [20.0, None, 40.0, math.nan, 60]
    fitted = Features(context=[Number("age")]).fit(contexts=[{"age": age} for age in ages])
    (column,) = fitted.context
    assert column.scale == (40.0, math.sqrt(800 / 3))
    settled = Number("age", settle_after=2).settle({"age": [0.0, 2.0, 100.0]})  # which another column awaits
    assert settled.scale == (1.0, 1.0)
    constant = Features(context=[Number("age")]).fit(contexts={"age": [0.1] * 7})
    assert constant.context[0].scale[1] == 1.0
    with pytest.raises(BadValue, match="no value to learn a scale from"):
        Features(context=[Number("age")]).fit(contexts={"age": [None, math.nan]})


def test_one_float_and_text_are_one_category_and_true_is_another():
    column = Category("size", [1, "True", "x"])
    for value in (1, 1.0, "1", np.int64(1), np.float32(1), Decimal(1)):
        assert one(column, value) == [1.0, 0.0, 0.0]
    for value in (True, np.True_, "True"):
        assert one(column, value) == [0.0, 1.0, 0.0]
    for value in ("y", 1.5, False, math.inf, *MISSING):
        assert one(column, value) == [0.0, 0.0, 0.0]
    with pytest.raises(BadType, match=r"context\['size'\] must be text or a number"):
        one(column, ["x"])
    with pytest.raises(BadValue, match="'1' twice"):
        Category("size", [1, "1"])


def test_others_have_a_number_of_their_own_where_they_are_wanted():
    column = Category("size", ["s", "m"], other=True)
    assert one(column, "xl") == [0.0, 0.0, 1.0]
    assert one(column, "m") == [0.0, 1.0, 0.0]
    assert one(column, None) == [0.0, 0.0, 0.0]


def test_hashes_are_the_same_on_every_machine():
    column = Category("city", hashed=1000)
    places = [int(np.argmax(one(column, city))) for city in ("Seoul", "서울", "", "\ud800", 7)]
    assert places == [762, 774, 0, 600, 346]
    assert sum(one(column, None)) == 0.0


def test_categories_are_learned_in_alphabetical_order_whatever_the_order_of_rows():
    rows = [{"c": value} for value in ("b", 2, None, "a", 2.0, "b")]
    fitted = Features(item=[Category("c")]).fit(items=rows)
    assert fitted.item[0].values == ("2", "a", "b")
    assert fitted == Features(item=[Category("c")]).fit(items=rows[::-1])
    many = {"c": [str(i) for i in range(10_001)]}
    with pytest.raises(BadValue, match="use hashed="):
        Features(item=[Category("c")]).fit(items=many)


def test_vectors_come_as_they_are():
    column = Vector("emb", 2)
    assert one(column, [1, 2.5]) == one(column, np.array([1, 2.5], np.float32)) == [1.0, 2.5]
    for missing in MISSING:
        assert one(column, missing) == [0.0, 0.0]
    for wrong in ([1], [1, 2, 3], "ab", [[1, 2]], [1, "a"], 3.0, {1: 2}):
        with pytest.raises(BadType, match=r"context\['emb'\] must be 2 numbers"):
            one(column, wrong)
    with pytest.raises(BadValue, match=r"context\['emb'\] must be finite"):
        one(column, [1, math.nan])


def test_fourier_features_have_the_gaussian_kernel_as_their_product():
    column = Fourier("wave", 4000, length_scale=0.7, seed=3, of=[Number("a", scale=None), Vector("b", 2)])
    map = Features(item=[column])
    points = np.random.default_rng(1).normal(size=(12, 3))
    waves = map.encode_items([{"a": p[0], "b": p[1:]} for p in points])
    distance = ((points[:, None] - points) ** 2).sum(-1)
    # Each entry is a mean of 4000 products of size at most 2: 5 deviations are 5·√2/√4000 < 0.12.
    assert np.abs(waves @ waves.T - np.exp(-distance / (2 * 0.7**2))).max() < 0.12


@pytest.mark.identity
def test_fourier_features_are_the_same_on_every_machine():
    waves = one(Fourier("hour", 3, seed=5, of=[Number("hour", scale=(12, 6))]), 3)
    assert waves == [0.5502732459981645, -0.7028096151747212, -0.1253350190974312]


@pytest.mark.parametrize(
    "column",
    [
        Number("a"),
        Number("a", scale=(1, 2), settle_after=7),
        Number("a", scale=None),
        Category("b", ["x", 2]),
        Category("b", hashed=9),
        Category("b", ["x"], other=True),
        Vector("c", 3),
        Fourier("d", 4, 2.0, 1, of=["x", Number("y", scale=(0, 1)), Vector("z", 2)]),
        Fourier("e", 2),
    ],
)
def test_columns_survive_json(column):
    assert Column.from_dict(json.loads(json.dumps(column.to_dict()))) == column
    assert hash(column) == hash(Column.from_dict(column.to_dict()))


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Number(""), "name"),
        (lambda: Number(3), "name"),
        (lambda: Number("a", scale="robust"), "scale"),
        (lambda: Number("a", scale=(0, 0)), "scale"),
        (lambda: Number("a", scale=(0, 1, 2)), "scale"),
        (lambda: Number("a", settle_after=1), "settle_after"),
        (lambda: Category("a", "xyz"), "values"),
        (lambda: Category("a", []), "values"),
        (lambda: Category("a", [None]), "values"),
        (lambda: Category("a", hashed=0), "hashed"),
        (lambda: Category("a", ["x"], hashed=3), "hashed"),
        (lambda: Vector("a", 0), "size"),
        (lambda: Fourier("a", 0), "count"),
        (lambda: Fourier("a", 2, -1.0), "length_scale"),
        (lambda: Fourier("a", 2, of=[]), "of"),
        (lambda: Fourier("a", 2, of=[Category("x")]), "of"),
        (lambda: Column.from_dict({"column": "Nummer", "name": "a"}), "column"),
        (lambda: Column.from_dict({"column": "Number", "name": "a", "skale": 1}), "skale"),
    ],
)
def test_wrong_columns_are_refused_by_argument(make, field):
    with pytest.raises((BadValue, BadType)) as caught:
        make()
    assert caught.value.field == field


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**300, max_value=10**5000),
    st.floats(),
    st.text(),
    st.text(alphabet=st.characters(categories=["Cs", "Cn"])),
    st.binary(),
    st.lists(st.floats(), max_size=3),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
    st.datetimes(),
)
MAP = Features(
    context=[
        Number("number", scale=(1, 2)),
        Category("listed", ["a", "1", "True"]),
        Category("other", ["b"], other=True),
        Category("hashed", hashed=5),
        Vector("vector", 2),
        Fourier("wave", 3, of=[Number("wave", scale=(0, 1))]),
    ]
)
FIELDS = ["number", "listed", "other", "hashed", "vector", "wave"]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(FIELDS), anything))
def test_any_row_is_encoded_or_refused_by_name_and_alone_as_in_a_table(row):
    refusal = None
    try:
        alone = MAP.encode_context(row)
    except (BadValue, BadType) as error:
        refusal = error.field
    if refusal is not None:
        assert refusal.startswith("context[")
        with pytest.raises((BadValue, BadType)):
            MAP.encode_contexts([row])
        return
    assert alone.shape == (MAP.context_width,)
    assert np.isfinite(alone).all()
    assert MAP.encode_contexts([row])[0].tobytes() == alone.tobytes()
