"""linmed's policies and its peers on the same arms, rewards and rounds: µs per decision with learning."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from environments import HOME, PEERS, interpreter, prepare
from report import ONE_THREAD, short, show, spread, table

PATIENCE = 180  # seconds after which a silent peer is given up
SLOW = 5  # seconds after which a repeat is the last of its kind
REFERENCE = ("linmed", "LinMED")
ROUNDS = {3: 5000, 10: 5000, 100: 1000, 500: 1000, 1000: 300}  # by number of arms


class Broken(Exception):
    """A peer that does not answer."""


class Running:
    """A peer's process: it announces its policies, then answers one line of JSON per request."""

    def __init__(self, module: str, python: Path) -> None:
        HOME.mkdir(exist_ok=True)
        self.errors = HOME / f"{module}.stderr"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [str(python), "-W", "ignore", "-m", f"peers.{module}"],
                cwd=Path(__file__).parent,
                env={**os.environ, **ONE_THREAD},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        hello = self._read()
        self.name, self.version = hello["peer"], hello["version"]
        self.policies: list[str] = hello["policies"]
        self.slow: set[tuple[str, int, int]] = set()

    def ask(self, **request: object) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise Broken(self._last_words()) from None
        return self._read()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def _read(self) -> dict[str, Any]:
        stdout = self.process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], PATIENCE)[0]:
            raise Broken(f"no answer within {PATIENCE} s")
        line = stdout.readline()
        if not line:
            raise Broken(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        lines = self.errors.read_text(errors="replace").strip().splitlines()
        return f"stopped: {lines[-1][:200] if lines else 'no message'}"


@dataclass
class Row:
    """One policy of one library over all shapes."""

    peer: str
    version: str
    policy: str
    propensity: str = "?"
    model: str = "?"
    micros: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """µs per round by shape and clock (wall, cpu), one per repeat."""
    rounds: dict[str, int] = field(default_factory=dict)
    error: str | None = None


def run(
    shapes: Sequence[tuple[int, int]], repeats: int, seconds: float, clock: str, only: Sequence[str]
) -> dict[str, Any]:
    """Measure, print the tables, and return everything for the JSON file."""
    running, refused = _start(only)
    rows = {(peer.name, p): Row(peer.name, peer.version, p) for peer in running for p in peer.policies}
    try:
        for arms, dim in shapes:
            for _ in range(repeats):
                for peer in list(running):
                    try:
                        _measure(peer, rows, arms, dim, seconds)
                    except Broken as reason:
                        refused[peer.name] = f"at ({arms},{dim}): {reason}"
                        peer.close()
                        running.remove(peer)
                print(f"({arms},{dim}) ", end="", file=sys.stderr, flush=True)
    finally:
        print(file=sys.stderr)
        for peer in running:
            peer.close()
    _print(list(rows.values()), refused, [f"{a}x{d}" for a, d in shapes], repeats, clock)
    return {"rows": [vars(row) for row in rows.values()], "not measured": refused}


def _start(only: Sequence[str]) -> tuple[list[Running], dict[str, str]]:
    running = [Running("linmed", Path(sys.executable))]
    refused: dict[str, str] = {}
    for peer in PEERS:
        if only and peer.module not in only:
            continue
        reason = prepare(peer)
        if reason is None:
            try:
                running.append(Running(peer.module, interpreter(peer)))
            except Broken as broken:
                reason = str(broken)
        if reason is not None:
            refused[peer.module] = reason
    return running, refused


def _measure(peer: Running, rows: dict[tuple[str, str], Row], arms: int, dim: int, seconds: float) -> None:
    for policy in peer.policies:
        row = rows[peer.name, policy]
        if (policy, arms, dim) in peer.slow:
            continue
        began = time.perf_counter()
        answer = peer.ask(policy=policy, arms=arms, dim=dim, rounds=ROUNDS.get(arms, 1000), seconds=seconds)
        row.propensity, row.model = answer["propensity"], answer["model"]
        if time.perf_counter() - began > SLOW:
            peer.slow.add((policy, arms, dim))
        if "error" in answer:
            row.error = answer["error"]
            continue
        shape = f"{arms}x{dim}"
        kept = row.micros.setdefault(shape, {"wall": [], "cpu": []})
        kept["wall"] += answer["us_per_round"]
        kept["cpu"] += answer["cpu_us_per_round"]
        row.rounds[shape] = answer["rounds"]


def _print(rows: list[Row], refused: dict[str, str], shapes: list[str], repeats: int, clock: str) -> None:
    reference = next(row for row in rows if (row.peer, row.policy) == REFERENCE)
    middle = {
        (row.peer, row.policy, shape): median(row.micros[shape][clock])
        for row in rows
        for shape in shapes
        if shape in row.micros
    }
    order = sorted(rows, key=lambda row: (row.peer != "linmed", row.peer, row.policy != "LinMED"))
    heads = [f"({shape.replace('x', ',')})" for shape in shapes]
    names = [[f"{row.peer} {row.version}", row.policy, row.propensity, row.model] for row in order]
    columns = ["library", "policy", "propensity", "model"]

    def cells(form: Any) -> list[list[str]]:
        return [
            name + [form(row, shape) if (row.peer, row.policy, shape) in middle else "—" for shape in shapes]
            for name, row in zip(names, order, strict=True)
        ]

    def micros(row: Row, shape: str) -> str:
        values = row.micros[shape][clock]
        return f"{short(median(values))} ±{50 * spread(values):.0f}%"

    def rate(row: Row, shape: str) -> str:
        return short(1e6 / middle[row.peer, row.policy, shape])

    def ratio(row: Row, shape: str) -> str:
        return short(middle[row.peer, row.policy, shape] / middle["linmed", "LinMED", shape])

    what = f"median of {repeats}, ± half the range, {clock} clock, one thread"
    show(table(f"µs per decision with learning ({what})", columns + heads, cells(micros), words=4))
    show(table("decisions per second", columns + heads, cells(rate), words=4))
    show(table("time relative to linmed's LinMED (same run)", columns + heads, cells(ratio), words=4))
    _print_best(rows, middle, shapes, heads)
    busy = [
        median(w / c for w, c in zip(kept["wall"], kept["cpu"], strict=True))
        for kept in reference.micros.values()
    ]
    notes = [f"wall time / processor time of LinMED: {median(busy):.2f} (1 on an idle machine)"]
    notes += [f"{row.peer} {row.policy}: {row.error}" for row in order if row.error]
    notes += [f"{name} not measured: {reason}" for name, reason in refused.items()]
    show("".join(f"- {note}\n" for note in notes))


def _print_best(
    rows: list[Row], middle: dict[tuple[str, str, str], float], shapes: list[str], heads: list[str]
) -> None:
    """LinMED against the fastest peer, and the fastest that returns propensities."""
    lines = []
    for title, allowed in (("any peer", {"yes", "no", "0/1"}), ("a peer with propensities", {"yes"})):
        cells = []
        for shape in shapes:
            rivals = [
                (middle[row.peer, row.policy, shape], f"{row.peer} {row.policy}")
                for row in rows
                if row.peer != "linmed"
                and row.propensity in allowed
                and (row.peer, row.policy, shape) in middle
            ]
            if rivals and ("linmed", "LinMED", shape) in middle:
                best, who = min(rivals)
                cells.append(f"{short(best / middle['linmed', 'LinMED', shape])}× {who}")
            else:
                cells.append("—")
        lines.append([title, *cells])
    show(table("LinMED's lead over the fastest", ["", *heads], lines))
