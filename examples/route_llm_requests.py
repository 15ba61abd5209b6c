"""Send each request to the language model that is worth its price, and say what another rule would have cost.

Run it: python examples/route_llm_requests.py  (with prompts that are made up here)
        python examples/route_llm_requests.py --data FILE --budget 0.001  (with a table: see `read`)

`features`, `Router` and `what_if` are for copying. The rest plays users, models and judges.
docs/tutorial-routing.md explains each part.
"""

import argparse
import re
import tempfile
import warnings
import zlib
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linmed import Agent, Budget, Decision, Disjoint, Limits, LinMED
from linmed.features import Catalogue, Features, Vector
from linmed.ope import OPEWarning, difference, evaluate

WORDS = 8
World = tuple[list[str], list[str], Any, Any]  # models, prompts, qualities and dollars (prompts, models)


def features(prompt: str) -> NDArray[np.float64]:
    """Hash the words of a prompt into a few signed counts, scaled to length 1."""
    counts = np.zeros(WORDS)
    for word in re.findall(r"\w+", prompt.lower()):
        number = zlib.crc32(word.encode())
        counts[number % WORDS] += 1.0 if number // WORDS % 2 else -1.0
    return counts / max(float(np.linalg.norm(counts)), 1.0)


class Router:
    """Choose the model for each prompt by quality minus price, and learn from judgements that come later.

    `prices` has the dollars of a typical request by model, and `per_request` what a request may cost on
    average. Models in `trial` are not live before their `launch`, and get at most a tenth of the requests.
    The share `control` of all requests goes to any live model, all alike.
    """

    def __init__(
        self,
        prices: dict[str, float],
        log: str,
        *,
        per_request: float,
        trial: Sequence[str] = (),
        control: float = 0.06,
        seed: int | None = None,
    ) -> None:
        self.live: list[str] = []
        self.bills: dict[str, tuple[int, float]] = {}  # of each model: how many, and their dollars
        models = [*prices, *trial]
        cap = (0.1 - control / len(models)) / (1.0 - control)  # a tenth, with the control group's part
        policy = Disjoint(LinMED(sigma="unknown", ridge="learned", explore=False))
        self.catalogue = Catalogue.from_table(
            [{"item_id": model} for model in models], features=Features(context=[Vector("words", WORDS)])
        )
        self.agent = Agent(
            Limits(Budget(policy, per_decision=per_request), caps=dict.fromkeys(trial, cap)),
            catalogue=self.catalogue,
            control=control,
            wait="10m",
            missing=0.0,
            early="learn",
            log=log,
            seed=seed,
        )
        for model, dollars in prices.items():
            self.launch(model, dollars)

    def launch(self, model: str, dollars: float) -> None:
        """Offer one more model from now on."""
        if model not in self.agent.items:
            self.catalogue.add({"item_id": model})
        self.live.append(model)
        self.bills[model] = 10, 10 * dollars  # the list price counts as ten bills

    def route(self, prompt: str, time: float | None = None) -> Decision:
        """Decide which model gets a prompt: `decision.item`."""
        costs = [dollars / calls for calls, dollars in map(self.bills.__getitem__, self.live)]
        return self.agent.decide(context={"words": features(prompt)}, items=self.live, costs=costs, time=time)

    def billed(self, model: str, dollars: float) -> None:
        """Take the price of a call, which is known as soon as the answer is."""
        calls, total = self.bills[model]
        self.bills[model] = calls + 1, total + dollars

    def judged(self, decision_id: str, quality: float, dollars: float, time: float | None = None) -> None:
        """Learn how good an answer was, in [0, 1], and what the budget lost by it."""
        self.agent.learn(decision_id, quality, outcomes={"dollars": dollars}, consumed=dollars, time=time)


def what_if(log: str, models: Sequence[str], most_dollars: float, since: int | None = None) -> list[Any]:
    """Estimate quality and dollars of a request, as routed and had all gone to one model, with intervals."""
    targets = {f"all to {name}": f"arm:{place}" for place, name in enumerate(models)}
    targets = {"as routed": "logged", **targets}
    return [evaluate(log, targets, "snipw", since=since, **asked) for asked in questions(most_dollars)]


def instead(log: str, place: int, most_dollars: float) -> list[Any]:
    """Estimate how much more quality and dollars a request had had, had all gone to one model."""
    return [difference(log, f"arm:{place}", "logged", "dr", **asked) for asked in questions(most_dollars)]


def questions(most_dollars: float) -> tuple[dict[str, Any], ...]:
    """Ask about the quality, and about the dollars; a call that is lost is not billed."""
    return {}, {"outcome": "dollars", "reward_range": (0.0, most_dollars), "missing": 0.0, "mature": 600}


# ---- The world: prompts, how good each model's answer would be, what it would cost.

TOPICS = {  # what is asked, and the mean quality of each model's answers
    "Say something nice about my {}": (0.90, 0.93, 0.95, 0.93),
    "Translate into Korean: where is the {}": (0.80, 0.92, 0.94, 0.93),
    "Write a python function that sorts a list by {}": (0.45, 0.75, 0.93, 0.90),
    "Prove that there is no largest {}": (0.20, 0.45, 0.92, 0.75),
}
WHAT = ("cat", "station", "date", "prime", "garden", "market", "name", "number")
MODELS = {"small": 0.0001, "medium": 0.001, "large": 0.015, "newcomer": 0.002}  # dollars of a request
MOST = 0.2  # dollars that a request can cost: there is a limit on tokens
LOST = 0.01  # of all calls never come back


