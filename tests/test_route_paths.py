"""After `linmed warm-up` a first decision by route, of an agent or of the service, finds all compiled."""

import subprocess
import sys

import pytest

from linmed import CatalogueMED, LinMED
from linmed.route_paths import walk_routes
from linmed.warm_up import everywhere

PROGRAM = """
import sys, tempfile
from pathlib import Path
import numpy as np
from linmed import Agent, CatalogueMED
from linmed.features import Catalogue, Number
from linmed.kernels.cache import KernelCache
from linmed.serve.bandit import Bandit
from linmed.serve.decisions import Drawer
from linmed.serve.shelf import Catalogue as Shelf
from linmed.warm_up import live, everywhere

policy = eval(sys.argv[1])
if sys.argv[2] == "warm":
    live(policy)
    everywhere(policy)
load, wanted = KernelCache.load_overload, []

def noted(self, signature, context):
    wanted.append(f"{self._py_func.__name__}{signature}")
    return load(self, signature, context)

KernelCache.load_overload = noted
rng = np.random.default_rng(1)
folder = Path(tempfile.mkdtemp())
for precision in (np.float64, np.float32, np.float16):
    rows = rng.standard_normal((300, 5)).astype(precision)
    np.save(folder / "rows.npy", rows)
    for matrix in (rows, np.load(folder / "rows.npy", mmap_mode="r")):
        catalogue = Catalogue(range(300), matrix)
        for columns in ([], [Number("age", scale=(40, 15)), Number("hour", scale=(12, 6))]):
            agent = Agent(policy, catalogue=catalogue, context=columns, seed=7)
            context = {"age": 33.0, "hour": 9.0} if columns else {}
            for _ in range(3):
                agent.learn(agent.decide(context=context), 1.0)
            catalogue.remove(int(agent.items[0]))
            agent.decide_batch(contexts=[context, context])
            agent.probability_of(agent.items[-1], context=context)
items = Shelf.of([str(k) for k in range(300)], rng.standard_normal((300, 5)))
bandit = Bandit(id=0, name="", dim=7, policy=policy, catalogue=items)
bandit.warm_up()
Drawer().draw(bandit, bandit.offer(None, None, [0.3, 0.4], 1000), None, None)
print("\\n".join(wanted))
"""


def wanted(policy: str, how: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, policy, how], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    "policy",
    ["CatalogueMED()", "CatalogueMED(design='optimal')", "CatalogueMED(ridge='learned', sigma='unknown')"],
)
def test_a_first_decision_by_route_finds_its_kernels(policy):
    assert wanted(policy, "warm") == [""]


def test_without_it_the_kernels_of_routes_and_of_the_scan_are_wanted():
    """That the test above can fail."""
    found = {one.partition("(")[0] for one in wanted("CatalogueMED()", "cold")}
    assert {"see", "weigh_items", "settle", "longest", "approx_design"} <= found


def test_a_policy_without_routes_has_none_to_walk():
    assert list(walk_routes(LinMED())) == []
    assert len(list(walk_routes(CatalogueMED()))) == 6
    everywhere(CatalogueMED())
