"""Large bodies: arms given by features, or parts of a catalogue, read without the interpreter's lock.

pydantic holds the lock from the first byte to the last, 5 ms for 1000 arms of 64 features, and as many
requests as come keep everyone waiting so long. Arrow needs no lock and makes no object of each number. What
it reads is taken only where there is no doubt about it; the model reads the rest, and says what is wrong.
"""

from codecs import BOM_UTF8 as BOM
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.json
from pydantic import BaseModel

from linmed.serve.bodies import CatalogueBody, DecideBatch, DecideRequest
from linmed.serve.threads import Pool
from linmed.validation import Floats

LARGE = 64 * 1024
"""Bytes: smaller bodies are read faster than a thread wakes up."""

_REQUEST = {
    "arms": pa.list_(pa.list_(pa.float64())),
    "arm_ids": pa.list_(pa.string()),
    "context": pa.list_(pa.float64()),
    "key": pa.string(),
}

_ITEMS = {"ids": pa.list_(pa.string()), "features": pa.list_(pa.list_(pa.float64()))}

Body = TypeVar("Body", bound=BaseModel)


async def read_large(body: bytes, model: type[Body], threads: Pool) -> Body | None:
    """The request in `body`, whose arms are arrays; None where `model` should read it."""
    if len(body) < LARGE or model not in _READERS:
        return None
    return cast(Body | None, await threads.run(_read, body, _READERS[model]))


def _read(body: bytes, reader: "Callable[[bytes], BaseModel | None]") -> BaseModel | None:
    if body.startswith(BOM):  # which Arrow passes over
        return None
    try:
        return reader(body)
    except (pa.ArrowException, ValueError, TypeError):  # pydantic's errors among them
        return None


def _one(body: bytes) -> DecideRequest | None:
    table = _table(body, _REQUEST)
    return _requests([table.column(name).combine_chunks() for name in _REQUEST], 1)[0]


def _batch(body: bytes) -> DecideBatch | None:
    found = _table(body, {"decisions": pa.list_(pa.struct(_REQUEST.items()))}).column("decisions")
    entries = found.combine_chunks().flatten()
    requests = _requests([entries.field(name) for name in _REQUEST], len(entries))
    if not requests or entries.null_count or None in requests:
        return None
    return DecideBatch.model_construct(decisions=requests)


def _items(body: bytes) -> CatalogueBody | None:
    table = _table(body, _ITEMS)
    ids, rows = (table.column(name).combine_chunks() for name in _ITEMS)
    if ids.null_count or rows.null_count:
        return None
    found = CatalogueBody.model_validate({"ids": ids.to_pylist()[0], "features": [[0.0]]})
    ends = _numbers(rows.values.offsets, np.int32)
    found.features = cast(Any, _matrix(_numbers(rows.values.values, np.float64), ends))
    return found


_READERS: dict[type[BaseModel], Callable[[bytes], BaseModel | None]] = {
    DecideRequest: _one,
    DecideBatch: _batch,
    CatalogueBody: _items,
}


def _table(body: bytes, fields: dict[str, Any]) -> pa.Table:
    table = pyarrow.json.read_json(
        pa.BufferReader(body),
        pyarrow.json.ReadOptions(use_threads=False, block_size=len(body) + 1),
        pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(fields.items()),
            newlines_in_values=True,
            unexpected_field_behavior="error",
        ),
    )
    if table.num_rows != 1:
        raise ValueError("one object is expected")
    return table


def _requests(columns: list[Any], count: int) -> list[DecideRequest | None]:
    arms, *others = columns
    rest = zip(*(column.to_pylist() for column in others), strict=True)
    names = list(_REQUEST)[1:]
    rows, ends = _numbers(arms.offsets, np.int32), _numbers(arms.values.offsets, np.int32)
    content = _numbers(arms.values.values, np.float64)
    found: list[DecideRequest | None] = []
    for i, values in zip(range(count), rest, strict=True):
        request = DecideRequest.model_validate(dict(zip(names, values, strict=True)))
        if arms[i].is_valid:
            request.arms = cast(Any, _matrix(content, ends[rows[i] : rows[i + 1] + 1]))
        found.append(request)
    return found


def _numbers(array: Any, kind: type) -> Any:
    """An array of Arrow's as NumPy's; its own `to_numpy` takes a second when it is first called."""
    if array.null_count:
        raise ValueError("numbers are expected")
    return np.frombuffer(array.buffers()[1] or b"", kind)[array.offset : array.offset + len(array)]


def _matrix(content: Floats, ends: Any) -> Floats:
    """(K, d), where row k is content[ends[k]:ends[k+1]]."""
    widths = np.diff(ends)
    if not len(widths) or not 0 < widths.min() == widths.max():
        raise ValueError("rows of one length are expected")
    matrix = content[ends[0] : ends[-1]].reshape(len(widths), -1).copy()
    if not np.isfinite(matrix).all():
        raise ValueError("finite numbers are expected")
    return matrix
