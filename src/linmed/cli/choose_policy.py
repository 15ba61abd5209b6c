"""Choose among policies on a log: the command `linmed choose`."""

import argparse
from collections.abc import Iterator
from typing import Any

from linmed.cli.log_options import (
    add_complete,
    add_log,
    add_output,
    add_question,
    answer,
    parse_candidate,
    parse_target,
    query,
    rows,
)
from linmed.ope.choose import TRAIN, Choice, Guardrail, choose, listed
from linmed.report.figures import axes, height_of, saved, styled
from linmed.report.tables import Table

TITLE = "Which policy shall I run?"
CAUTION = (
    "A candidate that has learned from the decisions that judge it looks better than it is: a policy learns "
    "from the first part alone, an agent may have seen more."
)


def add_choose(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `choose`."""
    parser.description = (
        "Which of several policies would have earned most on the decisions of LOG? Candidates "
        "that are surely not the best are dropped. One may ask as often as one likes."
    )
    add_log(parser)
    add_complete(parser)
    add = parser.add_argument
    add(
        "--candidate", action="append", dest="candidates", metavar="CANDIDATE", required=True,
        help="uniform, logged, arm:NUMBER, item:ID, shadow:NAME, column:NAME, agent:FILE (a saved agent) or "
        "a policy that learns, 'policy:LinMED(alpha_emp=0.5)'; NAME=CANDIDATE to call it so; may be repeated",
    )  # fmt: skip
    add(
        "--train", type=amount, default=TRAIN, metavar="SHARE|NUMBER",
        help="policies learn from that share of the log, or number of decisions, and all are judged on the "
        f"rest; default: {TRAIN}",
    )  # fmt: skip
    add("--estimator", choices=("ipw", "dr"), default="ipw", help="default: ipw")
    add(
        "--subject-to", nargs=4, action="append", metavar=("OUTCOME", "<=|>=", "BASELINE", "SLACK"),
        help="a guardrail, as complaint '<=' logged 0.005: complaints may exceed those of the target "
        "BASELINE (or that number) by SLACK; the best is then sought among those that surely keep it; may be "
        "repeated",
    )  # fmt: skip
    add(
        "--outcome-range", nargs=3, action="append", metavar=("OUTCOME", "LOW", "HIGH"),
        help="the lowest and highest that an outcome of a guardrail can be; default: 0 and 1",
    )  # fmt: skip
    add_question(parser, choose)
    add("--plot", metavar="FILE", help="draw what each candidate earns, with its interval")
    add_output(parser)
    parser.set_defaults(run=run)


def amount(text: str) -> float | int:
    """A share as a float, a number of decisions as an int."""
    return int(text) if text.isdecimal() else float(text)


def run(args: argparse.Namespace) -> int:
    """Print the answer; the exit status is 0."""
    named = [parse_candidate(text) for text in args.candidates]
    candidates = dict(named)
    if len(candidates) < len(named):
        twice = next(name for i, (name, _) in enumerate(named) if name in dict(named[:i]))
        raise ValueError(f"candidates need distinct names, {twice!r} occurs twice: write NAME=CANDIDATE")
    rails = [_guardrail(*words) for words in args.subject_to or ()]
    ranges = {name: (float(low), float(high)) for name, low, high in args.outcome_range or ()}
    with query(args) as asked:
        told = {"estimator": args.estimator, "train": args.train, **asked.options}
        told |= {"subject_to": rails, "outcome_ranges": ranges} if rails else {}
        choice = choose(asked.log, candidates, **told, **asked.work)
    tables = {"Value per decision": choice.table}
    if choice.guardrails is not None:
        tables["Guardrails"] = choice.guardrails
    if choice.leader is not None and len(candidates) > 1:
        gains = Table(choice.gains.to_arrow().drop_columns(["possible"]))
        tables[f"What {choice.leader} earns more than"] = gains
    rewards = args.reward_range or (0.0, 1.0)
    taught = {"trained on": f"the {choice.trained_on:,} decisions before them"} if choice.trained_on else {}
    facts = {
        "leader": choice.leader, "decided": choice.decided, "left": choice.left, "dropped": choice.dropped,
        "refuted": choice.refuted, "more": choice.more, "decisions": choice.decisions,
        "trained_on": choice.trained_on, "confidence": choice.confidence,
        "candidates": rows(choice.table), "gains": rows(choice.gains),
    }  # fmt: skip
    if choice.guardrails is not None:
        facts |= {"verdicts": choice.verdicts, "guardrails": rows(choice.guardrails)}
    if args.plot:
        with styled():
            ax = axes(None, height_of(len(candidates)), shown=False)
            choice.plot(ax).set_title(f"after {choice.decisions:,} decisions, for all at once", loc="left")
            saved(ax, args.plot)
    answer(
        args, asked, facts, title=TITLE, answer=[f"{choice}.", *_dropped(choice)],
        about={"decisions": f"{choice.decisions:,} that judge", **taught}, rewards=rewards,
        interval="betting", tables=tables, meaning=_meaning(args, rewards), caution=CAUTION,
    )  # fmt: skip
    return 0


def _guardrail(outcome: str, sign: str, baseline: str, slack: str) -> Guardrail:
    """Read a guardrail from four words; its baseline is a number or a target."""
    try:
        against: Any = float(baseline)
    except ValueError:
        against = parse_target(baseline)
    try:
        return Guardrail(outcome, sign, against, float(slack))
    except ValueError:
        text = f"--subject-to {outcome} {sign} {baseline}: SLACK must be a number, got {slack!r}"
        raise ValueError(text) from None


def _dropped(choice: Choice) -> Iterator[str]:
    """Who was dropped by whom, where that is not the leader and all others."""
    for winner in dict.fromkeys(choice.dropped.values()):
        losers = [loser for loser, by in choice.dropped.items() if by == winner]
        if not (choice.decided and len(losers) == len(choice.dropped)):
            yield f"Dropped: {listed(losers)}, since {winner} surely earns more."


def _meaning(args: argparse.Namespace, rewards: tuple[float, float]) -> str:
    best = "candidate with the highest average value so far"
    if args.subject_to:
        best = "one with the highest average value so far of those that are called safe"
    return (
        f"With probability {100 * args.confidence:.6g} % or more all intervals and verdicts hold, and the "
        f"{best} is not dropped, at every look at once, however often one looked "
        "and however the logging policy learned, if the logged probabilities are exact and every possible "
        "reward lies "
        f"in [{rewards[0]:g}, {rewards[1]:g}]."
    )
