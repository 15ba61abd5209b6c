"""Break linmed on purpose, one fault at a time, and name the test that notices; not collected by pytest.

    python tests/mutations.py              # all faults, two at a time
    python tests/mutations.py ridge- med   # those whose name contains one of these words
    python tests/mutations.py --list       # what they are; nothing is run

A fault is a text that stands exactly once in a file, and another one in its place. It is put into a copy of
the tree, and the few test files that should catch it run there until one fails, which must pass without the
fault. All faults of the core are compiled into one build (build/faults, kept for the next time), each behind
a switch that $LINMED_FAULT throws; the product has no such switch.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "build" / "faults"
MOST_SECONDS = 600
"""A test that has not ended by then has been caught in a loop."""


@dataclass(frozen=True)
class Fault:
    """A mistake that somebody could make, and the tests (below tests/) that should see it."""

    name: str
    file: str
    old: str
    new: str
    tests: str

    @property
    def compiled(self) -> bool:
        """Whether it is one of the core, where `old` is an expression or a statement."""
        return self.file.startswith("core/")

    @property
    def switch(self) -> int:
        """The number that turns it on in the core; 0 for a fault in Python."""
        return zlib.crc32(self.name.encode()) % 2**31 if self.compiled else 0


class NotApplicable(Exception):
    """The text of a fault does not stand exactly once in its file."""


def with_fault(text: str, fault: Fault, new: str) -> str:
    """Put `new` into the place of the fault's text."""
    if text.count(fault.old) != 1:
        raise NotApplicable(
            f"{fault.name}: fault no longer applies, {fault.file} has {text.count(fault.old)}× {fault.old!r}"
        )
    return text.replace(fault.old, new)


def switched(fault: Fault) -> str:
    """Write both versions of a piece of C++, the fault behind its switch."""
    if fault.old.endswith(";"):
        return f"if (linmed::fault == {fault.switch}) {{ {fault.new} }} else {{ {fault.old} }}"
    return f"(linmed::fault == {fault.switch} ? ({fault.new}) : ({fault.old}))"


SWITCH = """
#include <cstdlib>
namespace linmed {
extern int fault;
int fault = [] { const char *number = std::getenv("LINMED_FAULT"); return number ? std::atoi(number) : 0; }();
}
"""


