"""Films for users, whose rewards arrive late."""

from collections.abc import Iterator
from pathlib import Path

from linmed.checks import Floats
from linmed.environments import Delayed, MovieLens
from linmed.experiments.claims import CLOSE, Between, Claim, Measure, Part, Sample, final, of
from linmed.experiments.differences import FIRST_ROUND, NO_HALF_STEP
from linmed.experiments.experiment import Experiment, Findings, Setting, Size
from linmed.experiments.lineup import LINMED, Variant
from linmed.experiments.statistics import Estimate, mean

DELAYS = (0, 10, 20)


class DelayedRewards(Experiment):
    """Of the appendix."""

    name = "delayed-rewards"
    title = "Delayed rewards"
    place = "Appendix"
    about = (
        "Ten films, a random user every round, arm = film ⊗ user (d = 4), a random unit θ*, σ = σ* = 1. "
        "Rewards arrive D rounds late."
    )
    paper, quick = Size(5_000, 100), Size(5_000, 30)
    panel = "D"
    differences = ("Rewards arrive together every D rounds.", NO_HALF_STEP)
    missing = (FIRST_ROUND, "arms divided by the smallest norm", "10 users instead of all")

    def settings(self, variant: Variant, horizon: int, movielens: Path | None = None) -> list[Setting]:
        """One for every delay."""
        mode = "constant" if variant == "text" else "batch"
        films = MovieLens(path=movielens, arms=10, sigma=1.0)
        late = {D: Delayed(films, rounds=D, mode=mode) if D else films for D in DELAYS}
        names = ("OFUL", "LinTS-Bayes", *LINMED)
        return [Setting.of((D,), problem, names, 1.0, horizon, variant) for D, problem in late.items()]

    def notes(self, movielens: Path | None) -> tuple[str, ...]:
        """Whose features they are."""
        if movielens is not None:
            return ("Features of the MovieLens 100K films and users.",)
        return (
            "Generated features of the shape of MovieLens 100K, not the real ones: `linmed data "
            "movielens` downloads those, and --movielens or LINMED_ML100K says where they are.",
        )

    def claims(self, found: Findings) -> Iterator[Claim]:
        """OFUL suffers, and more than the others."""
        yield Claim(
            f"OFUL's regret rises with the delay (from none to {DELAYS[-1]} rounds)",
            [Part("by {}", _rise("OFUL"), Between(low=0.0))],
        )
        for name in (*LINMED, "LinTS-Bayes"):
            beyond = of(_more_than_close, *_ends("OFUL"), *_ends(name))
            yield Claim(
                f"OFUL deteriorates with the delay much more than {name} "
                f"(more than {CLOSE:g} times its rise)",
                [
                    Part("rise of {}", _rise("OFUL"), Between(low=0.0)),  # there must be one, to be larger
                    Part("against {}", _rise(name)),
                    Part(f"beyond {CLOSE:g} times that by {{}}", beyond, Between(low=0.0)),
                ],
            )


def _ends(name: str) -> tuple[Sample, Sample]:
    return final(name, DELAYS[-1]), final(name, 0)


def _rise(name: str) -> Measure:
    return of(lambda late, prompt: mean(late - prompt), *_ends(name))


def _more_than_close(late: Floats, prompt: Floats, other_late: Floats, other_prompt: Floats) -> Estimate:
    return mean(late - prompt - CLOSE * (other_late - other_prompt))
