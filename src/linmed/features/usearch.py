"""A graph over the items (HNSW by usearch, extra `linmed[catalogue]`): approximate, and quick at any size."""

import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linmed import checks
from linmed.checks import Floats, Ints
from linmed.features.index import Items, checked_queries, in_powers_of_two
from linmed.files import write_atomically

try:
    from usearch.index import Index as Graph
except ImportError as error:  # pragma: no cover
    raise ImportError("linmed.features.usearch needs usearch: pip install 'linmed[catalogue]'") from error

HEAD = "index.json"


def _graph(dim: int, connectivity: int, construction: int, search: int) -> Any:
    return Graph(
        ndim=dim, metric="ip", dtype="f32", connectivity=connectivity, expansion_add=construction,
        expansion_search=search,
    )  # fmt: skip


class USearch:
    """An `Index` over the rows of a catalogue, by `USearch.build`, or by `USearch.open` from what was saved.

    A graph is not made twice alike, so every build and every change has a version of its own. What was saved
    answers as it did, under the version that it had. Distances are of single precision, summed in the order
    that suits the processor, whose instructions are therefore named in the version.
    """

    def __init__(self, graph: Any, stamp: str) -> None:
        self._graph, self._stamp = graph, stamp

    @classmethod
    def build(
        cls, items: Items, connectivity: int = 16, construction: int = 128, search: int = 64
    ) -> "USearch":
        """The graph of all live items. More edges of each item, and more candidates looked at when it is made
        and when it is asked, find the best item more often, and take longer.
        """
        numbers = {"connectivity": connectivity, "construction": construction, "search": search}
        graph = _graph(items.matrix.shape[1], **{name: checks.whole(name, n) for name, n in numbers.items()})
        places = np.flatnonzero(items.live)
        for first in range(0, len(places), 1 << 16):
            some = places[first : first + (1 << 16)]
            graph.add(some, np.asarray(items.matrix[some], dtype=np.float32))
        return cls(graph, secrets.token_hex(8))

    @classmethod
    def open(cls, directory: str | os.PathLike[str], mapped: bool = False) -> "USearch":
        """What `save` wrote; one that is `mapped` stays on disk, and cannot be changed."""
        head = json.loads((Path(directory) / HEAD).read_text())
        stamp = head.pop("stamp")
        graph, path = _graph(**head), Path(directory) / f"{stamp}.usearch"
        try:
            (graph.view if checks.flag("mapped", mapped) else graph.load)(str(path))
        except RuntimeError as error:
            raise ValueError(f"{path} is not an index of usearch, or it is damaged ({error})") from None
        return cls(graph, stamp)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the graph, and then the head that names it: a crash in between leaves the old one."""
        folder, graph = Path(directory), self._graph
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self._stamp}.usearch"
        graph.save(str(path))
        numbers = {"connectivity": graph.connectivity, "construction": graph.expansion_add}
        head = {"stamp": self._stamp, "dim": graph.ndim, **numbers, "search": graph.expansion_search}
        write_atomically(folder / HEAD, lambda file: file.write(json.dumps(head).encode()))
        for other in folder.glob("*.usearch"):
            if other != path:
                other.unlink()

    @property
    def version(self) -> str:
        """Build and processor."""
        return f"usearch-{self._stamp}-{self._graph.hardware_acceleration}"

    def top(self, queries: Floats, k: int) -> Ints:
        """The places of the k best for each query (B, de), best first: (B, k), −1 where there are no more."""
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

    def add(self, places: Ints, vectors: NDArray[Any]) -> None:
        """Rows (m, de) that are new, or have changed."""
        known = [place for place in places.tolist() if place in self._graph]
        self._graph.remove(np.array(known, dtype=np.int64))
        self._graph.add(places, np.asarray(vectors, dtype=np.float32), threads=1)
        self._stamp = secrets.token_hex(8)

    def remove(self, places: Ints) -> None:
        """Rows that are not to be found any more."""
        self._graph.remove(places)
        self._stamp = secrets.token_hex(8)
