"""Ask a model of a log's rewards: which arm is the best (`verdict`)? Has the world changed (`drift`)?"""

import argparse
import json
import math
import shutil
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from linmed.cli.log_options import add_log, add_question, given_log, rows, tell, unread
from linmed.files import check_place
from linmed.insight.best_arm import DELTA, VerdictWarning
from linmed.insight.drift import Adoption, Alarm
from linmed.ope.learning import Arms, drift, verdict
from linmed.policies import GLMMED, Forgetful, LinMED, Policy
from linmed.policies.half_lives import written
from linmed.report.progress import Bar
from linmed.report.tables import Table
from linmed.report.text_report import Report, folded, told
from linmed.validation import BadValue

TITLE = "Which arm is the best?"
VERDICT_CAUTION = "sigma and norm_bound must not have been chosen by looking at these rewards."
DRIFT_CAUTION = "Neither sigma nor norm_bound may have been chosen by looking at these rewards."
TOLD = ("sigma", "norm_bound", "ridge", "confidence", "tails", "intercept")
HALF_LIVES = "inf,1000,200,50"
FAMILIES = ("logistic", "poisson")


def number_or_text(text: str) -> float | str:
    """Parse a number, or leave the text."""
    try:
        return float(text)
    except ValueError:
        return text


def _add_model(
    parser: argparse.ArgumentParser, function: Callable[..., Any], noise: str, norm_bound: str, ridge: str,
    **sigma: Any,
) -> None:  # fmt: skip
    """Add what both are told of the rewards."""
    add = parser.add_argument
    add("--sigma", type=number_or_text, metavar="NUMBER|unknown", help=noise, **sigma)
    add(
        "--norm-bound", type=number_or_text, metavar="NUMBER|unknown",
        default=1.0 if norm_bound == "1" else norm_bound,
        help=f"how long the true coefficients are at most; default: {norm_bound}",
    )  # fmt: skip
    add("--ridge", type=number_or_text, metavar="NUMBER|learned", help=f"λ; default: {ridge}")
    add_question(parser, function)
    add("--json", action="store_true", help="print JSON")
    add("--progress", action=argparse.BooleanOptionalAction, default=True, help="a bar, on a terminal")


# ---- the best arm


