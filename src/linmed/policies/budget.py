"""A budget per decision: what arms consume is priced, and the price follows what is spent."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.policies.base import Choice, Noise, Policy, Properties, State, entries, parameter
from linmed.policies.limits import Limits
from linmed.policies.worth import WORTH, Worth
from linmed.policies.wrapper import Around
from linmed.validation import BadValue, Bools, Floats, Ints

GAIN = 0.05
"""By how much the price grows, in proportion, for every per_decision that is spent too much."""
HORIZON = 100.0
"""In how many decisions a debt makes the price grow as much again."""
BOUNDS = 1e-3, 1e2
"""Least and largest price, in scale / per_decision."""
ALLOWANCE = 50.0
"""How much a hard budget may be overdrawn by default, in per_decision."""


class BudgetState(State):
    """The state of the base policy, and what was spent: a base policy reads it as its own."""

    __slots__ = ("base", "price", "rounds", "spent")

    def __init__(self, base: Any, rounds: Ints, spent: Floats, price: Floats) -> None:
        self.base, self.rounds, self.spent, self.price = base, rounds, spent, price

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "base":
            raise AttributeError(name)
        return getattr(self.base, name)

    def __getitem__(self, places: Any) -> Any:
        return self.base[places]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.base)

    @property
    def dim(self) -> int:
        """Numbers of an arm, without its value and cost."""
        return int(self.base.dim)

    def parts(self) -> tuple[NDArray[Any], ...]:
        """List the arrays of the base policy as the core takes them."""
        parts: tuple[NDArray[Any], ...] = self.base.parts()
        return parts

    def _own(self) -> dict[str, NDArray[Any]]:
        return {"budget_rounds": self.rounds, "budget_spent": self.spent, "budget_price": self.price}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays, without a copy."""
        return {**self.base.arrays(), **self._own()}

    def copy(self) -> Self:
        """Make an independent copy."""
        return type(self)(self.base.copy(), *(array.copy() for array in self._own().values()))

    def limits(self) -> dict[str, tuple[float, float]]:
        """Give the limits of the base policy's arrays; nothing spent or priced is negative."""
        own = {"budget_rounds": (0, 2**53), "budget_spent": (0.0, 1e300), "budget_price": (0.0, 1e300)}
        return {**self.base.limits(), **own}

    def restore(self, arrays: Any) -> None:
        """Overwrite every array in place; the base policy's as it does."""
        own = self._own()
        theirs = {name: array for name, array in arrays.items() if name not in own}
        if len(theirs) != len(arrays) - len(own):
            raise ValueError(f"state arrays must have {sorted(own)}, got {sorted(arrays)}")
        limits = self.limits()
        for name, array in own.items():
            low, high = limits[name]
            new = arrays[name]
            if new.shape != array.shape or new.dtype != array.dtype:
                raise ValueError(f"state array {name!r} must be {array.dtype} of shape {array.shape}")
            if not ((new >= low) & (new <= high)).all():
                raise ValueError(f"state array {name!r} must hold numbers from {low:g} to {high:g}")
        self.base.restore(theirs)
        for name, array in own.items():
            array[...] = arrays[name]


class Account(NamedTuple):
    """What was spent of a budget so far. As text it is a sentence.

    >>> print(Account(spent=0.03, allowed=0.05, price=12.5, decisions=100))
    Spent 0.03 of 0.05 (60 %) in 100 decisions; one more unit of budget would earn about 12.5 in reward.
    """

    spent: float
    """What all decisions consumed."""
    allowed: float
    """per_decision times the number of decisions."""
    price: float
    """λ, the shadow price: the reward that a unit of budget has to earn to be spent."""
    decisions: int
    """Decisions so far."""

    def __str__(self) -> str:
        share = f" ({100.0 * self.spent / self.allowed:.3g} %)" if self.allowed else ""
        count = f"{self.decisions} decision{'s' * (self.decisions != 1)}"
        return (
            f"Spent {self.spent:.6g} of {self.allowed:.6g}{share} in {count}; one more unit of budget would "
            f"earn about {self.price:.3g} in reward."
        )


