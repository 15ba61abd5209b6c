"""Play delayed rewards: films for users, whose rewards arrive late."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from linmed.environments import Delayed, MovieLens
from linmed.paper import drawing
from linmed.paper.as_run import FilmsAsRun
from linmed.paper.experiment import Asked, Data, Experiment, Findings, Key, Setting, Size
from linmed.paper.roster import DESIGN, EVEN_START, LINMED, LINMED_START, NO_HALF_STEP, Variant

DELAYS = (0, 10, 20)
OMITTED = "omitted"
"""LinTS-Freq, which the paper leaves out here, in settings of its own."""
Version = Literal["text", "copied", "overwritten"]
"""The text's experiment; that of the public code, but with queues that hold copies of what was played; and
the public code as it is, where OFUL's and LinTS's hold views, overwritten before they are learned from."""
VERSIONS: dict[Version, str] = {
    "text": "as the text has it",
    "copied": "as run, features copied",
    "overwritten": "as run, features overwritten",
}
OWN: dict[Variant, Version] = {"text": "text", "as-run": "overwritten"}
"""What each variant is about."""
NAMES = ("OFUL", "LinTS-Bayes", *LINMED)


class DelayedRewards(Experiment):
    """Of the appendix."""

    name = "delayed-rewards"
    title = "Delayed rewards"
    place = "Appendix"
    about = (
        "Ten films, a random user every round, arm = film ⊗ user (d = 4), a random unit θ*, σ = σ* = 1. "
        "Rewards arrive D rounds late."
    )
    paper, quick, decisive = Size(5_000, 100), Size(5_000, 30), Size(5_000, 200, 12)
    panel = "D"
    differences = (
        "Rewards wait until t mod D = 1 and then arrive together.",
        "10 users, 10 films and θ* are drawn once, for all trials; features are the principal components "
        "among those ten.",
        "The arms of a round are divided by the smallest of their norms: none is shorter than 1, and they "
        "are up to 26 times as long as the policies are told.",
        "What waits for its reward in OFUL's and LinTS's queues is overwritten one round later by the next "
        "user's arms, not divided by anything; LinMED's queue holds copies.",
        NO_HALF_STEP,
        EVEN_START,
        LINMED_START,
        DESIGN,
    )

    def settings(self, asked: Asked) -> list[Setting]:
        """Return one for every delay; beyond the quick scale other versions too, and the omitted LinTS."""
        own = OWN[asked.variant]
        found = [_setting(own, (D,), D, NAMES, asked) for D in DELAYS]
        if asked.scale != "quick":
            others = [version for version in VERSIONS if version != own]
            found += [_setting(version, (version, D), D, NAMES, asked) for version in others for D in DELAYS]
            found += [_setting(own, (OMITTED, D), D, ("LinTS-Freq",), asked) for D in DELAYS]
        return found

    def drawings(self, found: Findings) -> Iterator[drawing.Drawing]:
        """Draw a panel for every delay; and the three versions side by side."""
        yield from drawing.grids(found, dots=True)
        if any(found.has(version, 0) for version in VERSIONS):
            yield _versions(found)

    def notes(self, data: Data) -> tuple[str, ...]:
        """Say whose features they are."""
        if data.movielens is not None:
            return ("Features of the MovieLens 100K films and users.",)
        return (
            "Generated features of the shape of MovieLens 100K, not the real ones: `linmed data "
            "movielens` downloads those, and --movielens or LINMED_ML100K says where they are.",
        )


def _setting(version: Version, key: Key, D: int, names: Sequence[str], asked: Asked) -> Setting:
    """One version with one delay. Only the variant's own is known by the delay alone, and drawn."""
    as_run, path = version != "text", asked.data.movielens
    films = FilmsAsRun(path, sigma=1.0) if as_run else MovieLens(path, arms=10, sigma=1.0)
    late = Delayed(films, rounds=D, mode="batch" if as_run else "constant") if D else films
    asked = asked._replace(variant="as-run" if as_run else "text")
    setting = Setting.of(key, late, names, 1.0, asked, key == (D,))
    if version != "copied":
        return setting
    copying = (
        policy if policy.keeps_copies else replace(policy, keeps_copies=True)  # type: ignore[call-arg]
        for policy in setting.policies
    )
    return replace(setting, policies=tuple(copying))


def _versions(found: Findings) -> drawing.Drawing:
    """Final regret against the delay, a panel for every version."""
    figure, axes = drawing.new(3.5 * len(VERSIONS), 3.9, 1, len(VERSIONS), sharey=True)
    for ax, (version, words) in zip(axes, VERSIONS.items(), strict=True):
        own = version == OWN[found.variant]
        drawing.against(ax, found, {D: (D,) if own else (version, D) for D in DELAYS})
        ax.set_title(words)
        ax.set_xticks(DELAYS)
        ax.margins(x=0.12)
        ax.set_xlabel("delay D")
    axes[0].set_ylabel(f"regret after {found.horizon:,} rounds")
    drawing.legend(figure, axes[0])
    caption = (
        f"{found.experiment.title}: final regret against the delay. In the public code arms are divided by "
        "their smallest norm, and the waiting rewards of OFUL and LinTS are learnt with features that the "
        "next round has overwritten."
    )
    return drawing.Drawing(f"{found.experiment.name}-versions", caption, figure)