def build_core(faults: Sequence[Fault]) -> Path:
    """Build the core with a switch for each of its faults; returns the module."""
    source, build = BUILT / "core", BUILT / "build"
    source.mkdir(parents=True, exist_ok=True)
    for path in (ROOT / "core").iterdir():
        text = path.read_text(encoding="utf-8")
        here = [fault for fault in faults if fault.file == f"core/{path.name}"]
        for fault in here:
            text = with_fault(text, fault, switched(fault))
        if here:
            first = text.index("\n", text.index("#pragma once")) + 1 if "#pragma once" in text else 0
            text = f"{text[:first]}namespace linmed {{ extern int fault; }}\n{text[first:]}"
        if path.name == "module.cpp":
            text += SWITCH
        target = source / path.name
        if (
            not target.exists() or target.read_text(encoding="utf-8") != text
        ):  # else it need not be compiled again
            target.write_text(text, encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    for command in (
        ["cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DPython_EXECUTABLE={sys.executable}"],
        ["cmake", "--build", build],
    ):
        done = subprocess.run(
            command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{done.stdout}\n{done.stderr}")
    return next(build.glob("_core*.so"))


def copy_tree(directory: Path) -> None:
    """Copy what git has of the working tree, and the built modules."""
    shown = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(shown, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    built = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("src/linmed/_*.so")]
    for name in {*names, *built} - {""}:
        if (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, directory / name)
    # An editable install would be found before the copy: every Python started here takes its finder away.
    (directory / "sitecustomize.py").write_text(
        "import sys\n"
        'sys.meta_path[:] = [one for one in sys.meta_path if "ScikitBuild" not in type(one).__name__]\n',
        encoding="utf-8",
    )


def first_failure(tree: Path, tests: Sequence[str], core: Path | None, switch: int = 0) -> str | None:
    """Run tests in a copy until one fails; returns its name, or None where all pass."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'src'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LINMED_FAULT": str(switch),
        **({"LINMED_CORE": str(core)} if switch else {}),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-rfE",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
    ]
    try:
        done = subprocess.run(
            [*command, *(f"tests/{test}" for test in tests)],
            cwd=tree, env=environment, capture_output=True, text=True, timeout=MOST_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{tests[0]} (no end in {MOST_SECONDS} s)"
    if done.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) tests/(.+?)(?: - .*)?$", done.stdout, flags=re.M)
    if found is None:
        return f"(pytest ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-200:]})"
    return found[1]


@contextmanager
def applied(fault: Fault, tree: Path) -> Iterator[None]:
    """Have the fault in a copy, unless it is in the core's build, and take it out again."""
    path = tree / fault.file
    text = path.read_text(encoding="utf-8")
    changed = with_fault(text, fault, fault.new)
    if fault.compiled:
        yield
        return
    path.write_text(changed, encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def main() -> int:
    """Run the faults that were asked for and print which test caught each."""
    parser = argparse.ArgumentParser(description="Breaks linmed on purpose and says which test notices.")
    parser.add_argument("words", nargs="*", help="only faults whose name contains one of these")
    parser.add_argument("--list", action="store_true", help="print the faults and run nothing")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--whole", action="store_true", help="all tests where those of a fault do not catch it"
    )
    asked = parser.parse_args()
    faults = [fault for fault in FAULTS if not asked.words or any(word in fault.name for word in asked.words)]
    gone = []
    for fault in faults:
        try:
            with_fault((ROOT / fault.file).read_text(encoding="utf-8"), fault, "")
        except (NotApplicable, OSError) as error:
            gone.append(str(error))
    if gone:
        print(*gone, sep="\n", file=sys.stderr)
        return 2
    if asked.list:
        for fault in faults:
            print(f"{fault.name:<28} {fault.file:<40} {fault.old}  →  {fault.new}")
        return 0

    with tempfile.TemporaryDirectory(prefix="linmed-faults-") as scratch:
        core = None
        if any(fault.compiled for fault in faults):
            print("building the core with its faults ...", flush=True)
            core = build_core(FAULTS)
        trees: SimpleQueue[Path] = SimpleQueue()
        for job in range(asked.jobs):
            copy_tree(Path(scratch, f"tree{job}"))
            trees.put(Path(scratch, f"tree{job}"))

        def run(fault: Fault) -> str | None:
            tree, began = trees.get(), time.perf_counter()
            try:
                with applied(fault, tree):
                    caught = first_failure(tree, fault.tests.split(), core, fault.switch)
                    if caught is None and asked.whole:
                        caught = first_failure(tree, [""], core, fault.switch)
                right = caught is None or " (no end" in caught or not first_failure(tree, [caught], core)
            finally:
                trees.put(tree)
            shown = (
                "NOT CAUGHT" if caught is None else caught if right else f"FAILS WITHOUT THE FAULT: {caught}"
            )
            print(f"{fault.name:<28} {time.perf_counter() - began:5.0f} s  {shown}", flush=True)
            return caught if right else None

        with ThreadPoolExecutor(asked.jobs) as pool:
            found = list(pool.map(run, faults))
    caught = sum(one is not None for one in found)
    print(f"{caught} of {len(faults)} caught")
    return 0 if caught == len(faults) else 1


RULES, MODELS, GLM = "reference/test_rules.py", "reference/test_models.py", "reference/test_glm.py"
DESIGNS, THOMPSON, SUMS = "reference/test_designs.py", "reference/test_thompson.py", "reference/test_ope.py"
CONTRACT = "policies/test_contract.py"

FAULTS = [
    # ---- beliefs
    Fault("ridge-determinant", "core/ridge.hpp", "logdet[s] += log1p(h);", "logdet[s] += h;", RULES),
    Fault("ridge-residuals", "core/ridge.hpp", "rss[s] += error * gain;", "rss[s] += error * error;", RULES),
    Fault(
        "ridge-leveraged",
        "core/ridge.hpp",
        "leveraged[s] += error * gain * h;",
        "leveraged[s] += error * gain;",
        RULES,
    ),
    Fault(
        "ridge-lost-digits",
        "core/ridge.hpp",
        "load(low + k) + (lost + ((before - (total - part)) + (product - part)))",
        "load(low + k)",
        "test_sums.py test_ridge.py",
    ),
    Fault(
        "ridge-never-polished",
        "core/ridge.hpp",
        "int64_t(counts[s]) % REFRESH == 0 || h > STEEP",
        "false",
        "test_ridge.py",
    ),
    Fault("faded-prior", "core/recent.hpp", "(1.0 - gamma2) * lam", "(1.0 - gamma) * lam", RULES),
    Fault("window-keeps-oldest", "core/recent.hpp", "full ? rewards[r * w + place] : 0.0", "0.0", RULES),
    Fault(
        "forgetting-count", "core/forgetting.hpp", "counts[s] = f * counts[s] + w;", "counts[s] += w;", GLM
    ),
    Fault(
        "forgetting-prior-returns",
        "core/forgetting.hpp",
        "seen += c * known * known / (1.0 + given);",
        ";",
        GLM,
    ),
    Fault(
        "forgetting-clock",
        "core/forgetting.hpp",
        "exp2((before - after) / half_life)",
        "exp((before - after) / half_life)",
        GLM,
    ),
    Fault(
        "glm-certificate",
        "core/glm.hpp",
        "excess[s] += 2.0 * (step.predicted - loss) - error * error * h;",
        "excess[s] += 2.0 * (step.predicted - loss);",
        GLM,
    ),
    Fault(
        "glm-divergence",
        "core/links.hpp",
        "(sign * (small * gap) + log1p(small * expm1(sign * gap * minus))) / v",
        "(small * gap + log1p(small * expm1(sign * gap * minus))) / v",
        GLM,
    ),
    Fault(
        "glm-poisson",
        "core/links.hpp",
        "found.loss = predicted - y * after;",
        "found.loss = predicted - y;",
        GLM,
    ),
    Fault("glm-refuted-prior", "core/glm.hpp", "own[leader] > top + REFUTED", "own[leader] > top", GLM),
    Fault(
        "priors-leader",
        "core/experts.hpp",
        "surprises[s] < surprises[best]",
        "surprises[s] > surprises[best]",
        RULES,
    ),
    Fault(
        "intercept-contrast",
        "core/experts.hpp",
        "of_contrasts->absorb(r, contrast_, root * apart);",
        "of_contrasts->absorb(r, contrast_, apart);",
        RULES,
    ),
    Fault(
        "models-shared-part",
        "core/item_models.hpp",
        "shared.absorb(r, w_, error * sqrt(shrink), v_);",
        "shared.absorb(r, w_, error * shrink, v_);",
        MODELS,
    ),
    Fault(
        "models-prior",
        "core/item_models.hpp",
        "number >= 0.0 && number + 1.0 < double(models.n) ? Index(number) + 1 : 0",
        "number >= 0.0 && number + 1.0 < double(models.n) ? Index(number) + 1 : 1",
        f"{MODELS} policies/test_disjoint.py",
    ),
    Fault(
        "pulls-mean",
        "core/maillard.hpp",
        "theta[k] = totals[k] / pulls[k];",
        "theta[k] = totals[k] / (pulls[k] + 1.0);",
        RULES,
    ),
    Fault("exp2-mean", "core/exp2.hpp", "total[r * d + k] / double(counts[r])", "total[r * d + k]", DESIGNS),
    Fault("warm-support", "core/warm.hpp", "!begun || leverage[i] >= REMEMBERED", "true", DESIGNS),
    # ---- confidence sets
    Fault(
        "set-paper",
        "core/confidence.hpp",
        "std::max(logdet, 0.0) + 2.0 * l",
        "std::max(logdet, 0.0) + l",
        "policies/test_confidence.py",
    ),
    Fault(
        "set-mixture",
        "core/confidence.hpp",
        "beyond = sigma * sigma * (logdet + 2.0 * l);",
        "beyond = sigma * sigma * (logdet + l);",
        "policies/test_confidence.py",
    ),
    Fault(
        "set-empirical",
        "core/confidence.hpp",
        "2.0 * sigma * sigma * l + belief.leveraged[s]",
        "2.0 * sigma * sigma * l",
        "policies/test_confidence.py",
    ),
    Fault(
        "set-gaussian",
        "core/confidence.hpp",
        "0.5 * logdet + constant",
        "constant",
        "policies/test_confidence.py",
    ),
    Fault(
        "set-strict",
        "core/confidence.hpp",
        "left > 0.0 ? rss / left : INF",
        "rss / fabs(left)",
        "policies/test_confidence.py",
    ),
    Fault(
        "set-learned",
        "core/confidence.hpp",
        "variance * (double(belief.d) + logdet + 2.0 * l)",
        "variance * (logdet + 2.0 * l)",
        "policies/test_confidence.py",
    ),
    Fault(
        "set-unknown-norm",
        "core/confidence.hpp",
        "(sqrt(length2) + root) / (1.0 - shrunk)",
        "sqrt(length2) + root",
        "policies/test_confidence.py",
    ),
    Fault(
        "set-glm",
        "core/glm.hpp",
        "certified ? belief.excess[s] : std::max(belief.logdet[s], 0.0)",
        "std::max(belief.logdet[s], 0.0)",
        GLM,
    ),
    Fault(
        "set-faded",
        "core/recent.hpp",
        "expm1(2.0 * t * log_gamma) / expm1(2.0 * log_gamma)",
        "expm1(t * log_gamma) / expm1(log_gamma)",
        RULES,
    ),
    Fault(
        "set-windowed",
        "core/recent.hpp",
        "log1p(window * longest * longest / lam)",
        "log1p(longest * longest / lam)",
        RULES,
    ),
    # ---- rules
    Fault(
        "med-gap",
        "core/med.hpp",
        "(ratio * ratio) / (distance2 * splat(-1.0))",
        "ratio / (distance2 * splat(-1.0))",
        DESIGNS,
    ),
    Fault("med-explore", "core/med.hpp", "explore && largest > EXPLORE", "false", DESIGNS),
    Fault(
        "med-few-arms",
        "core/med.hpp",
        "where_equal(steps(), splat(double(best)), even + splat(alpha_emp), even)",
        "where_equal(steps(), splat(0.0), even + splat(alpha_emp), even)",
        "policies/test_linmed.py test_simplex.py",
    ),
    Fault(
        "med-log-probability",
        "core/med.hpp",
        "out[extra] = log(scratch.weight[extra]) - log_total;",
        ";",
        DESIGNS,
    ),
    Fault(
        "med-draw",
        "core/med.hpp",
        "running + sums[i] <= target",
        "running + sums[i] < 0.5 * target",
        CONTRACT,
    ),
    Fault(
        "med-ties",
        "core/med.hpp",
        "even_ties && all_tied(scratch.log_f, K)",
        "false",
        "policies/test_linmed.py",
    ),
    Fault("med-one-trial", "core/med.hpp", "std::max(0.0, 1.0 - sum_of(scratch.sums))", "0.0", MODELS),
    Fault(
        "oful-bonus",
        "core/optimism.hpp",
        "splat(radius) * root(load(leverage + first))",
        "splat(radius) * load(leverage + first)",
        RULES,
    ),
    Fault("oful-ties", "core/optimism.hpp", "values[i] < highest - slack", "values[i] < highest", "policies"),
    Fault(
        "greedy-floor",
        "core/optimism.hpp",
        "settle_on(first_largest(mean, arms.K, TIE * size), mean, arms.K, epsilon, noise[0], log_p)",
        "settle_on(first_largest(mean, arms.K, TIE * size), mean, arms.K, 0.0, noise[0], log_p)",
        RULES,
    ),
    Fault("imed-2-cap", "core/optimism.hpp", "index[best] = std::min(cap, index[best]);", ";", RULES),
    Fault(
        "imed-3-cap",
        "core/optimism.hpp",
        "std::min(log(C) - 2.0 * log(widest), index[best])",
        "index[best]",
        RULES,
    ),
    Fault(
        "thompson-draw",
        "core/thompson.hpp",
        "draw[j] = theta[j] + scale * z[j];",
        "draw[j] = theta[j] + z[j];",
        THOMPSON,
    ),
    Fault("thompson-scale", "core/thompson.hpp", "9.0 * d * (log(t) + l)", "9.0 * d * log(t)", THOMPSON),
    Fault(
        "thompson-two-arms",
        "core/gaussian_argmax.hpp",
        "gap / (scale * sqrt(norm2))",
        "gap / sqrt(norm2)",
        THOMPSON,
    ),
    Fault("thompson-plane", "core/gaussian_argmax.hpp", "least * (one - t * ratio)", "least", THOMPSON),
    Fault(
        "thompson-rays",
        "core/gaussian_argmax.hpp",
        "larger(chance_0 - upper_tail(own_0 - high.first), splat(0.0))",
        "chance_0",
        f"{THOMPSON} policies/test_gaussian_argmax.py",
    ),
    Fault(
        "thompson-lines",
        "core/gaussian_argmax.hpp",
        "fabs(after - before)",
        "after",
        "policies/test_gaussian_argmax.py",
    ),
    Fault("thompson-reported", "core/gaussian_argmax.hpp", "log1p(-least) - log1p(-p)", "0.0", THOMPSON),
    Fault(
        "rand-ucb-coupled",
        "core/randomised.hpp",
        "room.p[first_largest(room.score, K, TIE * largest_lane(size))] += weights[m];",
        "room.p[first_largest(room.score, K, TIE * largest_lane(size))] += 1.0 / double(grid.size());",
        RULES,
    ),
    Fault(
        "rand-ucb-each",
        "core/randomised.hpp",
        "other[n] == own[m] && j > i",
        "other[n] == own[m] && j < i",
        f"{RULES} {CONTRACT}",
    ),
    Fault("square-cb-vaw", "core/square.hpp", "mean[i] /= 1.0 + gap[i];", ";", RULES),
    Fault(
        "square-cb-best", "core/square.hpp", "p[best] = rest;", "p[best] = 1.0;", f"{RULES} test_simplex.py"
    ),
    Fault(
        "square-cb-gamma",
        "core/square.hpp",
        "bias + unit * belief.logdet[s]",
        "unit * belief.logdet[s]",
        f"{RULES} policies/test_igw.py",
    ),
    Fault(
        "igw-normaliser",
        "core/igw.hpp",
        "h * (h - 1.0) / slope",
        "(h - 1.0) / slope / slope",
        f"{RULES} {DESIGNS}",
    ),
    Fault("spanner-igw", "core/spanner.hpp", "q[best] += 0.5;", "q[best] += 0.25;", DESIGNS),
    Fault("exp2-rates", "core/exp2.hpp", "log(K) / (3.0 * rank * n)", "log(K) / (rank * n)", DESIGNS),
    Fault(
        "exp2-estimate",
        "core/exp2.hpp",
        "total += geometry.lift[(p * d + k) * d + i] * x;",
        "total += x;",
        DESIGNS,
    ),
    Fault(
        "e2d-gamma",
        "core/e2d.hpp",
        "sqrt(d * n / (4.0 * (bias + unit * information)))",
        "sqrt(d * n / (bias + unit * information))",
        "reference/test_e2d.py",
    ),
    Fault(
        "e2d-tolerance", "core/e2d.hpp", "cost += p[i] * c_[i];", "cost += c_[i];", "reference/test_e2d.py"
    ),
    Fault(
        "maillard",
        "core/maillard.hpp",
        "-0.5 * pulls[k] * (ratio * ratio)",
        "-pulls[k] * (ratio * ratio)",
        RULES,
    ),
    Fault(
        "uniform",
        "core/wrappers.hpp",
        "(place > 0.0 ? Index(place) : 0)",
        "(place > 0.0 ? Index(place) / 2 * 2 : 0)",
        CONTRACT,
    ),
    Fault(
        "floored-uniform",
        "core/wrappers.hpp",
        "(uniform - share) / (share < 1.0 ? 1.0 - share : 1.0)",
        "uniform",
        CONTRACT,
    ),
    Fault(
        "opening", "core/wrappers.hpp", "own.opening = belief.count(s) == 0.0;", "own.opening = false;", RULES
    ),
    Fault(
        "pinpoint",
        "core/pinpoint.hpp",
        "room.score[i] / sqrt(1.0 + room.leverage[i])",
        "room.score[i]",
        RULES,
    ),
    # ---- designs and what is made of them
    Fault(
        "design-stops-early",
        "core/design.hpp",
        "leverage[worst] > STOP && added < 2000 * d",
        "leverage[worst] > 2.0 * STOP && added < 2000 * d",
        DESIGNS,
    ),
    Fault("design-hyperplane", "core/design.hpp", "v[k] -= rest[k];", ";", DESIGNS),
    Fault(
        "design-optimal",
        "core/optimal.hpp",
        "over > tol || under > tol",
        "over > 0.1 || under > 0.1",
        DESIGNS,
    ),
    Fault(
        "design-certificate",
        "core/optimal.hpp",
        "leverage[worst] / double(rank)",
        "leverage[worst]",
        "test_design.py",
    ),
    Fault("catalogue-arm", "core/catalogue.hpp", "log1p(q * exp(log_f))", "log1p(q)", MODELS),
    Fault(
        "catalogue-scan",
        "core/catalogue.hpp",
        "values[k - 1] - slack",
        "values[k - 1] + slack",
        f"{MODELS} features/test_index.py",
    ),
    Fault(
        "catalogue-ties",
        "core/catalogue.hpp",
        "value <= values[k - 1]",
        "value < values[k - 1]",
        "features/test_index.py",
    ),
    Fault(
        "verdict-width",
        "core/verdict.hpp",
        "distance > 0.0 ? radius * distance : 0.0",
        "radius * distance * 0.5",
        MODELS,
    ),
    Fault(
        "verdict-contradiction",
        "core/verdict.hpp",
        "winner >= 0 && behind > epsilon",
        "false",
        f"{MODELS} insight/test_best_arm.py simulation/test_deciding.py",
    ),
    # ---- sums of off-policy evaluation
    Fault(
        "ope-moments",
        "core/ope.hpp",
        "mean /= double(n);",
        "mean /= double(n + 1);",
        f"{SUMS} ope/test_estimators.py",
    ),
    Fault(
        "ope-lowest-reward",
        "core/ope.hpp",
        "where_greater(lowest, small, small, lowest)",
        "lowest",
        f"{SUMS} ope/test_overlap.py",
    ),
    Fault("ope-bets-end", "core/ope.hpp", "bets_[first_] * farthest >= 0.5 * CUT", "false", SUMS),
    Fault(
        "ope-bets-cut",
        "core/ope.hpp",
        "smaller(splat(mass[own]), k * splat(guard[own]))",
        "splat(mass[own])",
        SUMS,
    ),
    Fault("ope-wealth", "core/ope.hpp", "count * log1p(bets[j] * mean)", "log1p(bets[j] * mean)", SUMS),
    Fault(
        "ope-bernstein",
        "core/ope.hpp",
        "(-log1p(-rate) - rate) * squared(x[j] - guess)",
        "(-log1p(-rate)) * squared(x[j] - guess)",
        SUMS,
    ),
    Fault(
        "ope-mixture",
        "core/ope.hpp",
        "x[begin + j] - std::min(guess[j], 1.0)",
        "x[begin + j] - guess[j]",
        SUMS,
    ),
    Fault("ope-stable", "core/ope.hpp", "std::max(1.0 / (count + 1.0), 0.01)", "1.0 / (count + 1.0)", SUMS),
    Fault(
        "ope-means",
        "core/ope.hpp",
        "(sums[a] + base) / (counts[a] + lam)",
        "(sums[a] + base) / counts[a]",
        SUMS,
    ),
]

if __name__ == "__main__":
    sys.exit(main())
