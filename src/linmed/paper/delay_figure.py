"""Delayed rewards in three versions: what the claim about delays rests on."""

from matplotlib.figure import Figure

from linmed.paper.delayed_rewards import DELAYS, OWN, Version
from linmed.paper.drawing import Drawing, legend
from linmed.paper.experiment import Findings, Key
from linmed.paper.regret_figures import against

VERSIONS: dict[Version, str] = {
    "text": "as the text has it",
    "copied": "as run, features copied",
    "overwritten": "as run, features overwritten",
}


def versions(found: Findings) -> Drawing:
    """Final regret against the delay, a panel for every version."""
    ran: dict[Version, dict[int, Key]] = {
        version: {D: (D,) if version == OWN[found.variant] else (version, D) for D in DELAYS}
        for version in VERSIONS
    }
    figure = Figure(figsize=(3.5 * len(ran), 3.9), layout="constrained")
    axes = figure.subplots(1, len(ran), sharey=True)
    for ax, (version, keys) in zip(axes, ran.items(), strict=True):
        against(ax, found, keys)
        ax.set_title(VERSIONS[version])
        ax.set_xticks(list(keys))
        ax.margins(x=0.12)
        ax.set_xlabel("delay D")
    axes[0].set_ylabel(f"regret after {found.horizon:,} rounds")
    legend(figure, axes[0])
    return Drawing(
        f"{found.experiment.name}-versions",
        f"{found.experiment.title}: final regret against the delay. In the public code arms are divided by "
        "their smallest norm, and the waiting rewards of OFUL and LinTS are learnt with features that the "
        "next round has overwritten.",
        figure,
    )