def made_up(rng: np.random.Generator, count: int = 1500) -> World:
    """Make up prompts, and for each model (count, models) the quality of its answers and their price."""
    topics = rng.integers(len(TOPICS), size=count)
    texts, mean = [*TOPICS], np.array([*TOPICS.values()])[topics]
    prompts = [texts[topic].format(rng.choice(WHAT)) for topic in topics]
    dollars = rng.gamma(4.0, np.array([*MODELS.values()]) / 4.0, mean.shape)
    return [*MODELS], prompts, rng.beta(8.0 * mean, 8.0 * (1.0 - mean)), np.minimum(dollars, MOST)


def read(path: str, rng: np.random.Generator) -> World:
    """Read them in random order from a table with `prompt` and each model's `reward NAME` and `cost NAME`."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    names = [name.removeprefix("reward ") for name in table.column_names if name.startswith("reward ")]
    order = rng.permutation(table.num_rows)
    qualities, dollars = (
        np.column_stack([table[f"{what} {name}"].to_numpy() for name in names])[order]
        for what in ("reward", "cost")
    )
    prompts = table["prompt"].to_pylist()
    return [name.split("/")[-1] for name in names], [prompts[i] for i in order], qualities, dollars


def serve(
    router: Router,
    models: list[str],
    prompts: list[str],
    qualities: Any,
    dollars: Any,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Send a request a second; judgements take half a minute on average, and one call in a hundred is lost.

    The last of the models is launched halfway. Returns the model of each request.
    """
    judgements: list[tuple[float, str, float, float]] = []
    played = []
    for second, prompt in enumerate(prompts):
        while judgements and judgements[0][0] <= second:
            time, name, quality, bill = heappop(judgements)
            router.judged(name, quality, bill, time)
        if second == len(prompts) // 2:
            router.launch(models[-1], dollars[:, -1].mean())
        decision = router.route(prompt, time=second)
        name = str(decision.item)
        model = models.index(name)
        played.append(model)
        if rng.random() >= LOST:
            router.billed(name, dollars[second, model])
            judged = second + rng.exponential(30.0)
            heappush(judgements, (judged, decision.id, qualities[second, model], dollars[second, model]))
    while judgements:
        time, name, quality, bill = heappop(judgements)
        router.judged(name, quality, bill, time)
    router.agent.expire(len(prompts) + 600.0)
    return np.array(played)


def show(estimates: Sequence[Any], true_quality: Any, true_dollars: Any) -> None:
    """Print estimates of quality and dollars, and what is true in this world."""
    print(f"{'':<30}{'quality':>24}{'true':>7}{'dollars for 1,000':>25}{'true':>7}{'rests on':>10}")
    for quality, dollars, good, bill in zip(*estimates, true_quality, true_dollars, strict=True):
        print(
            f"{quality['target']:<30}"
            + "{estimate:>8.3f} ({lower:.3f} to {upper:.3f})".format(**quality)
            + f"{good:>7.3f}{1000 * dollars['estimate']:>8.2f}"
            + f" ({1000 * dollars['lower']:>5.2f} to {1000 * dollars['upper']:>5.2f})"
            + f"{1000 * bill:>7.2f}{quality['effective_n']:>10.0f}"
        )


def main(data: str | None = None, budget: float = 0.005, seed: int = 0) -> None:
    """Route all prompts, and ask the log what else could have been."""
    rng = np.random.default_rng(seed)
    models, prompts, qualities, dollars = made_up(rng) if data is None else read(data, rng)
    old, count = models[:-1], len(prompts)
    with tempfile.TemporaryDirectory() as log, warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)  # some targets rest on few decisions: the last column
        router = Router(
            dict(zip(old, dollars.mean(axis=0), strict=False)),
            log,
            per_request=budget,
            trial=models[-1:],
            seed=seed,
        )
        played = serve(router, models, prompts, qualities, dollars, rng)
        router.agent.close()
        for first, those in ((0, old), (count // 2, models)):
            part = np.arange(first, count)
            shares = np.bincount(played[part], minlength=len(models)) / len(part)
            print(f"\n{len(part):,} requests from number {first} on:", end=" ")
            print(", ".join(f"{share:.1%} to {model}" for model, share in zip(models, shares, strict=True)))
            truth = (
                np.column_stack([table[part, played[part]], table[part, : len(those)]])
                for table in (qualities, dollars)
            )
            estimates = [table.to_pylist() for table in what_if(log, those, MOST, first)]
            show(estimates, *((1.0 - LOST) * table.mean(axis=0) for table in truth))
        print(f"\n{router.agent.budget}")
        (good,), (bill,) = (table.to_pylist() for table in instead(log, len(old) - 1, MOST))
        print(
            f"\nAll to {old[-1]} instead: {good['lower']:+.3f} to {good['upper']:+.3f} in quality, "
            f"{1000 * bill['lower']:+.2f} to {1000 * bill['upper']:+.2f} dollars for 1,000 requests."
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Route requests to language models.")
    parser.add_argument("--data", help="a Parquet file with prompts, qualities and dollars")
    parser.add_argument(
        "--budget", type=float, default=0.005, help="dollars that a request may cost on average"
    )
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