def add_verdict(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `verdict`."""
    parser.description = (
        "Which arm can still be the best, by a ridge estimate over the rewards of LOG? It does not matter "
        "who chose what was played. One may ask as often as one likes, as the log grows."
    )
    add_log(parser)
    add = parser.add_argument
    add(
        "--arms-from", metavar="FILE",
        help="the arms to compare: CSV with a line `name, x1, x2, …` for each, or JSON; may be left out "
        "where every decision had the same",
    )  # fmt: skip
    noise = (
        "how noisy a reward is, a standard deviation; 0.5 is never too small for rewards in [0, 1], and "
        "unknown is for Gaussian noise"
    )
    _add_model(parser, verdict, noise, "1", "sigma²/norm_bound²", required=True)
    add(
        "--confidence", choices=("paper", "mixture", "empirical"), default="paper",
        help="which confidence set; mixture is never larger than the paper's; default: paper",
    )  # fmt: skip
    add(
        "--tails", choices=("gaussian", "strict"), default="gaussian",
        help="of noise of unknown size: Gaussian, or such as uniform and ±1 noise has",
    )  # fmt: skip
    add("--intercept", action="store_true", help="rewards have a level of their own, learned apart")
    add("--delta", type=float, default=DELTA, help=f"how often a verdict may be wrong; default: {DELTA}")
    add("--epsilon", type=float, default=0.0, help="how much worse than the best is good enough; default: 0")
    add("--html", metavar="FILE", help="write the report as a page")
    parser.set_defaults(run=run_verdict)


def run_verdict(args: argparse.Namespace) -> int:
    """Print the verdict; the exit status is 0."""
    check_place(args.html)
    policy = LinMED(**{name: getattr(args, name) for name in TOLD})
    arms = None if args.arms_from is None else Arms.read(args.arms_from)
    log = given_log(args)
    try:
        with Bar(args.progress, "decisions") as bar, warnings.catch_warnings():
            warnings.simplefilter("ignore", VerdictWarning)  # its words are the answer
            found = verdict(
                log, policy, arms, delta=args.delta, epsilon=args.epsilon, missing=args.missing,
                mature=args.mature, progress=bar.reach,
            )  # fmt: skip
    except ValueError as error:
        if getattr(error, "field", None) == "arms" and arms is None:
            raise ValueError(f"{error} with --arms-from FILE") from None
        if "has no features" in str(error):
            raise ValueError(f"{error}. If it has them, say where: --columns features=x1+x2") from None
        raise
    of, best = found.verdict, found.arms.names[found.verdict.best]
    meant = "" if of.proved else "meant for "
    report = Report(
        title=TITLE,
        answer=[str(found)],
        asked={
            "log": args.log,
            "rewards": f"{of.count:,}",
            "confidence": f"{meant}{100 * (1 - of.delta):.6g} % for all at once, at every look",
            "if": of.assumes,
            "below": f"how much less than {best} each arm pays, and the value of its own",
        },
        tables={f"How much less than {best} each arm pays": _shown(found.table)},
        meaning=_meaning(of.delta, of.assumes) if of.proved else f"This is no proof: {of.doubt}.",
        warnings=[] if of.proved else [f"this is no proof: {of.doubt}"],
        notes=unread(log) if args.skip_malformed else [],
        caution=VERDICT_CAUTION,
    )
    facts = {
        "best": best, "decided": of.decided, "candidates": [found.arms.names[i] for i in of.candidates],
        "margin": of.margin if math.isfinite(of.margin) else None, "contradicted": of.contradicted,
        "delta": of.delta, "epsilon": of.epsilon, "rewards": of.count, "decided_after": found.decided_after,
        "proved": of.proved, "doubt": of.doubt, "assumes": of.assumes, "sentence": str(found),
        "arms": rows(found.table),
    }  # fmt: skip
    tell(report, args.html, facts if args.json else None)
    return 0


def _meaning(delta: float, assumes: str) -> str:
    return (
        f"With probability {100 * (1 - delta):.6g} % or more all intervals hold and the best arm is not "
        f"ruled out, at every look at once, whoever chose what was played, if {assumes}."
    )


def _shown(table: Table) -> Table:
    """With values of three digits."""
    return Table({**row, "value": f"{row['value']:.3g}"} for row in table.to_pylist())


# ---- drift


def add_drift(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `drift`."""
    parser.description = (
        "Can all rewards of LOG come from one model, and if not, since when? An alarm has a level: while "
        "nothing changes, one is ever raised with probability alpha at most."
    )
    add_log(parser)
    add = parser.add_argument
    add(
        "--family", choices=("linear", *FAMILIES), default="linear",
        help="what rewards are: numbers linear in the features (the default), clicks (logistic), counts "
        "(poisson); the last two have a spread of their own, so --sigma is left out",
    )  # fmt: skip
    noise = (
        "how noisy a reward is, a standard deviation; 0.5 is never too small for rewards in [0, 1]; "
        "default: unknown, proved for Gaussian noise"
    )
    _add_model(parser, drift, noise, "unknown", "0.01, or sigma²/norm_bound²", default="unknown")
    add(
        "--half-lives", default=HALF_LIVES, metavar="LIST",
        help=f"memories that are weighed, in rewards or as durations (inf,7d,1d); default: {HALF_LIVES}",
    )  # fmt: skip
    add("--alpha", type=float, default=0.05, help="how often a false alarm may ever come; default: 0.05")
    parser.set_defaults(run=run_drift)


def run_drift(args: argparse.Namespace) -> int:
    """Print what changed and when; the exit status is 0."""
    known: dict[str, Any] = {"norm_bound": args.norm_bound, "ridge": args.ridge}
    if args.family == "linear":
        inside: Policy = LinMED(sigma=args.sigma, **known)
    elif args.sigma == "unknown":
        inside = GLMMED(family=args.family, **known)
    else:
        raise BadValue("sigma", f"--sigma goes with --family linear: {args.family} rewards tell their spread")
    memories: Any = [number_or_text(one.strip()) for one in args.half_lives.split(",")]
    policy = Forgetful(inside, half_lives=memories, alarm=args.alpha)
    log = given_log(args)
    with Bar(args.progress, "decisions") as bar:
        found = drift(log, policy, missing=args.missing, mature=args.mature, progress=bar.reach)
    of = found.drift
    if args.json:
        print(json.dumps(of.to_dict(), indent=2))
        return 0
    width = shutil.get_terminal_size().columns
    weights = Table(
        {"memory": written(half_life), "weight": f"{weight:.2g}"} for half_life, weight in of.weights.items()
    )
    said = [str(of), f"An alarm may be trusted if {of.assumes}. {DRIFT_CAUTION}"]
    said += [f"note: {note}" for note in (unread(log) if args.skip_malformed else [])]
    for words in said:
        print("\n".join(folded(told(words), width)), end="\n\n")
    events = _events(of.alarms, of.adoptions)
    for line in [*repr(weights).splitlines(), *([] if events is None else ["", *repr(events).splitlines()])]:
        print(told(line))
    return 0


def _events(alarms: tuple[Alarm, ...], adoptions: tuple[Adoption, ...]) -> Table | None:
    """Alarms and adoptions, in their order; None if there were none."""
    happened: list[tuple[Alarm | Adoption, str]] = [(one, f"alarm (log E {one.log_e:.3g})") for one in alarms]
    happened += [
        (one, f"memory {written(one.half_life)} restarted from memory {written(one.source)}")
        for one in adoptions
    ]
    happened.sort(key=lambda pair: pair[0].reward)
    if not happened:
        return None
    return Table({"what": what, "reward": f"{one.reward:,}", **_when(one.time)} for one, what in happened)


def _when(time: float | None) -> dict[str, str]:
    return {} if time is None else {"decision of": f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S}"}
