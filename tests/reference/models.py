"""Models per item, decisions among a catalogue and verdicts once more, as they are defined: plain NumPy.

All zeros are written out, every item is looked at, and nothing is taken closer where squares vanish. `theta`
(d,) and `inverse` (d,d) are an estimate and V⁻¹, `arms` is (K,d), `radius` is √β.
"""

import numpy as np


def written_out(arms, models, shared):
    """[z; e_m ⊗ x] of arms (K, 1 + m + c) whose first column says the number of the model."""
    rows = []
    for number, *features in arms:
        z, x = features[:shared], features[shared:]
        blocks = np.zeros((models, len(x)))
        blocks[int(number)] = x
        rows.append(np.concatenate([z, blocks.ravel()]))
    return np.array(rows)


def log_f(theta, inverse, radius, arms, best):
    """−Δ̂² / (β‖â − a‖²) with Δ̂ = ⟨θ̂, â − a⟩, and 0 where an arm looks no worse than â."""
    found = []
    for arm in arms:
        apart = arms[best] - arm
        gap = theta @ apart
        found.append(-(gap**2) / (radius**2 * (apart @ inverse @ apart)) if gap > 0.0 else 0.0)
    return np.array(found)


def proposal(theta, arms, design, alpha_emp, alpha_opt):
    """q = α_opt·(design) + α_emp·1{â} + the rest for all alike."""
    q = alpha_opt * design + (1.0 - alpha_emp - alpha_opt) / len(arms)
    q[np.argmax(arms @ theta)] += alpha_emp
    return q


def leverages(inverse, arms):
    """‖a‖² in V⁻¹."""
    return np.array([arm @ inverse @ arm for arm in arms])


def linmed(theta, inverse, radius, arms, design, alpha_emp, alpha_opt):
    """p ∝ q f; while some leverage exceeds 1, half of it for the arm of the largest."""
    p = proposal(theta, arms, design, alpha_emp, alpha_opt)
    p *= np.exp(log_f(theta, inverse, radius, arms, int(np.argmax(arms @ theta))))
    p /= p.sum()
    return explored(p, leverages(inverse, arms))


def explored(p, leverage):
    """The law while the event B_t is there: ½ for the arm of largest leverage, ½ by p."""
    if leverage.max() <= 1.0 + 1e-9:
        return p
    p = 0.5 * p
    p[np.argmax(leverage)] += 0.5
    return p


def candidates(theta, inverse, radius, arms):
    """Arms that are not surely worse than â: Δ̂ ≤ √β‖â − a‖."""
    best = arms[np.argmax(arms @ theta)]
    found = []
    for i, arm in enumerate(arms):
        apart = best - arm
        if theta @ apart <= radius * np.sqrt(apart @ inverse @ apart):
            found.append(i)
    return tuple(found)


def margin(theta, inverse, radius, arms):
    """How much better than â another candidate can be, or where there is none, another arm."""
    best = int(np.argmax(arms @ theta))
    left = candidates(theta, inverse, radius, arms)
    others = [i for i in (left if len(left) > 1 else range(len(arms))) if i != best]
    apart = arms[best] - arms[others]
    return max(radius * np.sqrt(x @ inverse @ x) - theta @ x for x in apart)


class FadingModels:
    """Ridge estimates of one half-life, of items and of what they share, from all rewards so far.

    A reward of an item counts 2^(−k/H), k rewards of that item later, or `on_clock` 2^(−age/H) at the time of
    the newest decision that was rewarded; λ is whole at all times. What is shared is regressed on what the
    items' own features leave over: S = λI + Σ q qᵀ/(1 + h), each term weighed as everything is that has one
    half-life for all rewards, and of λ a part is given back to one direction at a time.
    """

    def __init__(self, lam, half_life, shared, own, on_clock=False):
        self.lam, self.half_life, self.on_clock = lam, half_life, on_clock
        self.seen, self.now, self.count, self.logdet = {}, -np.inf, 0.0, 0.0
        self.own, self.f, self.turn = own, 1.0 if on_clock else 2.0 ** (-1.0 / half_life), 0
        self.S, self.b = lam * np.eye(shared), np.zeros(shared)

    def model(self, item, later=0):
        """A and its regressions of rewards and shared features (c,1+m), `later` own rewards from now."""
        rows = self.seen.get(item, [])
        ages = (
            np.array([self.now - time for *_, time in rows]) if self.on_clock else np.arange(len(rows))[::-1]
        )
        weights = 2.0 ** -((ages + later * (not self.on_clock)) / self.half_life)
        x = np.array([x for x, *_ in rows]).reshape(-1, self.own)
        targets = np.array([target for _, target, _ in rows]).reshape(-1, 1 + len(self.b))
        A = self.lam * np.eye(self.own) + (weights[:, None] * x).T @ x
        return A, np.linalg.solve(A, (weights[:, None] * x).T @ targets)

    def look(self, row, later=0):
        """⟨θ̂, a⟩, ‖a‖², the item's share of it, and what its features leave of the shared ones."""
        z, x = row[1 : 1 + len(self.b)], row[1 + len(self.b) :]
        A, outputs = self.model(row[0], later)
        own, q = x @ np.linalg.solve(A, x), z - outputs[:, 1:].T @ x
        common = q @ np.linalg.solve(self.S, q)
        return outputs[:, 0] @ x + q @ np.linalg.solve(self.S, self.b), own + common, own, q

    def learn(self, row, reward, time=0.0):
        """Returns the mean and ‖a‖² with which the reward was foreseen."""
        self.now = max(self.now, time)
        mean, length2, own, q = self.look(row, later=1)
        m = len(self.b)
        z, x = row[1 : 1 + m], row[1 + m :]
        left = reward - self.model(row[0], later=1)[1][:, 0] @ x
        self.seen.setdefault(row[0], []).append((x, np.concatenate([[reward], z]), time))
        if not self.on_clock:
            self.S, self.b = (
                self.f * self.S + np.outer(q, q) / (1.0 + own),
                self.f * self.b + q * left / (1.0 + own),
            )
            if m:
                self.S[self.turn % m, self.turn % m] += m * (1.0 - self.f) * self.lam
            self.turn, self.count = self.turn + 1, self.f * self.count + 1.0
        return mean, length2
