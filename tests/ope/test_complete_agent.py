"""A saved agent and its log: fallbacks get the probability that they had, however the catalogue changed."""

import json

import numpy as np
import pytest

from linmed import Agent, CatalogueMED, LinMED, cli
from linmed.features import Number
from linmed.features.usearch import USearch
from linmed.ope import DecisionLog, complete, evaluate
from linmed.validation import BadValue
from tests.features.items import add, of_rows, on_sphere

pytestmark = pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")

CONTEXT = [Number("age", scale=(0, 1)), Number("hour", settle_after=30)]  # of which one scale is learned


def made(place, items=60, context=CONTEXT, policy=None, seed=7, **options):
    catalogue = of_rows(on_sphere(np.random.default_rng(0), items, 3))
    policy = policy or CatalogueMED(sigma=0.05, alpha_emp=0.6)
    return Agent(policy, catalogue=catalogue, context=context, seed=seed, log=place, **options)


class Played:
    """Plays an agent and remembers how probable by all routes each item was that it played."""

    def __init__(self, agent, seed=1, late=0):
        self.agent, self.late = agent, late
        self.rng = np.random.default_rng(seed)
        self.chances, self.waiting = [], []

    def __call__(self, rounds):
        agent = self.agent
        for _ in range(rounds):
            told = {"age": self.rng.standard_normal(), "hour": 10 + 3 * self.rng.standard_normal()}
            context = told if agent.features.context_width else None
            law = dict(zip(agent.items, agent.probabilities(context=context), strict=True))
            decision = agent.decide(context=context)
            self.chances.append(law[decision.item])
            self.waiting.append(decision)
            if len(self.waiting) > self.late:
                oldest = self.waiting.pop(self.rng.integers(len(self.waiting)))
                agent.learn(oldest, float(self.rng.random() < 0.5 + 0.4 * oldest.features[0]))
        return self


def saved(agent, tmp_path, name="agent.npz"):
    agent.save(tmp_path / name)
    agent.close()
    return Agent.load(tmp_path / name)


def fallbacks(log):
    return log.table(["fallback"])["fallback"].to_pylist().count(True)


def changing(agent, play):
    """Plays while items come, change and go: a few, and so many that the coreset is made anew."""
    play(60)
    agent.catalogue.remove([3, 5])
    play(40)
    add(agent.catalogue, on_sphere(np.random.default_rng(3), 20, 3))
    play(40)
    best = max(agent.items, key=lambda item: agent.probability_of(item, {"age": 0.0, "hour": 9.0}))
    agent.catalogue.remove(best)
    agent.catalogue.change({"id": 7, "features": [0.0, 1.0, 0.0]})
    play(60)


@pytest.mark.parametrize("late", [0, 6])
def test_every_decision_gets_the_probability_that_it_had(tmp_path, late):
    agent = made(tmp_path / "log")
    play = Played(agent, late=late)
    changing(agent, play)
    assert len(agent.sampler.earlier) >= 2
    again = saved(agent, tmp_path)
    log = DecisionLog.open(tmp_path / "log")
    assert fallbacks(log) > 10
    done = complete(log, again)
    assert fallbacks(done) == 0
    np.testing.assert_allclose(done.table()["probability"].to_numpy(), play.chances, rtol=1e-9)
    kept = done.save(tmp_path / "completed")
    np.testing.assert_array_equal(kept.table()["probability"], done.table()["probability"])


def test_an_agent_that_was_loaded_on_the_way_continues_its_log(tmp_path):
    agent = made(tmp_path / "log")
    play = Played(agent)
    play(80)
    agent.save(tmp_path / "agent.npz")
    agent.close()
    play.agent = agent = Agent.load(tmp_path / "agent.npz", log=tmp_path / "log")
    changing(agent, play)
    log = complete(tmp_path / "log", saved(agent, tmp_path))
    np.testing.assert_allclose(log.table()["probability"].to_numpy(), play.chances, rtol=1e-9)


def test_no_index_is_needed(tmp_path):
    """A graph answers approximately, and is not saved with the agent: the log has its answer."""
    agent = made(tmp_path / "log", items=300, index=USearch(connectivity=2, construction=2, search=1))
    play = Played(agent)(150)
    log = complete(tmp_path / "log", saved(agent, tmp_path))
    np.testing.assert_allclose(log.table()["probability"].to_numpy(), play.chances, rtol=1e-9)


def test_without_a_context_one_law_serves_all_decisions_of_a_state(tmp_path, monkeypatch):
    agent = made(tmp_path / "log", context=None)
    play = Played(agent, late=3)
    play(30)
    waiting = [agent.decide() for _ in range(40)]
    again = saved(agent, tmp_path)
    asked = []
    law_at = again.sampler.law_at
    monkeypatch.setattr(again.sampler, "law_at", lambda *given: asked.append(given) or law_at(*given))
    log = complete(tmp_path / "log", again)
    table = log.table(["probability", "version"])
    np.testing.assert_allclose(table["probability"].to_numpy()[:30], play.chances, rtol=1e-9)
    assert len(asked) == len(set(table["version"].to_pylist())) < 30 + len(waiting)
    log.table()
    assert len(asked) == len(set(table["version"].to_pylist()))  # nobody is asked twice