@dataclass(frozen=True, kw_only=True)
class Budget(Around):
    """Spend `per_decision` on average: decide by value · reward − λ · consumption, and let λ follow.

    What an arm consumes is its cost, which then counts by λ alone: `agent.decide(arms, costs=…)`. With
    `consumption=` apart from it, costs count in full beside λ · consumption. λ is known before the draw, so
    probabilities are exact. After each decision, with κ what it consumed and D = spent / per_decision −
    decisions, λ is multiplied by 1 + x, or for x < 0 by 1 / (1 − x):

        x = 0.05 (κ / per_decision − 1) + 0.0005 D,   each at most 1 in size

    `scale` is how much rewards differ: λ starts at scale / per_decision, and stays within 0.001 and 100 times
    that. `hard` leaves out arms that would overdraw per_decision · decisions + `allowance`, which is 50
    per_decision by default.

    >>> from linmed import Agent, Budget, LinMED
    >>> agent = Agent(Budget(LinMED(sigma=0.1), per_decision=0.01), dim=2, seed=7)
    >>> decision = agent.decide([[1.0, 0.0], [0.0, 1.0]], costs=[0.001, 0.05])
    >>> agent.learn(decision, 0.7)
    >>> print(agent.budget)
    Spent 0.001 of 0.01 (10 %) in 1 decision; one more unit of budget would earn about 95.7 in reward.

    An agent calls `spend` once a decision stands, and `correct_spending` where more or less was consumed:

    >>> import numpy as np
    >>> from linmed.policies.worth import Worth
    >>> policy = agent.policy
    >>> state = policy.start(replicas=1, dim=2)
    >>> policy.spend(state, np.array([0.05]))
    >>> policy.correct_spending(state, -0.03)
    >>> round(policy.account(state).spent, 6), policy.worth(state, Worth(None, 0.001), count=1).costs.round(3)
    (0.02, array([0.105]))

    `base` is the policy that learns, and `label` that of every `Policy`.

    >>> policy.base.sigma, policy.hard
    (0.1, False)
    """

    per_decision: float = parameter(1.0, validation.positive)
    """b: what a decision may consume on average."""
    hard: bool = parameter(False, validation.flag)
    """Whether arms that would overdraw are left out."""
    scale: float = parameter(1.0, validation.positive)
    """How much rewards differ."""
    allowance: float | None = parameter(None, validation.between, 0.0, validation.LARGEST)
    """By how much a hard budget may be overdrawn."""

    properties: ClassVar[Properties] = Properties(
        reference="linmed, docs/costs.md",
        minimax="—",
        instance="—",
        computable="that of the base policy",
        all_arms="as the base policy (none that overdraws a hard budget)",
    )
    takes_worth = Around.takes_worth

    def __post_init__(self) -> None:
        super().__post_init__()
        base = self.base
        if not base.takes_worth:
            text = f"base must be a policy that takes costs: {base.without_worth}"
            raise BadValue("base", f"{text}, got {base.name}")
        if base.capabilities.by_route:
            text = "routes among a catalogue know no costs, LinMED looks at every item"
            raise BadValue("base", f"base must be LinMED(…) or GLMMED(…): {text}, got {base.name}")
        if budget_of(base) is not None:
            raise BadValue("base", f"base must have no budget, got {base.name}")
        if self.hard and isinstance(base, Limits):
            text = "hard leaves arms out, and limits keep them in: only one of them can hold"
            raise BadValue("hard", f"{text}, got {base.name}")
        if self.allowance is not None and not self.hard:
            raise BadValue("allowance", "allowance goes with hard=True: a soft budget leaves no arm out")

    # ---- what the base policy says, of whose state this is a part

    law_in_core: ClassVar[bool] = False
    compiled_rounds: ClassVar[bool] = False

    @property
    def by_item(self) -> bool:  # type: ignore[override]
        """Whether the base policy names items."""
        return self.base.by_item

    def among(self, ids: Any) -> "Budget":
        """Make the policy whose base policy decides among these items."""
        return replace(self, base=self.base.among(ids))

    def require_items(self, ids: Any) -> None:
        """Raise where the base policy names an item that is not there."""
        self.base.require_items(ids)

    @property
    def noise(self) -> Noise:  # type: ignore[override]
        """That of the base policy; uniforms where arms may be left out."""
        return "uniform" if self.hard else self.base.noise

    def noise_size(self, dim: int) -> int:
        """As many as the base policy; one where arms may be left out."""
        return 1 if self.hard else self.base.noise_size(dim)

    def draw_noise(self, rng: np.random.Generator, shape: tuple[int, ...], dim: int) -> Floats:
        """Draw what the base policy needs, or one uniform."""
        return super().draw_noise(rng, shape, dim) if self.hard else self.base.draw_noise(rng, shape, dim)

    @property
    def scale_free(self) -> bool:
        """No: `scale` would have to change, too."""
        return False

    def with_delta(self, delta: float) -> Policy:
        """Make the base policy with this δ."""
        return self.base.with_delta(delta)

    def start(self, replicas: int, dim: int) -> BudgetState:
        """Begin with nothing spent."""
        price = np.full(replicas, self.scale / self.per_decision)
        zeros = np.zeros(replicas, dtype=np.int64), np.zeros(replicas)
        return BudgetState(self.base.start(replicas, dim), *zeros, price)

    def live(self, state: Any) -> Any:
        """Make the core's agent of the base policy, which learns."""
        return self.base.live(state.base)

    # ---- deciding

    def _priced(self, state: Any, arms: Floats) -> Floats:
        """Put λ · consumption into the costs of arms.

        Behind its features an arm has nothing (it consumes nothing), value and cost (it consumes that), or
        value, cost and consumption.
        """
        more = arms.shape[-1] - state.dim
        if more == 0:
            return arms
        shape = np.broadcast_shapes(arms.shape[:1], state.price.shape)
        out = np.array(
            np.broadcast_to(arms[..., : state.dim + WORTH], (*shape, *arms.shape[1:-1], state.dim + WORTH))
        )
        money = state.price[:, None] * arms[..., -1]
        out[..., -1] = money if more == WORTH else arms[..., -2] + money
        return out

    def worth(self, state: Any, worth: Worth, count: int) -> Worth:
        """Price what one decision among so many arms is told, by a state of one replica."""
        shown = self._priced(state, worth.beside(np.zeros((count, state.dim)))[None])[0]
        return Worth(shown[:, -2].copy(), shown[:, -1].copy())

    def choose(self, state: Any, arms: Floats, noise: Floats) -> Ints:
        """Draw one arm per replica."""
        if self.hard:
            return super().choose(state, arms, noise)
        return self.base.choose(state.base, self._priced(state, arms), noise)

    def decide(self, state: Any, arms: Floats, noise: Floats) -> Choice:
        """Draw one arm per replica and say how probable it was; λ stays as it is."""
        if not self.hard:
            return self.base.decide(state.base, self._priced(state, arms), noise)
        log_p, error = self._law(state, arms)
        arm = self._draw(log_p, arms, noise)
        features = self.features(state, arms, arm)
        wrong = None if error is None else entries(error, arm)
        return Choice(arm, entries(log_p, arm), log_p, features, wrong)

    def log_probabilities(self, state: Any, arms: Floats) -> Floats:
        """Compute log p(a) of every arm.  arms (R,K,d + 2) or (1,K,d + 2) → (R,K)."""
        return self._law(state, arms)[0]

    def propensity_error(self, state: Any, arms: Floats) -> Floats | None:
        """Give the errors of the base policy's probabilities."""
        return self._law(state, arms)[1] if self.integrates else None

    def _law(self, state: Any, arms: Floats) -> tuple[Floats, Floats | None]:
        shown, kept = self._priced(state, arms), self._affordable(state, arms)
        if kept is None or kept.all():
            return self._of_base(state, shown)
        log_p, error = np.full(kept.shape, -np.inf), None
        for some in np.unique(kept, axis=0):
            rows, columns = np.flatnonzero((kept == some).all(axis=1)), np.flatnonzero(some)
            law, wrong = self._of_base(state, validation.for_kernels(shown[:, columns]))
            log_p[np.ix_(rows, columns)] = law[rows]
            if wrong is not None:
                error = np.zeros(kept.shape) if error is None else error
                error[np.ix_(rows, columns)] = wrong[rows]
        return log_p, error

    def _of_base(self, state: Any, arms: Floats) -> tuple[Floats, Floats | None]:
        error = self.base.propensity_error(state.base, arms) if self.integrates else None
        return self.base.log_probabilities(state.base, arms), error

    def _affordable(self, state: Any, arms: Floats) -> Bools | None:
        """Tell which arms do not overdraw a hard budget; raise where none is left."""
        if not self.hard or arms.shape[-1] == state.dim:
            return None
        most = ALLOWANCE * self.per_decision if self.allowance is None else self.allowance
        room = self.per_decision * (state.rounds + 1.0) + most - state.spent
        kept: Bools = arms[..., -1] <= room[:, None]
        for row in np.flatnonzero(~kept.any(axis=1)):
            costs, left = arms[row % len(arms), :, -1], room[row % len(room)]
            text = (
                f"costs: every arm would overdraw the budget, of which {max(left, 0.0):g} is left; the "
                f"cheapest, arm {costs.argmin()}, consumes {costs.min():g}"
            )
            raise BadValue("costs", text)
        return kept

    # ---- spending

    def spend(self, state: Any, consumed: Floats) -> None:
        """Count one decision of every replica, which consumed so much (R,), and move λ."""
        state.rounds += 1
        state.spent += consumed
        self._move(state, consumed / self.per_decision - 1.0, state.spent / self.per_decision - state.rounds)

    def correct_spending(self, state: Any, more: float) -> None:
        """Count that an earlier decision consumed so much more, and move λ; for a state of one replica."""
        state.spent[...] = np.maximum(state.spent + more, 0.0)
        self._move(state, np.array([more / self.per_decision]), np.zeros(1))

    def _move(self, state: Any, over: Floats, debt: Floats) -> None:
        step = np.clip(GAIN * over, -1.0, 1.0) + np.clip(GAIN / HORIZON * debt, -1.0, 1.0)
        factor = np.where(step < 0.0, 1.0 / (1.0 + np.abs(step)), 1.0 + np.abs(step))
        start = self.scale / self.per_decision
        state.price[...] = np.clip(state.price * factor, BOUNDS[0] * start, BOUNDS[1] * start)

    def play(self, state: Any, arms: Floats, rewards: Floats, noise: Floats, played: Ints) -> None:
        """Play rounds one after the other; each learns at once, and spends where arms have costs."""
        replicas = np.arange(played.shape[1])
        for t in range(len(played)):
            offered = arms[t] if len(arms) > 1 else arms[0]
            arm = played[t] = self.choose(state, offered, noise[t])
            self.learn(state, self.features(state, offered, arm), rewards[t][replicas, arm], replicas)
            if offered.shape[-1] > state.dim:
                whole = np.broadcast_to(offered, (len(replicas), *offered.shape[1:]))
                self.spend(state, whole[replicas, arm, -1])

    def account(self, state: Any) -> Account:
        """Say what was spent, by a state of one replica."""
        rounds = int(state.rounds[0])
        return Account(float(state.spent[0]), self.per_decision * rounds, float(state.price[0]), rounds)

    def derived_name(self) -> str:
        """Say the base policy and the budget."""
        return f"Budget {self.base.name}{self.describe('base')}"


class Consuming(Worth):
    """Values and costs with a consumption (K,) that is not the costs."""

    consumption: Any = None

    def beside(self, arms: Floats) -> Floats:
        """Arms (K,d) with values, costs and consumption behind their features (K,d + 3)."""
        return np.column_stack([super().beside(arms), consumed_of(self, len(arms))])


def consumed_of(worth: Worth, count: int) -> Floats:
    """What so many arms consume (count,), checked: their costs, unless it is apart from them."""
    if not isinstance(worth, Consuming):
        return worth.both(count)[1]
    try:
        return Worth(None, worth.consumption).both(count)[1]
    except BadValue as error:
        raise BadValue("consumption", str(error).replace("costs", "consumption")) from None


def budget_of(policy: Any) -> Budget | None:
    """Find the budget of a policy, which limits may be around."""
    while isinstance(policy, Around) and not isinstance(policy, Budget):
        policy = policy.base
    return policy if isinstance(policy, Budget) else None
