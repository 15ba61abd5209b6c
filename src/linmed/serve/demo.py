"""Simulate visitors who use the service as an application would: `linmed serve --demo`.

They come through the real API. Articles are read by visitors who differ, so the best article depends on the
context; a click is known after a moment, that there is none only when the patience of the application ends.
Banners are fewer and simpler, and of some of them nothing is ever heard again.
"""

import argparse
import asyncio
import contextlib
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from linmed.serve.settings import Settings
from linmed.validation import Floats

AT_FIRST, TOGETHER, PAUSE = 1000, 25, 0.2
"""Visits that come quickly, so that there are curves to look at; how many at once, and seconds in between."""
PATIENCE, GROWTH = 6.0, 30.0
"""Seconds after which no click means 0; how long it takes to become so many.

If it were so long at once, nothing but clicks would arrive for six seconds: a mean of 1 on the page."""


@dataclass(frozen=True)
class Site:
    """Describe a bandit of the demonstration, and the visitors that it is asked to serve."""

    name: str
    policy: dict[str, Any]
    items: dict[str, list[float]]
    tastes: Floats  # (features, context): a click's chance is items · tastes · context
    rate: float
    """Visits a second."""
    lost: float = 0.0
    """Share of visits of which nothing is heard again."""

    @property
    def context(self) -> int:
        """Return how many numbers a context has; the first is always 1."""
        return int(self.tastes.shape[1])

    def visitor(self, random: np.random.Generator) -> Floats:
        """Draw a visitor's context."""
        return np.concatenate([[1.0], random.random(self.context - 1).round(2)])


BANNERS = Site(
    "banners",
    {"policy": "EpsilonGreedy", "epsilon": 0.2, "sigma": 0.5},
    {"blue": [1, 0, 0], "green": [0, 1, 0], "plain": [0, 0, 1]},
    np.array([[0.12], [0.25], [0.06]]),
    rate=3.0,
    lost=0.1,
)
ARTICLES = Site(
    "articles",
    {"policy": "LinMED", "alpha_emp": 0.5, "alpha_opt": 0.25, "sigma": 0.5},
    {  # politics, sport, culture, science
        "election night": [1.0, 0.0, 0.0, 0.0],
        "budget explained": [0.8, 0.0, 0.0, 0.3],
        "cup final": [0.0, 1.0, 0.0, 0.0],
        "marathon diary": [0.0, 0.7, 0.3, 0.1],
        "film of the week": [0.0, 0.0, 1.0, 0.0],
        "a museum at night": [0.1, 0.0, 0.8, 0.2],
        "a new telescope": [0.0, 0.0, 0.1, 1.0],
        "sleep and memory": [0.0, 0.2, 0.0, 0.8],
    },
    np.array([[0.08, 0.10, 0.00], [0.02, 0.00, 0.70], [0.10, 0.10, -0.05], [0.05, 0.55, -0.10]]),
    rate=20.0,
)


