"""Drift: what forgetting costs, how true the numbers stay, how often alarms are false, how soon one comes.

python benchmarks/drift.py [--logs 2000] [--trials 100] [--clock cpu] [--only PART]

Speed is a ratio to LinMED within one run: a decision and a reward of a live agent, G = 4 half-lives. For the
alarms unit arms are drawn evenly (d = 3, K = 6), σ = 0.3; 2,500 quiet rewards, or 1,500 before θ*, of length
½, turns round (‖Δθ‖ = 1) or moves by ½.

Clicks (--only clicks): Forgetful(LogisticMED()) beside LogisticMED, told nothing, and fixed half-lives; K =
10 arms that stay, five features and a constant, a mean rate of 20 %, ‖w‖ = 3, 3,000 rounds, 100 trials of
seed 1. The rule, written before the first trial: regret is at most 1.2 times that of LogisticMED where
nothing changes, and at most 0.7 times where w is drawn anew after 1,500 rounds. Fixed half-lives are shown,
and no part of the rule. The intervals are of a bootstrap over trials.

Alarms for clicks (--only click-alarms): the same test for Forgetful(LogisticMED()), told S = 3 and told
nothing, log-odds ⟨a,θ⟩ − 1 with ‖θ‖ = 2; ‖Δθ‖ = 4 or 2. The rule: at most 5 % of quiet logs have one.

Tails (--only tails): false alarms where σ is unknown and the noise need not be Gaussian. 500 logs of 2,500
rewards each, arms as above with a constant, and nothing changes: Gaussian, Student's t with three degrees of
freedom, revenue (a tenth buys, more or fewer by the arm, for lognormal amounts with σ = 1 and 1.5), rare
revenue (one in a hundred), clicks, counts. The rule, written before the first trial with these seeds: at
most 5 % of the logs of each kind have an alarm, and ‖Δθ‖ = 1 under Gaussian noise is noticed within 100
rewards in at least 95 % (--only alarms). Then the same change of θ under each noise, once with rewards as
they are and once multiplied by 99: the number of alarms is 1, and the same in both units, in at least 95 %
of the logs with Gaussian noise. Quiet logs are played evenly, and once more by the policy itself. Prices: ten
from 9 to 99, paid if the visitor's valuation, uniform up to 129, is higher, up to 64 after the change;
features are 1, p/99 and its square. The clipping at 4 standard deviations and the bets of at most 1 were
chosen on other seeds, among 4, 5, 6 and 1, 2.
That nothing is bet before a hundred errors was decided after a first run with these seeds.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from linmed import Agent, simulate
from linmed.environments import Clicks, ClicksChange
from linmed.insight.drift import drift_of
from linmed.policies import Forgetful, LinMED, LogisticMED, Policy

SHAPES = ((2, 3), (5, 10), (10, 50), (20, 100))
NOISES: tuple[Any, ...] = (0.3, "unknown")
SIGMA, DIM, ARMS = 0.3, 3, 6
Noise = Callable[[Any, np.random.Generator], Any]
"""Rewards for means."""


def fastest(
    works: dict[str, Callable[[], int]], repeats: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Seconds of one piece of each work, the least of so many, taken in turns."""
    best = dict.fromkeys(works, np.inf)
    for _ in range(repeats):
        for name, work in works.items():
            began = clock()
            pieces = work()
            best[name] = min(best[name], (clock() - began) / pieces)
    return best


