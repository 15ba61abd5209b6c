"""Fallbacks with a probability: by a pass over all items for each state, in every row of the best one."""

import math

import numpy as np
import pytest

from linmed.catalogue_sampler import CatalogueSampler
from linmed.log import LogWriter
from linmed.ope import DecisionLog, OPEWarning, Relearned, by_routes, complete, diagnose, evaluate
from linmed.policies import CatalogueMED
from linmed.validation import BadType, BadValue
from tests.features.items import of_rows, on_sphere
from tests.ope.catalogues import columns, load_study, routed

pytestmark = pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")


class Fixed:
    """The law of `routed`, at every state: the best item takes what is left."""

    def __init__(self, keep=0.8, size=5):
        self.law = np.full(size, 0.4 / size * keep)
        self.law[0] = 1.0 - self.law[1:].sum()
        self.asked = 0

    def probabilities_of(self, version):
        self.asked += 1
        return self.law


def numbered(n, seed, keep=0.8, **more):
    return routed(n, seed, keep, version=np.arange(n) // 10, **more)


def test_every_row_of_the_best_item_has_its_probability_by_all_routes():
    log, laws = numbered(200, 1, keep=0.5), Fixed(0.5)
    done = complete(log, laws)
    table, before = done.table(), log.table()
    assert table["fallback"].to_pylist() == [False] * 200
    np.testing.assert_array_equal(table["probability"].to_numpy(), laws.law[table["arm"].to_numpy()])
    others = before["arm"].to_numpy() > 0
    np.testing.assert_allclose(
        table["probability"].to_numpy()[others], before["probability"].to_numpy()[others], rtol=1e-12
    )
    assert before["fallback"].to_pylist().count(True) > 20
    assert table["reward"].equals(before["reward"])


def test_a_state_is_asked_once_for_its_decisions():
    laws = Fixed()
    complete(numbered(200, 2), laws).table(["probability"])
    assert laws.asked == 20
    complete(numbered(200, 2), laws).table(["arm", "reward"])  # nothing that a law would change
    assert laws.asked == 20


def test_what_is_estimated_is_the_same_with_less_variance():
    """40 logs of 300 decisions: |z| > 4.5 has probability 7e-6 for each of three means."""
    laws, target = Fixed(0.3), {"item-0": 0.8, "item-4": 0.2}
    value = 0.8 * 0.1 + 0.2 * 0.5
    logged, completed, weights = [], [], []
    for seed in range(40):
        log = numbered(300, seed, keep=0.3)
        logged.append(evaluate(log, {"t": target}, "ipw", "none")["estimate"][0].as_py())
        done = complete(log, laws)
        completed.append(evaluate(done, {"t": target}, "ipw", "none")["estimate"][0].as_py())
        weights.append(diagnose(done, target).mean_weight)
    for found, truth in ((logged, value), (completed, value), (weights, 1.0)):
        assert abs(np.mean(found) - truth) < 4.5 * np.std(found, ddof=1) / math.sqrt(40)
    accepted = np.array([0.68, 0.024])
    by_route = 0.64 / accepted[0] + 0.04 / accepted[1]
    by_item = 0.64 / laws.law[0] + 0.04 / laws.law[4]
    assert by_item < by_route


def test_logs_of_a_policy_that_learned(tmp_path):
    """The study's: its states are not of one version for many decisions."""
    study = load_study()
    rng = np.random.default_rng(3)
    world = study.World.drawn(rng, 30, 4)
    played = study.play(world, rng, 4, 60, keep=True)
    for i in range(4):
        log = played.log(i, 30)
        done = complete(log, study.Known(world, played.routes, i))
        for t, row in enumerate(done.table().to_pylist()):
            law = played.routes[t].law(world.items, i)
            assert law.sum() == pytest.approx(1.0, abs=1e-12)
            assert row["probability"] == law[row["arm"]]
    saved = done.save(tmp_path / "saved")
    one, other = (evaluate(found, "uniform", "ipw")["estimate"][0].as_py() for found in (done, saved))
    assert one == other


def test_a_law_of_another_policy_is_refused():
    log = numbered(100, 4, keep=0.5)
    with pytest.raises(
        BadValue, match=r"laws must be those of the policy that wrote the log: item \d in row"
    ):
        complete(log, Fixed(0.4)).table()
    shifted = Fixed(0.5)
    shifted.law = np.roll(shifted.law, 1)  # another item is the best one
    with pytest.raises(BadValue, match="laws must be those of the policy"):
        complete(log, shifted).table()
    short = Fixed(0.5)
    short.law = short.law * 0.9
    with pytest.raises(
        BadValue, match=r"sum one: at version 0 it gave an array of shape \(5,\) with the sum 0.9"
    ):
        complete(log, short).table()
    few = Fixed(0.5, size=1)
    with pytest.raises(BadValue, match=r"by its law has the probability 0"):
        complete(log, few).table()


def test_only_one_item_of_a_state_can_be_the_best():
    rows = columns(20, 5, keep=0.5)
    rows |= {"arm": [0, 3] * 10, "fallback": [True] * 20, "probability": [None] * 20, "version": [0] * 20}
    with pytest.raises(BadValue, match=r"item 3 in row 1 of table was a fallback.* item 0 is the best one"):
        complete(DecisionLog.from_table(rows), Fixed(0.5)).table()


def test_what_cannot_be_completed_is_named():
    with pytest.raises(BadType, match=r"laws must have probabilities_of\(version\)"):
        complete(numbered(5, 6), {})
    with pytest.raises(BadValue, match="completing needs the column 'version'"):
        complete(routed(5, 6), Fixed())
    gap = numbered(5, 6).table()
    gap = gap.set_column(gap.column_names.index("version"), "version", [[0, None, 0, 0, 0]])
    with pytest.raises(BadValue, match="row 1 of table has no version"):
        complete(DecisionLog.from_table(gap), Fixed()).table()


def test_decisions_of_no_catalogue_stay_as_they_are():
    rows = columns(40, 7)
    rows["fallback"] = [one if i < 20 else None for i, one in enumerate(rows["fallback"])]
    rows["probability"] = [one if i < 20 else 0.125 for i, one in enumerate(rows["probability"])]
    rows["version"] = [0] * 40
    table = complete(DecisionLog.from_table(rows), Fixed()).table()
    assert table["probability"].to_pylist()[20:] == [0.125] * 20
    assert table["fallback"].to_pylist() == [False] * 20 + [None] * 20


def test_a_law_in_a_context_is_asked_with_the_logs_columns():
    class Turned:
        columns = ("odd",)

        def probabilities_of(self, version, odd):
            law = np.full(5, 0.4 / 5 * 0.8)
            law[0] = 1.0 - law[1:].sum()
            return law if not odd else law[[4, 1, 2, 3, 0]]

    rows = columns(200, 8)
    odd = np.arange(200) % 2 == 1
    swap = np.array([4, 1, 2, 3, 0])
    rows["arm"] = np.where(odd, swap[rows["arm"]], rows["arm"])
    rows |= {"odd": odd, "version": np.zeros(200, np.int64)}
    done = complete(DecisionLog.from_table(rows), Turned()).table()
    best = done["arm"].to_numpy() == np.where(odd, 4, 0)
    np.testing.assert_allclose(done["probability"].to_numpy()[best], 1.0 - 4 * 0.064)


# Decisions among a catalogue


def play(place, rounds, seed, late=0):
    """A log of `CatalogueMED` by routes; rewards come `late` decisions later, if at all."""
    rng = np.random.default_rng(seed)
    policy, items = CatalogueMED(sigma=0.3), of_rows(on_sphere(np.random.default_rng(0), 40, 3))
    routes, state = CatalogueSampler(policy, items), policy.start(1, 3)
    waiting = []
    with LogWriter(place, flush_rows=32) as writer:
        for t in range(rounds):
            found = routes.decide(state, rng.random(4))
            writer.record(
                t, arm=found.arm, arm_count=40, arm_id=f"shoes-{found.arm}", features=found.features,
                log_probability=getattr(found, "log_probability", None), fallback=found.fallback,
                version=int(state.count[0]), time=1e9 + t,
            )  # fmt: skip
            paid = float(rng.random() < 0.5 + 0.4 * found.features[0])
            waiting.append((t, found.features, paid))
            if len(waiting) > late:
                which, vector, reward = waiting.pop(0)
                writer.reward(which, reward, time=1e9 + t + 0.5)
                policy.learn(state, vector[None], np.array([reward]), np.zeros(1, dtype=np.int64))
    return DecisionLog.open(place), routes


@pytest.mark.parametrize("late", [0, 7])
def test_a_catalogues_log_is_completed_by_learning_it_again(tmp_path, late):
    """The probability of every accepted item that is not the best comes out as it was logged."""
    log, routes = play(tmp_path / "log", 300, 9, late)
    table = log.table()
    assert 3 <= table["fallback"].to_pylist().count(True) <= 60
    laws = Relearned(log, routes.policy, by_routes(routes))
    done = complete(log, laws)
    after = done.table(["probability", "fallback"])
    assert after["fallback"].to_pylist() == [False] * 300
    was, now = (np.nan_to_num(one["probability"].to_numpy().astype(float)) for one in (table, after))
    assert (now >= was * (1.0 - 1e-6)).all()
    again = complete(log, laws).table(["probability"])
    np.testing.assert_allclose(again["probability"].to_numpy(), now, rtol=1e-9)  # read again from the start
    for found in (log, done):
        row = evaluate(found, "uniform", "ipw", missing="skip").to_pylist()[0]
        assert row["n"] == 300 - late
        assert row["lower"] <= row["upper"]


def test_what_cannot_be_learned_again_is_named(tmp_path):
    log, routes = play(tmp_path / "log", 30, 11)
    laws = Relearned(log[:10], routes.policy, by_routes(routes))
    with pytest.raises(
        BadValue, match=r"version 11 cannot be learned again: the policy began with 0 .* log has 10"
    ):
        complete(log, laws).table()
    with pytest.raises(BadValue, match="needs the column 'features'"):
        Relearned(numbered(5, 12), routes.policy, by_routes(routes))


def test_a_completed_log_has_no_fallbacks_to_warn_of(tmp_path):
    log = numbered(2_000, 13, keep=0.05)
    with pytest.warns(OPEWarning) as said:
        evaluate(log, {"all": {"item-0": 0.2, "item-4": 0.8}}, "ipw")
    assert said
    table = evaluate(complete(log, Fixed(0.05)), "item:item-0", "ipw")
    assert int(table.schema.metadata[b"fallbacks"]) == 0
    assert table["effective_n"][0].as_py() > 1_900
