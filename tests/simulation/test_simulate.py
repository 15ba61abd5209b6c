"""simulate: the same numbers however the work is cut, and the right ones."""

import runpy
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from linmed.environments import (
    Block,
    Delayed,
    EndOfOptimism,
    Environment,
    FixedArms,
    LargeGap,
    MovieLens,
    UnitBall,
)
from linmed.policies import LinMED, LinMEDNoDesign, Policy, State
from linmed.policies.per_item import ModelPolicy
from linmed.simulation import checkpoints, processes, simulate
from tests.policies.configurations import DEFAULTS


def late(rng, t, rounds):
    return rng.integers(0, 2 * rounds + 1, size=len(t))


POLICIES = [LinMED(delta=0.01), LinMED(alpha_emp=0.5, alpha_opt=0.25), LinMEDNoDesign()]
ENVIRONMENTS = [
    EndOfOptimism(),
    UnitBall(arms=12, dim=3),
    MovieLens(arms=4),
    Delayed(UnitBall(), rounds=5),
    Delayed(MovieLens(arms=4), rounds=9, mode="batch"),
    Delayed(LargeGap(), rounds=7, mode=late),
]


def assert_same(one, other):
    assert one.names == other.names
    np.testing.assert_array_equal(one.checkpoints, other.checkpoints)
    for name in one.names:
        np.testing.assert_array_equal(one.regret(name), other.regret(name))
        np.testing.assert_array_equal(one.pulls(name), other.pulls(name))


@pytest.mark.identity
@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda e: e.name)
def test_numbers_do_not_depend_on_batch_size_or_workers(environment):
    whole = simulate(POLICIES, environment, 1100, 6, seed=3, batch=6, workers=1, progress=False)
    assert_same(whole, simulate(POLICIES, environment, 1100, 6, seed=3, batch=1, workers=3, progress=False))
    assert_same(whole, simulate(POLICIES, environment, 1100, 6, seed=3, batch=4, workers=2, progress=False))


@pytest.mark.identity
def test_numbers_of_compiled_rounds_do_not_depend_on_batch_size_or_workers():
    # But those for which the first entry of an arm is the number of a model.
    everyone = [
        policy for policy in DEFAULTS if policy.compiled_rounds and not isinstance(policy, ModelPolicy)
    ]
    assert len(everyone) >= len(DEFAULTS) - 3
    # Arms e₁ and e₂, which Maillard sampling takes, too, and rewards 0 and 1.
    arguments = (everyone, LargeGap(noise="bernoulli"), 60, 5)
    whole = simulate(*arguments, batch=5, workers=1, progress=False)
    assert_same(whole, simulate(*arguments, batch=1, workers=3, progress=False))
    assert_same(whole, simulate(*arguments, batch=3, workers=2, progress=False))


@pytest.mark.identity
def test_numbers_do_not_depend_on_the_engine():
    arguments = ([LinMED(), LinMEDNoDesign()], UnitBall(), 300, 4)
    local = simulate(*arguments, progress=False)
    with ThreadPoolExecutor(3) as threads:
        assert_same(local, simulate(*arguments, executor=threads, batch=1, progress=False))
    with processes(2) as pool:
        assert isinstance(pool, ProcessPoolExecutor)
        assert_same(local, simulate(*arguments, executor=pool, batch=2, progress=False))


@pytest.mark.identity
def test_more_trials_or_other_policies_leave_a_trial_as_it_was():
    few = simulate(LinMED(), UnitBall(), 200, 2, progress=False)
    many = simulate([LinMEDNoDesign(), LinMED()], UnitBall(), 200, 5, progress=False)
    np.testing.assert_array_equal(few.regret("LinMED"), many.regret("LinMED")[:2])


@pytest.mark.identity
def test_a_longer_horizon_continues_the_same_trial():
    short = simulate(LinMED(), MovieLens(arms=4), 1000, 2, points=4, progress=False)
    long = simulate(LinMED(), MovieLens(arms=4), 1500, 2, points=3000, progress=False)
    at = np.searchsorted(long.checkpoints, short.checkpoints)
    np.testing.assert_array_equal(short.regret("LinMED"), long.regret("LinMED")[:, at])


def test_another_seed_gives_other_numbers():
    one, two = (simulate(LinMED(), UnitBall(), 100, 2, seed=s, progress=False) for s in (0, 1))
    assert not np.array_equal(one.regret("LinMED"), two.regret("LinMED"))


@dataclass
class Counted(State):
    theta: np.ndarray
    count: np.ndarray

    def arrays(self):
        return {"theta": self.theta, "count": self.count}


