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
