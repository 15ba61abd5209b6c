"""Rounds one after the other, for any belief, confidence set and rule."""

from functools import cache
from typing import Any

import numpy as np

from linmed.kernels.blocks import block_room, held, pack
from linmed.kernels.compile import borrowed, by_class, keep, kernel, version_of
from linmed.kernels.confidence import LARGEST, squared_radius
from linmed.kernels.experts import replicas, row
from linmed.kernels.ridge import absorb, refresh

TOGETHER = 1 << 16  # numbers of arms and state that are gone through again and again, 512 KiB


@by_class
def workspace(rule, K, d):
    """What the rule needs to decide among K arms in d dimensions, made once."""


@by_class
def decide(rule, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
    """The arm that replica s draws from the p-th set; writes log_p[t, r] unless its T is 0."""


@by_class
def dimension(belief, d):
    """How many of an arm's d numbers are features."""
    return d


@by_class
def rows_moved(belief, K):
    """How many of K arms the rule sees from elsewhere than where they stand: none, or all."""
    return 0


@by_class
def move(belief, r, arms, p, out):
    """Writes the arms of set p to out (1,K,d) as the rule sees them in replica r, where it does so."""


@by_class
def lesson(rule, arms, p, arm, scratch, a):
    """Writes what is learned from the arm just decided for into a (1,d): its features.

    A rule that learns something else of the moment has a `lesson` of its own.
    """
    for k in range(a.shape[1]):
        a[0, k] = arms[p, arm, k]


@cache
def rounds(Belief: type, Set: type, Rule: type) -> Any:
    """The kernel that plays rounds with these three."""
    version = version_of(Belief, Set, Rule)

    @kernel
    def play(state, confidence, rule, arms, rewards, errors, noise, played, log_p):
        """Decide and, where there are rewards, learn.

        state, confidence, rule: the three as plain tuples. arms (T or 1, R or 1, K, d); rewards (T or 1,R,K),
        what each arm would pay, or T = 0; errors (T,R) to be added to that, or T = 0; noise (T,R,·). Writes
        played (T,R) and log_p (T,R,K) unless its T is 0. A state of one replica may decide for R sets, round
        by round. Replicas go through all rounds one after the other, unless every round has a set of its own
        that all share: then as many go together as fit into a cache.
        """
        version  # noqa: B018
        belief, sure, rule_ = Belief(*borrowed(state)), Set(*confidence), Rule(*borrowed(rule))
        arms = borrowed(arms)
        T, R = played.shape
        K, d = arms.shape[2], arms.shape[3]
        owned = workspace(rule_, K, dimension(belief, d))
        scratch = borrowed(owned)
        a, u = np.empty((1, d)), np.empty(d)
        changing, shared, packed = arms.shape[0] > 1, arms.shape[1] == 1, held(K, d)
        together, many = 1, replicas(belief) > 1
        if (changing and shared) or replicas(belief) < R:
            together = min(max(1, TOGETHER // (K * d + 3 * d * d)), R)
        owned_blocks = np.empty((1 if changing or shared else together, block_room(K, d) if packed else 0))
        blocks = borrowed(owned_blocks)
        owned_room = np.empty((1, rows_moved(belief, K), d))
        room = borrowed(owned_room)
        moved = room.shape[1] > 0
        for first in range(0, R, together):
            for t in range(T):
                offered = arms[t if changing else 0]
                for r in range(first, min(first + together, R)):
                    p = 0 if shared else r
                    own = r if many else 0
                    s = row(belief, own)
                    n = 0 if changing or shared else r - first
                    shown, q = offered, p
                    if moved:
                        move(belief, own, offered, p, room)
                        shown, q = room, 0
                    if packed and (moved or ((changing or t == 0) and (r == first or not shared))):
                        pack(shown, q, d, blocks, n)
                    beta = min(squared_radius(sure, belief, s), LARGEST)
                    arm = decide(rule_, belief, s, beta, shown, q, blocks, n, noise, t, r, scratch, log_p)
                    played[t, r] = arm
                    if rewards.shape[0] > 0:
                        lesson(rule_, offered, p, arm, scratch, a)
                        reward = rewards[t if rewards.shape[0] > 1 else 0, r, arm]
                        if errors.shape[0] > 0:
                            reward += errors[t, r]
                        if absorb(belief, own, a, 0, reward, u):
                            refresh(belief, own)
        keep(owned)
        keep(owned_blocks)
        keep(owned_room)

    return play


@cache
def observing(Belief: type) -> Any:
    """The kernel that absorbs observations into this belief."""
    version = version_of(Belief)

    @kernel
    def observe(state, features, rewards, owners):
        """The i-th of m belongs to replica owners[i].  features (m,d), rewards, owners (m,)."""
        version  # noqa: B018
        belief = Belief(*borrowed(state))
        u = np.empty(features.shape[1])
        for i in range(features.shape[0]):
            if absorb(belief, owners[i], features, i, rewards[i], u):
                refresh(belief, owners[i])

    return observe
