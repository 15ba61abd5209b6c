import pickle

import pyarrow as pa

from linmed.report.tables import ROWS, WIDTH, Table


def test_a_table_prints_one_line_per_row_with_columns_aligned():
    table = Table([{"name": "a", "value": 0.0048123, "n": 7}, {"name": "bcd", "value": None, "n": 12}])
    assert str(table).splitlines() == [
        "name     value   n",
        "a     0.004812   7",
        "bcd             12",
    ]


def test_a_long_or_wide_table_prints_in_bounds_and_says_what_it_leaves_out():
    long = str(Table({"n": list(range(1_000))})).splitlines()
    assert len(long) == ROWS + 2
    assert "… 960 more rows …" in long
    wide = str(Table({f"number {i}": [1.5] for i in range(40)})).splitlines()
    assert max(len(line) for line in wide[:2]) <= WIDTH
    assert wide[-1].startswith("… and 3")
    assert wide[-1].endswith("number 39")
    assert str(Table({"curve": [list(range(300))]})).endswith("[0, 1, 2, … 300 in all]")


def test_a_table_is_arrow_inside_and_goes_to_pandas():
    arrow = pa.table({"x": [1, 2, 3], "y": ["a", None, "c"]})
    table = Table(arrow)
    assert table.to_arrow() is arrow
    assert table["x"].to_pylist() == [1, 2, 3]
    assert (len(table), table.num_rows, table.column_names) == (3, 3, ["x", "y"])
    assert table.to_pylist()[1] == {"x": 2, "y": None}
    assert pa.table(table).equals(arrow)
    assert pickle.loads(pickle.dumps(table)) == table
    assert list(table.to_pandas()["x"]) == [1, 2, 3]
