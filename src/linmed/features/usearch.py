"""A graph over the items (HNSW by usearch, extra `linmed[catalogue]`): approximate, and quick at any size."""

import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from linmed import validation
from linmed.features.catalogue import Items
from linmed.features.index import checked_queries, in_powers_of_two, same_origin
from linmed.files import write_atomically
from linmed.validation import Floats, Ints

try:
    from usearch.index import Index as Graph
except ImportError as error:  # pragma: no cover
    raise ImportError("linmed.features.usearch needs usearch: pip install 'linmed[catalogue]'") from error

__all__ = ["USearch"]

HEAD = "index.json"
_LOOKS = 64  # rows by which a graph that was opened is known to be of these items


def _graph(dim: int, connectivity: int, construction: int, search: int) -> Any:
    return Graph(
        ndim=dim, metric="ip", dtype="f32", connectivity=connectivity, expansion_add=construction,
        expansion_search=search,
    )  # fmt: skip


class USearch:
    """An `Index` over the rows of a catalogue.

    A graph is not made twice alike, so every build and every change has a version of its own. What was saved
    answers as it did, under the version that it had. Distances are of single precision, summed in the order
    that suits the processor, whose instructions are therefore named in the version.

    >>> from linmed.features import Catalogue
    >>> index = USearch()
    >>> index.follow(Catalogue(["a", "b", "c"], [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]).snapshot())
    >>> index.top(np.array([[0.0, 1.0]]), k=2)
    array([[1, 2]])
    """

    def __init__(self, connectivity: int = 16, construction: int = 128, search: int = 96) -> None:
        """More edges of each item, and more candidates looked at when the graph is made and when it is asked,
        find the best item more often, and take longer.
        """
        numbers = {"connectivity": connectivity, "construction": construction, "search": search}
        self._numbers = {name: validation.whole(name, number) for name, number in numbers.items()}
        self._graph: Any = None
        self._held = np.zeros(0, dtype=np.bool_)  # which places are in the graph
        self._items: Items | None = None
        self._stamp = secrets.token_hex(8)
        self._mapped = False

    def follow(self, items: Items) -> None:
        """Answer for the catalogue as it is now: what is new joins the graph, what is gone leaves it."""
        if items is self._items:
            return
        same_origin(self._items, items)
        if self._graph is None:
            self._graph = _graph(items.matrix.shape[1], **self._numbers)
        elif self._graph.ndim != items.matrix.shape[1]:
            text = f"this index has items of {self._graph.ndim} numbers, got {items.matrix.shape[1]}"
            raise validation.BadValue("items", text)
        elif self._items is None and not self._knows(items):
            text = "index holds other items than the catalogue: open the one that was saved with it"
            raise validation.BadValue("index", text)
        held = np.zeros(len(items.live), dtype=np.bool_)
        held[: len(self._held)] = self._held
        gone, new = np.flatnonzero(held & ~items.live), np.flatnonzero(items.live & ~held)
        if self._mapped and (len(gone) or len(new)):
            text = "index is mapped, and cannot follow changes of the catalogue: open it with mapped=False"
            raise validation.BadValue("index", text)
        if len(gone):
            self._graph.remove(gone)
        for first in range(0, len(new), 1 << 16):
            some = new[first : first + (1 << 16)]
            self._graph.add(some, np.asarray(items.matrix[some], dtype=np.float32))
        if len(gone) or len(new):
            self._stamp = secrets.token_hex(8)
        self._items, self._held = items, items.live

    def _knows(self, items: Items) -> bool:
        """Check whether some rows of the graph are the catalogue's."""
        held = np.flatnonzero(self._held)
        if len(self._held) > len(items.live) or not len(held):
            return not len(held)
        some = held[:: max(1, len(held) // _LOOKS)]
        return np.array_equal(np.stack(self._graph.get(some)), items.matrix[some].astype(np.float32))

    def __getstate__(self) -> dict[str, Any]:
        """The graph as bytes: a copy answers alike, goes its own way, and may follow a copy of the items."""
        graph = None if self._graph is None else (self._graph.ndim, bytes(self._graph.save()))
        return {**self.__dict__, "_graph": graph, "_items": None, "_mapped": False}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept)
        if kept["_graph"] is not None:
            dim, content = kept["_graph"]
            self._graph = _graph(dim, **self._numbers)
            self._graph.load(content)

    @classmethod
    def open(
        cls, directory: str | os.PathLike[str], mapped: bool = False, search: int | None = None
    ) -> "USearch":
        """Open what `save` wrote; a `mapped` one stays on disk, and cannot follow changes.

        `search`: another number of candidates from now on. The graph does not depend on it.
        """
        head = json.loads((Path(directory) / HEAD).read_text(encoding="utf-8"))
        stamp, dim = head.pop("stamp"), head.pop("dim")
        if search is not None:
            head["search"] = validation.whole("search", search)
        index, path = cls(**head), Path(directory) / f"{stamp}.usearch"
        graph = _graph(dim, **head)
        try:
            (graph.view if validation.flag("mapped", mapped) else graph.load)(str(path))
        except RuntimeError as error:
            raise ValueError(f"{path} is not an index of usearch, or it is damaged ({error})") from None
        places = np.asarray(graph.keys, dtype=np.int64)
        index._held = np.zeros(int(places.max(initial=-1)) + 1, dtype=np.bool_)
        index._held[places] = True
        index._graph, index._stamp, index._mapped = graph, stamp, mapped
        return index

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the graph, and then the head that names it: a crash in between leaves the old one.

        >>> import tempfile
        >>> from linmed.features import Catalogue
        >>> index = USearch()
        >>> index.follow(Catalogue(["a", "b"], [[1.0, 0.0], [0.0, 1.0]]).snapshot())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     index.save(folder)
        ...     USearch.open(folder).version == index.version
        True
        """
        if self._graph is None:
            raise ValueError("an index must follow a catalogue before it is saved")
        folder, graph = Path(directory), self._graph
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self._stamp}.usearch"
        graph.save(str(path))
        head = {"stamp": self._stamp, "dim": graph.ndim, **self._numbers}
        write_atomically(folder / HEAD, lambda file: file.write(json.dumps(head).encode()))
        for other in folder.glob("*.usearch"):
            if other != path:
                other.unlink()

    @property
    def version(self) -> str:
        """Build, candidates and processor."""
        processor = "" if self._graph is None else f"-{self._graph.hardware_acceleration}"
        return f"usearch-{self._stamp}-{self._numbers['search']}{processor}"

    def top(self, queries: Floats, k: int) -> Ints:
        """Find the places of the k best for each query (B, de), in order: (B, k), −1 if there are no more."""
        if self._graph is None:
            raise ValueError("an index must follow a catalogue before it is asked")
        single = in_powers_of_two(checked_queries(queries, self._graph.ndim)).astype(np.float32)
        places = np.full((len(single), k), -1, dtype=np.int64)
        if len(single) == 1:  # without the pool of threads
            keys = self._graph.search(single[0], k, threads=1).keys
            places[0, : len(keys)] = keys
            return places
        found = self._graph.search(single, k)
        for row, keys, count in zip(places, found.keys, found.counts, strict=True):
            row[:count] = keys[:count]
        return places