@dataclass(frozen=True)
class Scripted(Policy):
    """Plays arm `count % period` and keeps what it was taught, so that a test can look."""

    period: int = 2

    def start(self, replicas, dim):
        self.__dict__["taught"] = []
        self.__dict__["round"] = 0
        return Counted(theta=np.zeros((replicas, dim)), count=np.zeros(replicas, dtype=np.int64))

    def log_probabilities(self, state, arms):
        log_p = np.full((len(state.count), arms.shape[1]), -np.inf)
        log_p[:, self.__dict__["round"] % self.period] = 0.0
        self.__dict__["round"] += 1
        return log_p

    def learn(self, state, features, rewards, replicas):
        for one in zip(replicas.tolist(), features.tolist(), rewards.tolist(), strict=True):
            self.__dict__["taught"].append((self.__dict__["round"], *one))
        np.add.at(state.count, replicas, 1)


def test_regret_pulls_and_rewards_are_what_was_played():
    arms = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.0]]
    policy = Scripted(period=3)
    results = simulate(policy, FixedArms(arms, [1.0, 0.25], sigma=0.0), 9, 1, points=100, progress=False)
    # Gaps 0, 0.75, 0.5 in turn.
    np.testing.assert_allclose(results.regret(policy.name)[0], np.cumsum([0, 0.75, 0.5] * 3))
    np.testing.assert_array_equal(results.pulls(policy.name), [[3, 3, 3]])
    assert [reward for *_, reward in policy.taught] == [1.0, 0.25, 0.5] * 3
    assert [features for _, _, features, _ in policy.taught] == arms * 3


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("constant", [(t + 3, t) for t in range(1, 8)]),  # seen after round t+3; three never arrive
        (
            "batch",
            [
                (1, 1),
                *((4, t) for t in (2, 3, 4)),
                *((7, t) for t in (5, 6, 7)),
                *((10, t) for t in (8, 9, 10)),
            ],
        ),
    ],
)
def test_delayed_rewards_arrive_when_they_should_with_what_was_played(mode, expected):
    arms = np.diag(np.arange(1.0, 11.0))  # round t plays arm t-1, whose reward is t
    policy = Scripted(period=10)
    environment = Delayed(FixedArms(arms, np.ones(10), sigma=0.0), rounds=3, mode=mode)
    simulate(policy, environment, 10, 1, progress=False)
    assert [(seen, reward) for seen, _, _, reward in policy.taught] == expected
    assert all(features == arms[int(reward) - 1].tolist() for _, _, features, reward in policy.taught)


def test_every_policy_of_a_trial_meets_the_same_noise():
    twins = [Scripted(label="one"), Scripted(label="two")]
    simulate(twins, UnitBall(arms=2, dim=2), 50, 3, workers=1, progress=False)
    assert twins[0].taught == twins[1].taught


@dataclass(frozen=True)
class Revealing(Environment):
    """One round a block, whose noise is the generator's first number."""

    block_rounds = 1

    def blocks(self, rng):
        while True:
            yield Block(np.eye(2), np.zeros(2), np.array([rng.random()]))


@dataclass(frozen=True)
class Listening(Scripted):
    """Keeps the noise it was given to decide with."""

    def choose(self, state, arms, noise):
        self.__dict__["heard"] = noise[:, 0].tolist()
        return super().choose(state, arms, noise)


def test_no_seed_of_a_users_draws_the_numbers_of_a_trial():
    """Nor do the children that SeedSequence.spawn makes of it, nor theirs."""
    for seed in range(1001):
        policy = Listening()
        simulate(policy, Revealing(), 1, 2, seed=seed, workers=1, progress=False)
        ours = {reward for *_, reward in policy.taught} | set(policy.heard)
        assert len(ours) == 4
        root = np.random.SeedSequence(seed)
        children = root.spawn(3)
        family = [root, *children, *(grandchild for child in children for grandchild in child.spawn(3))]
        assert not ours & {np.random.default_rng(one).random() for one in family}


@dataclass(frozen=True)
class Careless(Environment):
    """Hands out arms as they come: read-only, in another layout or byte order."""

    kind: str = "read-only"

    def blocks(self, rng):
        arms = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]])
        if self.kind == "read-only":
            arms = np.broadcast_to(arms, arms.shape)
        elif self.kind == "fortran":
            arms = np.asfortranarray(arms)
        elif self.kind == "float32":
            arms = arms.astype(np.float32)
        else:
            arms = arms.astype(">f8")
        while True:
            yield Block(arms, np.array([1.0, 0.0]), rng.standard_normal(self.block_rounds))


