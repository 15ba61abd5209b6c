"""What a decision adds to the database, in bytes, its indexes included.

    python benchmarks/service_log_size.py

Items of a catalogue (the log holds its version, the context and which items were offered) beside the same
arms given by their features (the log holds them all), without and with a client's key of 32 characters. Every
number of features and context is a random float64: one-hot contexts take an eighth of the room.
"""

import secrets
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from service_load import Process

SHAPES = ((1000, 64, 0), (50, 64, 8))  # items, features, entries of the context


def bytes_each(folder: Path, items: int, features: int, context: int, listed: bool, keyed: bool) -> float:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(items, features))
    file = folder / f"{secrets.token_hex(4)}.db"
    server = Process("-m", "linmed.cli", "serve", "--database", f"sqlite:///{file}", "--port", "0")
    body: dict[str, object] = {"name": "b", "dim": features + context}
    if listed:
        body["catalogue"] = {"ids": [f"item-{k}" for k in range(items)], "features": matrix.tolist()}
    server.call("/v1/bandits", body)
    server.stop()  # writes everything into the file
    before, number = file.stat().st_size, (400 if listed else 40)
    server = Process("-m", "linmed.cli", "serve", "--database", f"sqlite:///{file}", "--port", "0").ready()
    for _ in range(number):
        user = rng.normal(size=context)
        joined = np.hstack([matrix, np.broadcast_to(user, (items, context))])
        request = {"context": user.tolist()} if listed else {"arms": joined.tolist()}
        if keyed:
            request["key"] = secrets.token_hex(16)
        server.call("/v1/bandits/b/decide", request)
    server.stop()
    return (file.stat().st_size - before) / number


def main() -> None:
    print("bytes a decision adds to SQLite         items   the same, with a key   arms by features")
    with tempfile.TemporaryDirectory(prefix="linmed-size-") as name:
        for shape in SHAPES:
            cases = ((True, False), (True, True), (False, False))
            sizes = [bytes_each(Path(name), *shape, listed, keyed) for listed, keyed in cases]
            title = f"K = {shape[0]}, d = {shape[1] + shape[2]} ({shape[2]} of them the context)"
            print(f"{title:38s}  {sizes[0]:6,.0f}   {sizes[1]:20,.0f}   {sizes[2]:16,.0f}")


if __name__ == "__main__":
    main()