def prepared(policy: Policy, arms: Any, theta: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """What decides, what learns one at a time and what learns at once, 1,000 times, after 300 rewards."""
    agent = Agent(policy, arms.shape[1], seed=0)
    rows = arms[rng.integers(len(arms), size=300)]
    agent.observe(rows, rows @ theta + SIGMA * rng.standard_normal(300))
    decider = agent._decider
    played = arms[rng.integers(len(arms), size=1000)]
    paid = (played @ theta + SIGMA * rng.standard_normal(1000)).tolist()
    pairs = [(row.tobytes(), reward) for row, reward in zip(played, paid, strict=True)]

    def decide() -> int:
        for _ in range(1000):
            decider.decide(arms)
        return 1000

    def learn_many() -> int:
        policy.learn(agent.state, played, np.array(paid), np.zeros(1000, dtype=np.int64))
        return 1000

    def learn() -> int:
        for vector, reward in pairs:
            decider.learn(vector, reward)
        return 1000

    return decide, learn, learn_many


def speed(clock: Callable[[], float]) -> None:
    print("| d | K | σ | decide, µs | × LinMED | learn, µs | × LinMED | in one call, µs | × LinMED |")
    print("|---|---|---|---|---|---|---|---|---|")
    for dim, count in SHAPES:
        rng = np.random.default_rng(0)
        arms = rng.standard_normal((count, dim))
        arms /= np.linalg.norm(arms, axis=1)[:, None]
        theta = rng.standard_normal(dim) / np.sqrt(dim)
        for sigma in NOISES:
            plain, forgetful = (
                prepared(policy, arms, theta, rng)
                for policy in (LinMED(sigma=sigma), Forgetful(LinMED(sigma=sigma)))
            )
            took = [fastest({"plain": plain[i], "forgetful": forgetful[i]}, 15, clock) for i in range(3)]
            cells = [f"{1e6 * one['forgetful']:.2f} | {one['forgetful'] / one['plain']:.2f}" for one in took]
            print(f"| {dim} | {count} | {sigma} | {cells[0]} | {cells[1]} | {cells[2]} |", flush=True)


def accuracy(updates: int = 1_000_000) -> None:
    rng = np.random.default_rng(1)
    for dim, count in ((5, 10), (20, 3)):
        arms = rng.standard_normal((count, dim))
        arms /= np.linalg.norm(arms, axis=1)[:, None]
        policy = Forgetful(LinMED(sigma=SIGMA), half_lives=(50,))
        state = policy.start(1, dim)
        for _ in range(100):
            rows = arms[rng.integers(count, size=updates // 100)]
            policy.learn(state, rows, rng.standard_normal(len(rows)), np.zeros(len(rows), dtype=np.int64))
        gram = state.gram[0, 0] + state.gram_low[0, 0]
        exact = np.linalg.inv(np.tril(gram) + np.tril(gram, -1).T)
        off = np.abs(state.inverse[0, 0] - exact).max() / np.abs(exact).max()
        print(f"V⁻¹ after {updates:,} updates, half-life 50, d = {dim}, {count} arms: off by {off:.1e}")


def run(
    policy: Forgetful, logs: int, count: int, change: int, size: float, seed: int, norm: float | None = None
) -> Any:
    """The states after `count` rewards of as many worlds; θ* moves by `size` after `change`.

    Where a `norm` of θ* is given rewards are clicks with the log-odds ⟨a,θ*⟩ − 1.
    """
    clicks, norm = norm is not None, 0.5 if norm is None else norm
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((logs, ARMS, DIM))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    before = rng.standard_normal((logs, DIM))
    before *= norm / np.linalg.norm(before, axis=1, keepdims=True)
    towards = rng.standard_normal((logs, DIM))
    towards *= size / np.linalg.norm(towards, axis=1, keepdims=True)
    after = -before if size == 2.0 * norm else before + towards
    state, own = policy.start(logs, DIM), np.arange(logs)
    for t in range(count):
        rows = arms[own, rng.integers(ARMS, size=logs)]
        means = (rows * (before if t < change else after)).sum(axis=1)
        if clicks:
            paid = (rng.random(logs) < 1.0 / (1.0 + np.exp(1.0 - means))).astype(float)
        else:
            paid = means + SIGMA * rng.standard_normal(logs)
        policy.learn(state, rows, paid, own)
    return state


def alarms(logs: int, clicks: bool) -> None:
    print("\n| told | quiet logs with an alarm | ‖Δθ‖ | alarm within 100 | median | adoption within 100 |")
    print("|---|---|---|---|---|---|")
    told: dict[str, Policy] = {
        "σ": LinMED(sigma=SIGMA),
        "nothing": LinMED(sigma="unknown", norm_bound="unknown"),
    }
    if clicks:
        told = {"clicks, S": LogisticMED(norm_bound=3.0), "clicks, nothing": LogisticMED()}
    norm = 2.0 if clicks else None
    for name, inside in told.items():
        policy = Forgetful(inside)
        quiet = run(policy, logs, 2500, 2500, 1.0, 10, norm).happened[:, 1] > 0
        for size in (4.0, 2.0) if clicks else (1.0, 0.5):
            state = run(policy, logs // 4, 1900, 1500, size, 11, norm)
            first, began = state.alarms[:, 0, 0], state.adoptions[:, 0, 0]
            seen, moved = ((one > 1500) & (one <= 1600) for one in (first, began))
            delay = np.median(np.where(first > 1500, first - 1500, np.inf))
            print(
                f"| {name} | {quiet.sum()} of {logs} | {size:g} | {seen.mean():.1%} | {delay:g} | "
                f"{moved.mean():.1%} |",
                flush=True,
            )


def bought(rate: float, spread: float) -> Noise:
    """Revenue: a share of the visitors buys, by the arm; amounts are lognormal with a median of 20."""
    return lambda means, rng: (
        (rng.random(len(means)) < rate * (1.0 + means))
        * np.exp(np.log(20.0) + spread * rng.standard_normal(len(means)))
    )


TAILS: dict[str, Noise] = {
    "Gaussian": lambda means, rng: means + SIGMA * rng.standard_normal(len(means)),
    "Student t, 3 degrees": lambda means, rng: means + SIGMA * rng.standard_t(3, len(means)),
    "10 % buy, lognormal, 1": bought(0.1, 1.0),
    "10 % buy, lognormal, 1.5": bought(0.1, 1.5),
    "1 % buy, lognormal, 1": bought(0.01, 1.0),
    "clicks": lambda means, rng: (rng.random(len(means)) < 0.5 + 0.9 * means).astype(float),
    "counts": lambda means, rng: rng.poisson(1.0 + means).astype(float),
}


def with_tails(
    inside: Policy, noise: Noise, logs: int, change: int, seed: int, unit: float = 1.0, plays: bool = False
) -> tuple[Forgetful, Any]:
    """States after 2,500 rewards in `unit`s; θ*, of length ½, turns round after `change`.

    Arms are drawn evenly, or the policy `plays`.
    """
    rng, policy, own = np.random.default_rng(seed), Forgetful(inside), np.arange(logs)
    arms = rng.standard_normal((logs, ARMS, DIM))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    theta = rng.standard_normal((logs, DIM))
    theta *= 0.5 / np.linalg.norm(theta, axis=1, keepdims=True)
    arms = np.concatenate([arms, np.ones((logs, ARMS, 1))], axis=2)
    state = policy.start(logs, DIM + 1)
    for t in range(2500):
        drawn = rng.integers(ARMS, size=logs)
        if plays:
            drawn = policy.choose(state, arms, policy.draw_noise(rng, (logs,), DIM + 1))
        rows = arms[own, drawn]
        means = (rows[:, :DIM] * theta).sum(axis=1) * (1.0 if t < change else -1.0)
        policy.learn(state, rows, unit * noise(means, rng), own)
    return policy, state


def with_prices(inside: Policy, logs: int, change: int, seed: int, unit: float, plays: bool) -> Any:
    """How many alarms each log has after 3,000 visitors."""
    rng, policy, prices = np.random.default_rng(seed), Forgetful(inside), np.linspace(9.0, 99.0, 10)
    rows = np.stack([np.ones(10), prices / 99.0, (prices / 99.0) ** 2], axis=1)
    arms, own = np.ascontiguousarray(np.broadcast_to(rows, (logs, 10, 3))), np.arange(logs)
    state = policy.start(logs, 3)
    for t in range(3000):
        drawn = rng.integers(10, size=logs)
        if plays:
            drawn = policy.choose(state, arms, policy.draw_noise(rng, (logs,), 3))
        worth = rng.random(logs) * (129.0 if t < change else 64.0)
        policy.learn(state, rows[drawn], unit * prices[drawn] * (worth > prices[drawn]), own)
    return state.happened[:, 1]


def tails(logs: int) -> None:
    def parts(alarms: Any) -> str:
        return ", ".join(str(n) for n in np.bincount(np.minimum(alarms, 2), minlength=3))

    inside = LinMED(sigma="unknown")
    print(
        "\n| noise | quiet logs with an alarm | … played by the policy | a doubt | one change: 0, 1, 2+ "
        "alarms | × 99 |\n|---|---|---|---|---|---|"
    )
    for name, noise in TAILS.items():
        policy, quiet = with_tails(inside, noise, logs, 2500, 20)
        doubts = sum(drift_of(policy, quiet, r).doubt is not None for r in range(logs))
        played = with_tails(inside, noise, logs, 2500, 22, plays=True)[1].happened[:, 1]
        changed = [
            parts(with_tails(inside, noise, logs // 5, 1500, 21, unit)[1].happened[:, 1])
            for unit in (1.0, 99.0)
        ]
        cells = [(quiet.happened[:, 1] > 0).sum(), (played > 0).sum(), doubts, *changed]
        print(f"| {name} | {' | '.join(map(str, cells))} |", flush=True)
    print("\n| prices | quiet: 0, 1, 2+ alarms | / 99 | one change: 0, 1, 2+ | / 99 |\n|---|---|---|---|---|")
    for plays in (False, True):
        cells = [
            parts(with_prices(inside, logs // 5, change, 23, unit, plays))
            for change in (3000, 1500)
            for unit in (1.0, 1.0 / 99.0)
        ]
        print(f"| {'of the policy' if plays else 'drawn evenly'} | {' | '.join(cells)} |", flush=True)


def click_order(logs: int = 40, count: int = 1000, orders: int = 5) -> None:
    """How far (c, θ̂) moves where clicks of three days come up to six hours late, or in any order."""
    day, own = 86400.0, np.zeros(count, dtype=np.int64)
    policy = Forgetful(LogisticMED(norm_bound=3.0), half_lives=("inf", "20d", "9d"))
    moved: dict[str, list[float]] = {"up to six hours late": [], "in any order": []}
    for seed in range(logs):
        rng = np.random.default_rng(seed)
        arms = rng.standard_normal((ARMS, DIM))
        arms /= np.linalg.norm(arms, axis=1)[:, None]
        theta = rng.standard_normal(DIM)
        theta *= 2.0 / np.linalg.norm(theta)
        rows = arms[rng.integers(ARMS, size=count)]
        paid = (rng.random(count) < 1.0 / (1.0 + np.exp(1.0 - rows @ theta))).astype(float)
        times = 1.7e9 + np.sort(rng.random(count)) * 3.0 * day
        found = {}
        late = [times + rng.random(count) * day / 4.0 for _ in range(orders)]
        keys = [("", times), *(("up to six hours late", one) for one in late)]
        keys += [("in any order", rng.random(count)) for _ in range(orders)]
        for name, key in keys:
            order, state = np.argsort(key, kind="stable"), policy.start(1, DIM)
            policy.learn_at(state, rows[order], paid[order], own, times[order])
            estimates = np.column_stack([state.intercept[0, :-1], state.arrays()["theta"][0, :-1]])
            if not name:
                diagonal = np.diagonal(state.inverse[0, :-1], axis1=1, axis2=2)
                spread = np.sqrt(np.column_stack([state.corner[0, :-1], diagonal]))
                found = {"estimates": estimates, "spread": spread}
            else:
                off = np.abs(estimates - found["estimates"]) / found["spread"]
                moved[name] += off.max(axis=1).tolist()
    print("\n| clicks come | moved, median | 95 % | at most (standard deviations of the worst coordinate) |")
    print("|---|---|---|---|")
    for name, off_all in moved.items():
        middle, high = np.quantile(off_all, [0.5, 0.95])
        print(f"| {name} | {middle:.2f} | {high:.2f} | {max(off_all):.2f} |")


def click_regret(trials: int, horizon: int = 3000) -> None:
    never = LogisticMED(label="never forgets")
    ours = Forgetful(LogisticMED(), label="Forgetful")
    fixed = [Forgetful(LogisticMED(), half_lives=(H,), label=f"H = {H}") for H in (1000, 200, 50)]
    policies = [ours, never, *fixed]
    worlds = {
        "nothing changes": (Clicks(rate=0.2, norm=3.0), 1.2),
        "one change": (ClicksChange(rate=0.2, norm=3.0, at=horizon // 2), 0.7),
    }
    rng = np.random.default_rng(0)
    print("\n| world | policy | regret in clicks ± s.e. | Forgetful's over it (95 %) | rule |")
    print("|---|---|---|---|---|")
    for name, (world, most) in worlds.items():
        found = simulate(policies, world, horizon=horizon, trials=trials, seed=1, progress=False)
        mine = found.final(ours.name)
        for policy in policies:
            final = found.final(policy.name)
            drawn = rng.integers(trials, size=(2000, trials))
            low, high = np.quantile(mine[drawn].mean(axis=1) / final[drawn].mean(axis=1), [0.025, 0.975])
            rule = f"at most {most}" if policy is never else ""
            over = "" if policy is ours else f"{mine.mean() / final.mean():.2f} ({low:.2f} to {high:.2f})"
            error = final.std(ddof=1) / np.sqrt(trials)
            print(
                f"| {name} | {policy.name} | {final.mean():.1f} ± {error:.1f} | {over} | {rule} |", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=int, default=2000, help="quiet logs; a quarter as many with a change")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu on a busy machine")
    parser.add_argument("--trials", type=int, default=100, help="of clicks")
    parser.add_argument(
        "--only", choices=("speed", "accuracy", "alarms", "tails", "click-alarms", "click-order", "clicks")
    )
    args = parser.parse_args()
    if args.only in (None, "speed"):
        speed(time.thread_time if args.clock == "cpu" else time.perf_counter)
    if args.only in (None, "accuracy"):
        accuracy()
    if args.only in (None, "alarms"):
        alarms(args.logs, clicks=False)
    if args.only in (None, "tails"):
        tails(args.logs // 4)
    if args.only in (None, "click-alarms"):
        alarms(args.logs, clicks=True)
    if args.only in (None, "click-order"):
        click_order()
    if args.only in (None, "clicks"):
        click_regret(args.trials)


if __name__ == "__main__":
    main()