class Visitors:
    """Send the visitors of one site."""

    def __init__(self, site: Site, http: httpx.AsyncClient, seed: int):
        self.site, self.http = site, http
        self.random = np.random.default_rng(seed)
        self._later: set[asyncio.Task[None]] = set()
        self._alone = 0.0  # when the visitors began to come one by one

    async def come(self) -> None:
        """Send some at once, then one after the other, until cancelled."""
        site = self.site
        width = len(next(iter(site.items.values())))
        catalogue = {"ids": list(site.items), "features": list(site.items.values())}
        body = {"name": site.name, "dim": width * site.context, "policy": site.policy, "map": "outer"}
        await self._post("", {**body, "catalogue": catalogue, "reward_range": [0, 1]})
        for _ in range(0, round(AT_FIRST * site.rate / ARTICLES.rate), TOGETHER):
            await self.crowd()
            await asyncio.sleep(PAUSE)
        self._alone = time.monotonic()
        while True:
            await asyncio.sleep(self.random.exponential(1.0 / site.rate))
            task = asyncio.create_task(self.visit())
            self._later.add(task)
            task.add_done_callback(self._later.discard)

    async def crowd(self) -> None:
        """Make many visits in two requests."""
        several = [self.site.visitor(self.random) for _ in range(TOGETHER)]
        wanted = [{"context": visitor.tolist()} for visitor in several]
        decided = (await self._post("/decide/batch", {"decisions": wanted}))["decisions"]
        rewards = [self.reward(decision, visitor) for decision, visitor in zip(decided, several, strict=True)]
        heard = [one for one in rewards if self.random.random() >= self.site.lost]
        await self._post("/reward/batch", {"rewards": heard})

    async def visit(self) -> None:
        """Ask for one decision and later, or never, send its reward."""
        visitor = self.site.visitor(self.random)
        with contextlib.suppress(httpx.HTTPError):  # refused, or the service has gone: so does this visitor
            reward = self.reward(await self._post("/decide", {"context": visitor.tolist()}), visitor)
            await asyncio.sleep(self.moment(reward["reward"] > 0, time.monotonic() - self._alone))
            if self.random.random() >= self.site.lost:
                await self._post("/reward", reward)

    def moment(self, clicked: bool, since: float) -> float:
        """Draw the seconds until the application knows, of a visit that comes so long after the crowds."""
        patience = PATIENCE * min(since / GROWTH, 1.0)
        return min(float(self.random.exponential(patience / 6)), patience) if clicked else patience

    def reward(self, decision: dict[str, Any], visitor: Floats) -> dict[str, Any]:
        """Draw whether this visitor clicks on what was decided."""
        chance = np.clip(self.site.items[decision["arm_id"]] @ self.site.tastes @ visitor, 0.01, 0.95)
        clicked = self.random.random() < chance
        return {"decision_id": decision["decision_id"], "reward": float(clicked)}

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        whole = f"/v1/bandits/{self.site.name}{path}" if path else "/v1/bandits"
        answer = await self.http.post(whole, json=body)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found


async def _visits(url: str, stop: threading.Event) -> None:
    """Send visitors until `stop` is set, or something goes wrong, which is raised."""
    async with httpx.AsyncClient(base_url=url, timeout=300) as http:
        ended = asyncio.create_task(asyncio.to_thread(lambda: stop.wait() and None))
        while not stop.is_set():
            with contextlib.suppress(httpx.TransportError):
                await http.get("/healthz")
                break
            await asyncio.sleep(0.05)
        sites = enumerate((BANNERS, ARTICLES))
        coming = [asyncio.create_task(Visitors(site, http, seed).come()) for seed, site in sites]
        done, _ = await asyncio.wait([ended, *coming], return_when=asyncio.FIRST_COMPLETED)
        others = asyncio.all_tasks() - {asyncio.current_task(), ended}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
    for task in done:
        try:
            task.result()
        except httpx.TransportError:
            pass  # the service has gone: so do its visitors
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.SERVICE_UNAVAILABLE:  # it is about to go
                raise


@contextlib.contextmanager
def visitors(url: str) -> Iterator[None]:
    """Send visitors for as long as this lasts, from a separate thread."""
    print(
        f"demo: open {url}#bandit={ARTICLES.name} and watch the bands narrow: does the policy earn more than "
        "uniform play?\ndemo: visitors and clicks are simulated; Ctrl-C ends all and leaves nothing behind",
        flush=True,
    )
    stop = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_visits(url, stop)), name="linmed-demo", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5)


@contextlib.contextmanager
def stage(args: argparse.Namespace) -> Iterator[None]:
    """Give a database that is gone afterwards, unless one was given; end without a traceback."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        with tempfile.TemporaryDirectory(prefix="linmed-demo-") as folder:
            if args.database == Settings.database:
                args.database = f"sqlite:///{Path(folder) / 'demo.db'}"
            if args.log_level == "info":
                args.log_level = "warning"
            yield
    except KeyboardInterrupt:
        print("demo: ended", flush=True)
    finally:
        signal.signal(signal.SIGTERM, before)
