"""A real scheduler with two worker processes, one of which dies in the middle."""

import os
import signal

import numpy as np
import pytest

from linmed.environments import UnitBall
from linmed.policies import LinMED, LinMEDNoDesign
from linmed.simulation import simulate

distributed = pytest.importorskip("distributed", reason="needs linmed[cluster]")


@pytest.mark.identity
@pytest.mark.filterwarnings("default")  # the death of a worker makes the scheduler complain, rightly
@pytest.mark.unix
def test_a_killed_worker_changes_nothing():
    arguments = ([LinMED(), LinMEDNoDesign()], UnitBall(), 3000, 24)
    local = simulate(*arguments, progress=False)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    )
    with cluster, distributed.Client(cluster) as client:
        victim = next(iter(client.run(os.getpid).values()))
        executor = client.get_executor()
        finished = 0

        def kill_after_two(future):
            nonlocal finished
            finished += 1
            if finished == 2:
                os.kill(victim, signal.SIGKILL)

        class Watched(type(executor)):  # the same executor; each future tells us when it is done
            def submit(self, *args, **kwargs):
                future = super().submit(*args, **kwargs)
                future.add_done_callback(kill_after_two)
                return future

        executor.__class__ = Watched
        remote = simulate(*arguments, executor=executor, batch=3, progress=False)
        assert finished == 16
        pids = set(client.run(os.getpid).values())
    assert victim not in pids
    for name in local.names:
        np.testing.assert_array_equal(local.regret(name), remote.regret(name))
        np.testing.assert_array_equal(local.pulls(name), remote.pulls(name))
