"""The exact scan finds what double precision finds; the graph finds live items, and keeps what it saved."""

import copy

import numpy as np
import pytest

from linmed.features.index import BLOCK, Scan
from linmed.features.usearch import USearch
from tests.features.items import add, following, of_rows, on_sphere


def best(items, queries, k):
    """By double precision, the lowest place on ties; −1 where there are no more."""
    values = np.einsum("nd,bd->bn", items.matrix.astype(np.float64), queries)
    values[:, ~items.live] = -np.inf
    places = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return np.where(np.take_along_axis(values, places, axis=1) > -np.inf, places, -1)


@pytest.fixture
def queries():
    return np.random.default_rng(1).standard_normal((9, 7))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_the_scan_finds_the_best_items_whatever_their_precision(dtype, queries):
    items = of_rows(np.random.default_rng(0).standard_normal((5000, 7)).astype(dtype))
    items.remove(range(0, 5000, 3))
    found = following(Scan(), items).top(queries, 4)
    assert (found == best(items, queries, 4)).all()
    assert items.live[found].all()


def test_items_that_single_precision_cannot_tell_apart_are_told_apart(queries):
    rng = np.random.default_rng(2)
    items = of_rows(1.0 + 1e-12 * rng.standard_normal((3000, 7)))
    found = following(Scan(), items).top(queries, 1)[:, 0]
    values = np.zeros((9, 3000))
    for j in range(7):  # in the scan's own order of summation
        values += queries[:, [j]] * items.matrix[:, j]
    assert (found == values.argmax(axis=1)).all()


def test_queries_keep_all_their_digits():
    scan = following(Scan(), of_rows(np.eye(2)))
    assert scan.top(np.array([[1.0, 1.0 + 1e-10], [1.0 + 1e-10, 1.0]]), 1).tolist() == [[1], [0]]


def test_equal_items_come_by_their_place_and_too_few_are_filled_up(queries):
    items = of_rows(np.ones((300, 7)))
    scan = following(Scan(), items)
    assert scan.top(queries, 3).tolist() == [[0, 1, 2]] * 9
    items.remove(np.delete(np.arange(300), 7).tolist())
    assert following(scan, items) is scan
    assert scan.top(queries, 3).tolist() == [[7, -1, -1]] * 9


@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_very_small_and_very_large_numbers_have_an_answer(size, queries):
    items = of_rows(size * np.random.default_rng(3).standard_normal((500, 7)))
    assert (following(Scan(), items).top(queries * size, 2) == best(items, queries, 2)).all()