def test_decisions_after_the_agent_was_saved_stay_as_they_are_where_it_does_not_know_the_catalogue(tmp_path):
    agent = made(tmp_path / "log")
    play = Played(agent)
    play(80)
    agent.save(tmp_path / "agent.npz")
    play(40)  # among the same catalogue: known
    agent.catalogue.remove(2)
    play(60)
    agent.close()
    log = DecisionLog.open(tmp_path / "log")
    before, after = log.table(), complete(log, Agent.load(tmp_path / "agent.npz")).table()
    np.testing.assert_allclose(after["probability"].to_numpy()[:120], play.chances[:120], rtol=1e-9)
    assert after.slice(120).equals(before.slice(120))
    assert before["fallback"].to_pylist()[120:].count(True) > 0


def test_a_log_that_lacks_what_tells_the_law_is_named(tmp_path):
    agent = made(tmp_path / "log")
    Played(agent)(60)
    agent.catalogue.remove(2)
    again = saved(agent, tmp_path)
    log = DecisionLog.open(tmp_path / "log")
    for lost in ("best", "catalogue_version", "context"):
        old = DecisionLog.from_table(log.table().drop_columns([lost]))
        with pytest.raises(BadValue, match=f"needs the column '{lost}'.*logs that agents write have it"):
            complete(old, again)
        assert evaluate(old, "uniform", "ipw")["n"][0].as_py() == 60
    # An old file of a catalogue has its last version alone.
    meta, arrays = again.catalogue.arrays()
    del meta["history"]
    again.sampler.catalogue = type(again.catalogue).from_arrays(meta, arrays)
    assert again.sampler.catalogue.since == 1
    assert complete(log, again).table().equals(log.table())


def refused(log, agent, match):
    with pytest.raises(BadValue, match=match):
        complete(log, agent).table()


def test_who_did_not_write_the_log_is_refused(tmp_path):
    agent = made(tmp_path / "log")
    play = Played(agent)(100)
    assert play.chances
    again = saved(agent, tmp_path)
    log = DecisionLog.open(tmp_path / "log")
    other = made(tmp_path / "other", policy=CatalogueMED(sigma=0.7, alpha_emp=0.6))
    Played(other)(100)
    refused(log, other, r"agent must be the one that wrote the log: item \d+ in row \d+")
    refused(
        log, made(None, policy=LinMED()), "agent must be an agent of CatalogueMED with a catalogue, got one"
    )
    refused(log[:60], again, r"learned from 100 rewards and .* has 60: it began before this log")
    refused(log[60:], again, r"learned from 100 rewards and .* has 40: it began before this log")
    # Rewards that came in another order made other states.
    table = log.table()
    place = table.column_names.index("reward_time")
    turned = table.set_column(place, "reward_time", table["reward_time"].take(list(range(99, -1, -1))))
    refused(DecisionLog.from_table(turned), again, "agent must be the one that wrote the log")
    # In one row another context than the one it was decided in.
    rows, contexts = table.to_pylist(), table["context"].to_pylist()
    row = max(i for i, one in enumerate(rows) if not one["fallback"] and one["arm"] != one["best"])
    contexts[row] = [contexts[row][0] + 0.5, contexts[row][1]]
    moved = table.set_column(table.column_names.index("context"), table.schema.field("context"), [contexts])
    refused(DecisionLog.from_table(moved), again, f"item {rows[row]['arm']} in row {row} of table was logged")


def test_a_warm_start_is_not_in_the_log(tmp_path):
    agent = made(tmp_path / "log")
    agent.observe(np.ones((5, agent.dim)), np.ones(5))
    Played(agent)(20)
    refused(
        tmp_path / "log", saved(agent, tmp_path), "learned from 25 rewards and .* has 20: it began before"
    )


# The command


def run(capsys, *arguments):
    status = cli.main([str(one) for one in arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_the_command_completes_a_log(tmp_path, capsys):
    agent = made(tmp_path / "log")
    changing(agent, Played(agent))
    agent.save(tmp_path / "agent.npz")
    agent.close()
    log, file = tmp_path / "log", tmp_path / "agent.npz"
    status, out, _ = run(
        capsys, "ope", log, "--target", "uniform", "--complete", file, "--json", "--diagnose"
    )
    assert status == 0
    told = json.loads(out)
    here = evaluate(complete(log, Agent.load(file)), "uniform").to_pylist()
    assert told["fallbacks"] == 0
    assert [row["estimate"] for row in told["results"]] == [row["estimate"] for row in here]
    status, out, _ = run(capsys, "ope", log, "--target", "uniform", "--complete", file)
    count = fallbacks(DecisionLog.open(log))
    assert f"{count:,} of {count:,} fallbacks have a weight" in " ".join(out.split())


def test_the_command_says_what_cannot_be_completed(tmp_path, capsys):
    agent = made(tmp_path / "log")
    play = Played(agent)
    play(60)
    agent.save(tmp_path / "agent.npz")
    agent.catalogue.remove(2)
    play(80)
    agent.close()
    log = tmp_path / "log"
    status, out, _ = run(capsys, "ope", log, "--complete", tmp_path / "agent.npz")
    assert status == 0
    assert "the others were decided among a catalogue that it does not know" in " ".join(out.split())
    status, _, error = run(capsys, "ope", log, "--complete", tmp_path / "nobody.npz")
    assert status == 2
    assert "--complete must name a file that agent.save wrote" in error
    with Agent(LinMED(), dim=2, seed=1, log=tmp_path / "plain") as other:
        other.learn(other.decide(np.eye(2)), 1.0)
        other.save(tmp_path / "other.npz")
    status, _, error = run(capsys, "ope", tmp_path / "plain", "--complete", tmp_path / "other.npz")
    assert status == 2
    assert "agent must be an agent of CatalogueMED with a catalogue" in error
