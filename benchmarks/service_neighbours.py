"""One caller must not stop the others: a small bandit beside dear draws, and everything beside reports.

    python benchmarks/service_neighbours.py                  # draws, deadlines, then reports
    python benchmarks/service_neighbours.py --only deadlines
    python benchmarks/service_neighbours.py --batch 1000     # batches as long as one likes: refused, or slow

Draws. Four callers decide on a small bandit (K = 10, d = 10), in turns of quiet and of company. In company
four others decide on a catalogue of 1000 arms, d = 64, and one more sends batches on it, of 62 decisions
(4,000,000 numbers, the most that a request may ask for by default). The rule, set before any run: the small
bandit's p99 in company is at most 5 times its quiet p99 of the same run, all turns taken together.

Deadlines. Four callers decide on a small bandit; meanwhile another one takes 1,000 decisions a second, in
batches of 100, which never get a reward. In turns it is one without deadlines, and one whose decisions are
learned as missing half a second later. The rule: the small bandit's p99 with deadlines is at most 1.5 times
that without, all turns taken together.

Reports. Eight callers have a log of 60,000 decisions evaluated, over and over. Meanwhile `/readyz` and
another bandit's statistics are asked for, one after the other, and a token is revoked half-way. The rule:
each answer within 2 s, and the token refused within 2 s (the server promises one).
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SMALL, LARGE = (10, 10), (1000, 64)
DECIDE = "/v1/bandits/{}/decide"


def written(body: Any) -> bytes:
    """As JSON, if it is not yet."""
    return b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()


class Connection:
    """One kept open; a request is sent when the answer to the last one is there."""

    def __init__(self, port: int, token: str = ""):
        self.port, self.token = port, token
        self.reader: asyncio.StreamReader | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, float, bytes]:
        """Status, seconds, body."""
        content = written(body)
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        if self.token:
            head += f"Authorization: Bearer {self.token}\r\n"
        head += f"Content-Length: {len(content)}\r\n\r\n"
        started = time.perf_counter()
        if self.reader is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writer.write(head.encode() + content)
        answered = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answered.split("content-length:")[1].split("\r\n")[0])
        found = await self.reader.readexactly(length)
        return int(answered.split()[1]), time.perf_counter() - started, found

    async def repeat(
        self, method: str, path: str, bodies: list[Any], until: float
    ) -> list[tuple[int, float]]:
        """Until then: statuses and seconds."""
        found: list[tuple[int, float]] = []
        ready = [written(body) for body in bodies]
        while time.perf_counter() < until:
            status, seconds, _ = await self.ask(method, path, ready[len(found) % len(ready)])
            found.append((status, seconds))
            if status == 429:
                await asyncio.sleep(0.1)
        return found


@contextlib.contextmanager
def serving(folder: str, *options: str) -> Any:
    """A server process over SQLite; its port and the database."""
    database = f"sqlite:///{Path(folder) / 'neighbours.db'}"
    words = [sys.executable, "-m", "linmed.cli", "serve", "--database", database]
    process = subprocess.Popen([*words, "--port", "0", *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().rsplit(":", 1)[1].strip().rstrip("/"))
        yield port, words
    finally:
        process.terminate()
        process.wait(60)


async def create(port: int, name: str, dim: int, token: str = "", **more: Any) -> None:
    body = {"name": name, "dim": dim, "policy": {"policy": "LinMED", "sigma": 0.5}, **more}
    for _ in range(600):  # a server that begins refuses connections
        try:
            status, _, found = await Connection(port, token).ask("POST", "/v1/bandits", body)
        except OSError:
            status = 503
        if status == 201:
            return
        assert status == 503, found
        await asyncio.sleep(0.5)
    raise TimeoutError("the server did not begin")


def spread(times: list[float]) -> str:
    p50, p99 = np.percentile(times, [50, 99]) * 1000
    return f"{len(times):6d} answers, p50 {p50:7.2f} ms, p99 {p99:7.2f} ms"


async def draws(port: int, batch: int, turns: int, seconds: float) -> None:
    """A small bandit beside dear ones."""
    rng = np.random.default_rng(0)
    arms, dim = LARGE
    features = (rng.normal(size=LARGE) / np.sqrt(dim)).round(6).tolist()
    await create(port, "small", SMALL[1])
    await create(port, "large", dim, catalogue={"ids": [f"a{i}" for i in range(arms)], "features": features})
    small = [json.dumps({"arms": rng.normal(size=SMALL).round(6).tolist()}).encode() for _ in range(64)]
    quiet: list[tuple[int, float]] = []
    busy: list[tuple[int, float]] = []
    dear: list[tuple[int, float]] = []
    long: list[tuple[int, float]] = []

    async def many(name: str, callers: int, path: str, bodies: list[Any], until: float) -> list[Any]:
        each = (Connection(port).repeat("POST", path.format(name), bodies, until) for _ in range(callers))
        return [one for found in await asyncio.gather(*each) for one in found]

    for turn in range(2 * turns):
        until = time.perf_counter() + seconds
        if turn % 2 == 0:
            quiet += await many("small", 4, DECIDE, small, until)
            continue
        found = await asyncio.gather(
            many("small", 4, DECIDE, small, until),
            many("large", 4, DECIDE, [b"{}"], until),
            many("large", 1, DECIDE + "/batch", [{"decisions": [{}] * batch}], until),
        )
        busy, dear, long = busy + found[0], dear + found[1], long + found[2]
    for title, answers in {"quiet": quiet, "busy": busy, "large": dear, "batches": long}.items():
        codes = sorted({status for status, _ in answers})
        print(f"{title:8s} {spread([one for _, one in answers])}, statuses {codes}", flush=True)
    ratio = np.percentile([t for _, t in busy], 99) / np.percentile([t for _, t in quiet], 99)
    print(f"small bandit, p99 in company / quiet: {ratio:.2f} (at most 5)", flush=True)


async def deadlines(port: int, turns: int, seconds: float) -> None:
    """A small bandit beside one with 1,000 deadlines a second, and beside one without any."""
    rng = np.random.default_rng(2)
    await create(port, "small", SMALL[1])
    await create(port, "without", SMALL[1])
    await create(port, "with", SMALL[1], wait=0.5)
    small = [json.dumps({"arms": rng.normal(size=SMALL).round(6).tolist()}).encode() for _ in range(64)]
    batch = json.dumps(
        {"decisions": [{"arms": json.loads(small[i % 64])["arms"]} for i in range(100)]}
    ).encode()
    times: dict[str, list[float]] = {"without": [], "with": []}
    sent = dict.fromkeys(times, 0)

    async def stream(name: str, until: float) -> None:
        other, due = Connection(port), time.perf_counter()
        while time.perf_counter() < until:
            status, _, found = await other.ask("POST", f"/v1/bandits/{name}/decide/batch", batch)
            assert status == 200, found
            sent[name] += 100
            due += 0.1
            await asyncio.sleep(max(0.0, due - time.perf_counter()))

    for turn in range(2 * turns):
        name = ("without", "with")[turn % 2]
        until = time.perf_counter() + seconds
        callers = (Connection(port).repeat("POST", DECIDE.format("small"), small, until) for _ in range(4))
        *found, _ = await asyncio.gather(*callers, stream(name, until))
        times[name] += [one for answers in found for _, one in answers]
        await asyncio.sleep(1.0)  # until the last deadline has passed
    _, _, answer = await Connection(port).ask("GET", "/v1/bandits/with/statistics")
    passed = json.loads(answer)["deadlines"]["missing"]
    for name, answers in times.items():
        rate = sent[name] / (turns * seconds)
        print(f"{name:8s} {spread(answers)}, beside {rate:.0f} decisions a second", flush=True)
    ratio = np.percentile(times["with"], 99) / np.percentile(times["without"], 99)
    print(
        f"deadlines passed: {passed} of {sent['with']}; p99 with / without: {ratio:.2f} (at most 1.5)",
        flush=True,
    )


async def reports(port: int, words: list[str], rows: int, seconds: float) -> None:
    """Readiness, statistics and tokens beside evaluations."""
    admin, guest = (
        subprocess.run([*words, "--create-token", scope], capture_output=True, text=True).stdout.strip()
        for scope in ("admin", "read")
    )
    await asyncio.sleep(2.0)  # the server knows them
    rng = np.random.default_rng(1)
    await create(port, "other", 2, admin)
    await create(port, "log", 5, admin, reward_range=[0.0, 1.0])
    filling = Connection(port, admin)
    for _ in range(0, rows, 1000):
        body = {"decisions": [{"arms": one} for one in rng.random((1000, 4, 5)).round(3).tolist()]}
        status, _, found = await filling.ask("POST", "/v1/bandits/log/decide/batch", body)
        assert status == 200, found
        pairs = [
            {"decision_id": one["decision_id"], "reward": float(rng.random() < 0.3)}
            for one in json.loads(found)["decisions"]
        ]
        status, _, found = await filling.ask("POST", "/v1/bandits/log/reward/batch", {"rewards": pairs})
        assert status == 200, found
    until = time.perf_counter() + seconds
    asked = {"targets": ["uniform", "logged", "greedy"], "estimators": ["ipw", "dr"]}
    evaluations = [
        asyncio.create_task(
            Connection(port, admin).repeat("POST", "/v1/bandits/log/evaluate", [asked], until)
        )
        for _ in range(8)
    ]
    await asyncio.sleep(seconds / 2)

    async def revoked() -> float:
        assert (await Connection(port, guest).ask("GET", "/v1/bandits"))[0] == 200
        identifier = guest.split("_")[1]
        command = [*words, "--revoke-token", identifier]
        await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True)
        started, connection = time.perf_counter(), Connection(port, guest)
        while (await connection.ask("GET", "/v1/bandits"))[0] == 200:
            await asyncio.sleep(0.02)
        return time.perf_counter() - started

    watched = asyncio.gather(
        Connection(port, admin).repeat("GET", "/readyz", [None], until),
        Connection(port, admin).repeat("GET", "/v1/bandits/other/statistics", [None], until),
        revoked(),
    )
    ready, statistics, token = await watched
    done = [one for found in await asyncio.gather(*evaluations) for one in found]
    codes = sorted({status for status, _ in done})
    print(f"evaluations {len(done)}, longest {max(t for _, t in done):.1f} s, statuses {codes}", flush=True)
    for title, answers in {"readyz": ready, "statistics": statistics}.items():
        print(f"{title:10s} {spread([t for _, t in answers])}, longest {max(t for _, t in answers):.2f} s")
    print(f"a revoked token is refused after {token:.2f} s (all at most 2 s)", flush=True)


async def run(args: argparse.Namespace) -> None:
    for part in args.only:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder, serving(folder) as (port, words):
            if part == "draws":
                await draws(port, args.batch, args.turns, args.seconds)
            elif part == "deadlines":
                await deadlines(port, args.turns, args.seconds)
            else:
                await reports(port, words, args.rows, args.report_seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", help="where the databases are (default: the system's temporary folder)")
    parts = ("draws", "deadlines", "reports")
    parser.add_argument("--only", nargs="+", default=parts, choices=parts)
    parser.add_argument("--batch", type=int, default=4_000_000 // (LARGE[0] * LARGE[1]))
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one turn")
    parser.add_argument("--rows", type=int, default=60_000, help="decisions of the log that is evaluated")
    parser.add_argument("--report-seconds", type=float, default=20.0)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