@dataclass(frozen=True)
class Particular(LinMED):
    """Plays only what kernels are compiled for."""

    def play(self, state, arms, rewards, noise, played):
        for array in (arms, rewards, noise):
            assert array.dtype == np.float64
            assert array.dtype.isnative
            assert array.flags.c_contiguous
            assert array.flags.writeable
        super().play(state, arms, rewards, noise, played)


@pytest.mark.parametrize("kind", ["read-only", "fortran", "float32", "swapped"])
def test_kernels_see_one_layout_whatever_the_environment_hands_out(kind):
    tidy = simulate(LinMED(), FixedArms([[1, 0, 0], [0, 1, 0.5]], [1, 0, 0]), 50, 2, progress=False)
    careless = simulate(Particular(label="LinMED"), Careless(kind), 50, 2, progress=False)
    np.testing.assert_array_equal(careless.regret("LinMED"), tidy.regret("LinMED"))


def test_checkpoints_are_about_200_even_and_logarithmic_and_end_at_the_horizon():
    for horizon in (1, 2, 7, 1000, 1_000_000):
        marks = checkpoints(horizon)
        assert marks[0] == 1
        assert marks[-1] == horizon
        assert (np.diff(marks) > 0).all()
        assert len(marks) <= 200
    marks = checkpoints(1_000_000)
    assert len(marks) > 180
    assert (marks <= 1000).sum() > 40
    assert np.diff(marks).max() <= 10_000


def test_an_environment_of_ones_own_runs_by_example(capsys, monkeypatch):
    example = Path(__file__).parents[2] / "examples" / "own_environment.py"
    monkeypatch.setattr(sys, "argv", [str(example)])
    names = runpy.run_path(str(example), run_name="__main__")
    assert "LinMED" in capsys.readouterr().out
    results = names["results"]
    assert results.mean("LinMED")[-1] < 0.2 * 2000  # a policy that learns nothing loses about 0.83 a round
    assert_same(
        results,
        simulate(
            [LinMED(sigma=0.3), LinMEDNoDesign(sigma=0.3)],
            names["Seasons"](),
            2000,
            20,
            batch=7,
            progress=False,
        ),
    )