def test_items_too_large_for_single_precision_are_refused():
    with pytest.raises(ValueError, match="single precision"):
        following(Scan(), of_rows(np.full((3, 2), 1e31, dtype=np.float32)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_scan_that_follows_answers_as_one_that_reads_everything(dtype, queries):
    rng = np.random.default_rng(4)
    items = of_rows(rng.standard_normal((2000, 7)).astype(dtype))
    scan = following(Scan(), items)
    for size in (1.0, 0.5, 50.0):  # the last does not fit into the units of the copy
        before = scan.version
        add(items, size * rng.standard_normal((300, 7)))
        items.remove([id for id in range(len(items.matrix) - 320, len(items.matrix) - 290)])
        following(scan, items)
        assert scan.version != before
        assert (scan.top(queries, 5) == following(Scan(), items).top(queries, 5)).all()
        assert (scan.top(queries, 5) == best(items, queries, 5)).all()


def test_a_mapped_file_is_read_in_blocks_where_it_stands(tmp_path, queries):
    rows = np.random.default_rng(6).standard_normal((BLOCK // 64 + 50, 64)).astype(np.float16)
    np.save(tmp_path / "items.npy", rows)
    items = of_rows(np.load(tmp_path / "items.npy", mmap_mode="r"))
    wide = np.random.default_rng(7).standard_normal((3, 64))
    assert (following(Scan(), items).top(wide, 2) == best(items, wide, 2)).all()


@pytest.mark.parametrize("wrong", [np.ones(7), np.ones((2, 6)), np.full((1, 7), np.nan)])
def test_bad_queries_are_refused(wrong):
    with pytest.raises(ValueError, match="queries"):
        following(Scan(), of_rows(np.ones((4, 7)))).top(wrong, 1)


def test_the_graph_finds_most_best_items_and_no_removed_ones():
    rng = np.random.default_rng(8)
    items, queries = of_rows(on_sphere(rng, 3000, 16)), on_sphere(rng, 200, 16)
    graph = following(USearch(), items)
    assert (graph.top(queries, 1) == best(items, queries, 1)).mean() > 0.95
    gone = np.unique(graph.top(queries, 3))
    before = graph.version
    items.remove(gone.tolist())
    following(graph, items)
    found = graph.top(queries, 3)
    assert items.live[found].all()
    assert graph.version != before
    assert (found[:, :1] == best(items, queries, 1)).mean() > 0.9


@pytest.mark.parametrize("gone", [0, 3, 498])
def test_to_a_query_of_zeros_all_items_are_alike_and_the_first_ones_are_best(gone, monkeypatch):
    """As before the first reward; without a pass in which each would be settled."""
    rng = np.random.default_rng(12)
    items = of_rows(on_sphere(rng, 500, 6))
    items.remove(list(range(gone)))
    scan = following(Scan(), items)
    queries = np.concatenate([np.zeros((2, 6)), on_sphere(rng, 3, 6)])
    found = scan.top(queries, 3)
    expected = [*range(gone, min(gone + 3, 500)), -1, -1][:3]
    assert found[:2].tolist() == [expected, expected]
    assert (found[2:] == best(items, queries[2:], 3)).all()
    monkeypatch.setattr("linmed.features.index.core", None)
    assert scan.top(np.zeros((1, 6)), 3).tolist() == [expected]


def test_a_graph_that_is_opened_is_asked_with_as_many_candidates_as_one_wants(tmp_path):
    rng = np.random.default_rng(13)
    items, queries = of_rows(on_sphere(rng, 3000, 24)), on_sphere(rng, 200, 24)
    graph = following(USearch(search=1), items)
    graph.save(tmp_path)
    wider = USearch.open(tmp_path, search=512)
    right = [(one.top(queries, 1) == best(items, queries, 1)).mean() for one in (graph, wider)]
    assert right[0] < right[1]
    assert right[1] > 0.99
    assert wider.version != graph.version
    assert USearch.open(tmp_path).version == graph.version
    with pytest.raises(ValueError, match="search"):
        USearch.open(tmp_path, search=0)


@pytest.mark.parametrize("mapped", [False, True])
def test_a_saved_graph_answers_as_before_under_its_version(tmp_path, mapped):
    rng = np.random.default_rng(10)
    items, queries = of_rows(on_sphere(rng, 2000, 12)), on_sphere(rng, 50, 12)
    graph = following(USearch(search=8), items)
    graph.save(tmp_path)
    opened = USearch.open(tmp_path, mapped=mapped)
    assert opened.version == graph.version
    assert (opened.top(queries, 4) == graph.top(queries, 4)).all()
    assert following(opened, items).version == graph.version


def test_saving_again_leaves_one_graph_and_a_damaged_one_says_so(tmp_path):
    items = of_rows(on_sphere(np.random.default_rng(11), 100, 4))
    for _ in range(2):
        following(USearch(), items).save(tmp_path)
    (file,) = tmp_path.glob("*.usearch")
    file.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="not an index"):
        USearch.open(tmp_path)


@pytest.mark.parametrize("kind", [Scan, USearch])
def test_an_index_that_follows_nothing_says_so(kind):
    with pytest.raises(ValueError, match="must follow a catalogue"):
        kind().top(np.eye(2), 1)


@pytest.mark.parametrize("kind", [Scan, USearch])
def test_an_index_belongs_to_one_catalogue(kind):
    rng = np.random.default_rng(12)
    own, other = of_rows(rng.standard_normal((40, 3))), of_rows(rng.standard_normal((60, 3)))
    index = following(kind(), own)
    before = index.top(np.eye(3), 1)
    with pytest.raises(ValueError, match="another catalogue"):
        following(index, other)
    assert (index.top(np.eye(3), 1) == before).all()
    add(own, 9.0 * np.eye(3))
    assert following(index, own).top(np.eye(3), 1).tolist() == [[40], [41], [42]]


@pytest.mark.parametrize("rows", [20, 100])
def test_a_saved_graph_of_other_items_is_refused(tmp_path, rows):
    rng = np.random.default_rng(13)
    following(USearch(), of_rows(rng.standard_normal((50, 3)))).save(tmp_path)
    with pytest.raises(ValueError, match="other items"):
        following(USearch.open(tmp_path), of_rows(rng.standard_normal((rows, 3))))


def test_a_mapped_graph_says_that_it_cannot_follow_changes(tmp_path):
    items = of_rows(np.random.default_rng(14).standard_normal((50, 3)))
    following(USearch(), items).save(tmp_path)
    graph = following(USearch.open(tmp_path, mapped=True), items)
    items.remove(7)
    with pytest.raises(ValueError, match="mapped=False"):
        following(graph, items)


def test_a_copied_graph_answers_alike_and_goes_its_own_way():
    items = of_rows(np.random.default_rng(15).standard_normal((50, 3)))
    graph = following(USearch(), items)
    twin = copy.deepcopy(graph)
    assert twin.version == graph.version
    assert (twin.top(np.eye(3), 4) == graph.top(np.eye(3), 4)).all()
    add(items, 9.0 * np.eye(3))
    assert following(graph, items).top(np.eye(3), 1).tolist() == [[50], [51], [52]]
    assert (twin.top(np.eye(3), 1) < 50).all()
