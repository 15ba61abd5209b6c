"""One round of LinMED in plain NumPy, vectorised over replicas and arms: what the kernels are compared with.

Written for clarity and for arms in general position (they span the space, none is a duplicate). It gives
the same probabilities as the library; `kernels.py` checks that before it measures anything.
"""

import numpy as np


class PlainLinMED:
    """LinMED-90 (version 0, approximate design) with σ = S = λ = 1 and δ = 1/(t+1), in R replicas."""

    def __init__(self, replicas: int, dim: int) -> None:
        self.inverse = np.tile(np.eye(dim), (replicas, 1, 1))  # V⁻¹ (R,d,d)
        self.moment = np.zeros((replicas, dim))  # b
        self.theta = np.zeros((replicas, dim))
        self.logdet = np.zeros(replicas)
        self.count = 0  # t
        self.steps = 0  # greedy additions in the last round, the most over replicas

    def probabilities(self, arms: np.ndarray) -> np.ndarray:
        """p_t (R,K) for arms (R,K,d)."""
        R, K, d = arms.shape
        rows = np.arange(R)
        beta = (np.sqrt(self.logdet + 2.0 * np.log(self.count + 1.0)) + 1.0) ** 2
        best = np.argmax(np.einsum("rkd,rd->rk", arms, self.theta), axis=1)
        diff = arms[rows, best][:, None] - arms
        gaps = np.einsum("rkd,rd->rk", diff, self.theta)
        distances2 = np.einsum("rkd,rkd->rk", diff @ self.inverse, diff)
        leverages = np.einsum("rkd,rkd->rk", arms @ self.inverse, arms)
        with np.errstate(invalid="ignore", divide="ignore"):
            log_f = np.where(gaps > 0.0, -(gaps**2) / (beta[:, None] * distances2), 0.0)
        f = np.exp(log_f)
        if K <= 2 * d:
            q = np.full((R, K), 0.1 / K)
        else:
            q = 0.05 * self.design(np.sqrt(f)[:, :, None] * arms) + 0.05 / K
        q[rows, best] += 0.9
        weight = q * f
        weight /= weight.sum(axis=1, keepdims=True)
        widest = np.argmax(leverages, axis=1)
        exploring = np.flatnonzero(leverages[rows, widest] > 1.0 + 1e-9)
        weight[exploring] *= 0.5
        weight[exploring, widest[exploring]] += 0.5
        return weight

    def design(self, arms: np.ndarray) -> np.ndarray:
        """ApproxDesign (Algorithms 4 and 5) in every replica.  arms (R,K,d) → (R,K)."""
        R, K, d = arms.shape
        rows = np.arange(R)
        count = np.zeros((R, K))
        v = np.zeros((R, d, d))  # orthonormal directions
        for axis in range(d):
            b = -np.einsum("rj,rjd->rd", v[:, :axis, axis], v[:, :axis])
            b[:, axis] += 1.0
            score = np.einsum("rkd,rd->rk", arms, b)
            top, bottom = np.argmax(score, axis=1), np.argmin(score, axis=1)
            count[rows, top] = count[rows, bottom] = 1.0
            new = arms[rows, top] - arms[rows, bottom]
            new -= np.einsum("rj,rjd->rd", np.einsum("rjd,rd->rj", v[:, :axis], new), v[:, :axis])
            v[:, axis] = new / np.linalg.norm(new, axis=1, keepdims=True)
        inverse = np.linalg.inv(np.einsum("rk,rki,rkj->rij", count, arms, arms, optimize=True))
        leverage = np.einsum("rkd,rkd->rk", arms @ inverse, arms)
        self.steps = 0
        while True:
            worst = np.argmax(leverage, axis=1)
            highest = leverage[rows, worst]
            going = np.flatnonzero(highest > 1.0 + 1e-9)
            if not going.size:
                return count / count.sum(axis=1, keepdims=True)
            self.steps += 1
            chosen = worst[going]
            count[going, chosen] += 1.0
            u = np.einsum("rij,rj->ri", inverse[going], arms[going, chosen])
            shrink = 1.0 / (1.0 + highest[going])
            c = np.einsum("rkd,rd->rk", arms[going], u)
            leverage[going] -= c**2 * shrink[:, None]
            inverse[going] -= np.einsum("ri,rj,r->rij", u, u, shrink)

    def decide(self, arms: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """One arm per replica.  arms (R,K,d), uniforms (R,) → (R,)."""
        cumulative = np.cumsum(self.probabilities(arms), axis=1)
        arm = (cumulative <= (uniforms * cumulative[:, -1])[:, None]).sum(axis=1)
        return np.minimum(arm, arms.shape[1] - 1)

    def learn(self, features: np.ndarray, rewards: np.ndarray) -> None:
        """features (R,d), rewards (R,)."""
        u = np.einsum("rij,rj->ri", self.inverse, features)
        leverage = np.einsum("ri,ri->r", u, features)
        self.inverse -= np.einsum("ri,rj,r->rij", u, u, 1.0 / (1.0 + leverage))
        self.moment += features * rewards[:, None]
        self.theta = np.einsum("rij,rj->ri", self.inverse, self.moment)
        self.logdet += np.log1p(leverage)
        self.count += 1