@dataclass(frozen=True)
class Broken(Environment):
    fault: str = ""

    def blocks(self, rng):
        arms, means, noise = np.eye(2), np.zeros(2), np.zeros(self.block_rounds)
        if self.fault == "noise":
            noise = noise[:-1]
        elif self.fault == "means":
            means = np.zeros(3)
        elif self.fault == "nan":
            arms = np.full((2, 2), np.nan)
        elif self.fault == "arms":
            arms = np.zeros((5, 2, 2))
        elif self.fault == "ragged":
            arms = np.eye(int(rng.integers(2, 9)))
            means = np.zeros(len(arms))
        elif self.fault == "huge":
            means = np.array([1e200, 0.0])
        elif self.fault == "complex":
            noise = noise * 1j
        elif self.fault == "masked":
            means = np.ma.masked_array(means, [True, False])
        delays = {
            "early": np.full(len(noise), -1),
            "halves": np.full(len(noise), 0.5),
            "never": np.full(len(noise), 2**63, dtype=np.uint64),
        }.get(self.fault)
        yield Block(arms, means, noise, delays)
        if self.fault == "grows":
            arms, means = np.eye(64), np.zeros(64)
        while self.fault != "ends":
            yield (arms, means, noise) if self.fault == "tuple" else Block(arms, means, noise)

    def rewards(self, means, noise):
        if self.fault == "one row":
            return means
        if self.fault == "scalar":
            return 0.5
        return (means + noise) * (np.nan if self.fault == "nan paid" else 1.0)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("noise", r"Broken.blocks gave noise of shape \(1023,\); block_rounds=1024"),
        ("means", r"Broken.blocks gave means of shape \(3,\) for arms of shape \(2, 2\)"),
        ("nan", r"Broken.blocks: arms\[0, 0, 0\] is nan; every entry must be finite"),
        ("huge", r"Broken.blocks: means\[0, 0\] is 1e\+200; every entry must be finite and at most 1e\+100"),
        ("complex", "Broken.blocks: noise must hold real numbers, got dtype complex128"),
        ("masked", "Broken.blocks: means has 1 masked entries"),
        ("grows", r"arms of shape \(2, 2\) in one block and \(64, 64\) in a later one; K and d must stay"),
        ("ends", "Broken.blocks ended; it must go on for ever"),
        ("tuple", r"Broken.blocks gave tuple; expected Block\(arms, means, noise\)"),
        ("early", "Broken.blocks gave delays that are not whole numbers from 0 to"),
        ("halves", "Broken.blocks gave delays that are not whole numbers from 0 to"),
        ("never", "Broken.blocks gave delays that are not whole numbers from 0 to"),
        ("one row", r"Broken.rewards gave rewards of shape \(1, 8, 2\).* expected \(1024, 8, 2\)"),
        ("scalar", r"Broken.rewards gave rewards of shape \(\).* expected \(1024, 8, 2\)"),
        ("nan paid", r"Broken.rewards: rewards\[0, 0, 0\] is nan"),
        ("arms", r"Broken.blocks gave arms of shape \(5, 2, 2\); expected \(K, d\), or \(1024, K, d\)"),
        ("ragged", r"in one trial and .* in another"),
    ],
)
def test_a_faulty_environment_is_told_what_is_wrong(fault, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        simulate(LinMED(), Broken(fault), 2000, 8, batch=8, progress=False)
    assert any("while simulating" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("fault", ["ends", "one row", "nan paid", "grows"])
def test_a_faulty_environment_is_told_so_where_rounds_are_played_one_by_one(fault):
    with pytest.raises(ValueError, match="Broken"):
        simulate(Scripted(), Delayed(Broken(fault), 2) if fault != "one row" else Broken(fault), 2000, 2)


@dataclass(frozen=True)
class Plain(Environment):
    """A block of lists, in an environment that has an array of its own; rewards late only in the first."""

    table: object = None
    block_rounds = 4

    def blocks(self, rng):
        yield Block([[1, 0], [0, 1]], [1, 0], [0.0] * 4, [3, 2, 1, 3])
        while True:
            yield Block([[1, 0], [0, 1]], [1, 0], [0.0] * 4)


def test_lists_will_do_for_arrays_and_rewards_on_their_way_arrive_in_blocks_without_delays():
    policy = Scripted()
    environment = Plain(np.zeros((3, 2)))
    results = simulate(policy, environment, 8, 1, workers=1, progress=False)
    assert environment.name == "Plain(table of shape (3, 2))"
    assert results.environment.to_dict() == {"environment": "Plain", "table": [[0.0, 0.0]] * 3}
    assert len(policy.taught) == 8


def test_a_block_without_rounds_is_refused():
    empty = type("Empty", (Plain,), {"block_rounds": 0})
    with pytest.raises(ValueError, match="block_rounds must be at least 1"):
        simulate(LinMED(), empty(), 8, 1, progress=False)


@pytest.mark.parametrize("arguments", [(0,), (-5,), (2.5,), (10**20,), (10, 0), (10, 1.5)])
def test_checkpoints_of_no_horizon_are_refused(arguments):
    with pytest.raises((ValueError, TypeError), match=r"horizon must|count must"):
        checkpoints(*arguments)


def test_the_blocks_of_many_films_are_short():
    block = next(MovieLens(arms=300).blocks(np.random.default_rng(0)))
    assert block.arms.nbytes <= 1 << 19
    assert MovieLens(arms=10).block_rounds == 1024


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policies": []}, "policies is empty"),
        ({"policies": [LinMED(), LinMED()]}, "2 policies are named"),
        ({"horizon": 0}, "horizon must be at least 1"),
        ({"trials": 0}, "trials must be at least 1"),
        ({"trials": 10**20}, "trials must lie in"),
        ({"horizon": 10**20}, "horizon must lie in"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"points": 1}, "points must be at least 2"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {
        "policies": [LinMED()],
        "environment": LargeGap(),
        "horizon": 5,
        "trials": 1,
        "progress": False,
    }
    with pytest.raises(ValueError, match=message):
        simulate(**{**arguments, **change})


def test_wrong_types_are_named():
    with pytest.raises(TypeError, match="policies must hold policies, got 'LinMED'"):
        simulate(["LinMED"], LargeGap(), 5, 1)
    with pytest.raises(TypeError, match="environment must be an Environment"):
        simulate(LinMED(), "LargeGap", 5, 1)
    with pytest.raises(TypeError, match=r"executor must be a concurrent\.futures\.Executor"):
        simulate(LinMED(), LargeGap(), 5, 1, executor="threads")
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="workers or an executor"):
        simulate(LinMED(), LargeGap(), 5, 1, executor=pool, workers=2)
