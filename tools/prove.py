"""Show one promise at a time: `python3 tasks.py prove NAME` runs what shows it and ends with one line of figures.

Each proof runs what the suite or a longer command runs anyway; nothing is counted that was not run just now. What
stands behind the name goes to the command: `prove crash -x`, `prove soak --minutes 5`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tests.crash.loop import EVERY_POINT

ROOT = Path(__file__).resolve().parent.parent
CRASH = ("tests/crash",)
NO_COUNT = "not power_loss and not storage_faults and not planted and not soak and not requirements"
Numbers = Counter[str]


@dataclass
class Ran:
    """What some tests did: counts of tests by outcome, and the figures that they told of themselves."""

    code: int
    tests: Numbers = field(default_factory=Counter)
    told: Numbers = field(default_factory=Counter)
    passed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)

    @property
    def line(self) -> str:
        """The outcomes in words."""
        return ", ".join(f"{count} tests {how}" for how, count in sorted(self.tests.items(), reverse=True))


def run_tests(*arguments: str, python: str = sys.executable) -> Ran:
    """Run tests with their own output on the screen, and read what they did.

    Args:
        python: the interpreter of another environment than this one's.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [python, "-m", "pytest", f"--junitxml={report}", *arguments]
        ran = Ran(subprocess.run(command, cwd=ROOT, check=False).returncode)
        if not report.exists():
            return ran
        for case in ElementTree.parse(report).iter("testcase"):
            _take(ran, case)
    return ran


def _take(ran: Ran, case: ElementTree.Element) -> None:
    name = f"{case.get('classname', '').rpartition('.')[2]}.py::{case.get('name', '')}"
    bad = case.find("failure") is not None or case.find("error") is not None
    how = "failed" if bad else "skipped" if case.find("skipped") is not None else "passed"
    ran.tests[how] += 1
    (ran.failed if bad else ran.passed).add(name)
    for item in case.iter("property"):
        value = item.get("value", "")
        if value.isdigit():
            ran.told[item.get("name", "")] += int(value)


def matrix(more: Sequence[str]) -> tuple[int, str]:
    """Run the tests that docs/durability_test_matrix.md names."""
    from tests.evidence import matrix as cases

    found = [row for row in cases.rows() if row.tests]
    ran = run_tests("-m", "matrix", *more)
    left = len(cases.rows()) - len(found)
    return ran.code, f"{len(found)} cases with a test, {left} not built; {ran.line}"


def model(more: Sequence[str]) -> tuple[int, str]:
    """Explore the model whole, then compare the engine with it."""
    told = _explored()
    ran = run_tests("tests/property/test_engine_against_model.py", *more)
    line = "{programs} programs × {points} crash points and switches, {schedules} schedules, {broken} broken promises"
    return ran.code or int(told["broken"] > 0), f"{line.format(**told)}; engine against model: {ran.line}"


def _explored() -> Numbers:
    from tests.model.explore import Explorer
    from tests.model.model_programs import MODEL_CASES
    from tests.model.programs import CASES

    told: Numbers = Counter(programs=0, points=0, schedules=0, broken=0)
    for case in (CASES | MODEL_CASES).values():
        explorer = Explorer(case.program, switches=1)
        ends = explorer.ends(case.crashes)
        told["programs"] += 1
        told["points"] += len(explorer.known)
        told["schedules"] += sum(ends.values())
        told["broken"] += sum(many for end, many in ends.items() if case.broken_by(end))
    return told


def mutants(more: Sequence[str]) -> tuple[int, str]:
    """Break each rule of the model once, and see a program notice."""
    ran = run_tests("tests/model", "-k", "broken_rule", *more)
    return ran.code, f"mutants caught {ran.tests['passed']}/{sum(ran.tests.values())}"


def planted(more: Sequence[str]) -> tuple[int, str]:
    """Break each safety rule of the engine once, in a child process, and see its test go red there."""
    from tests.crash import planting

    bugs = [plant for plant in planting.load().values() if plant.area != planting.HELP]
    files = sorted({f"tests/crash/{plant.caught_by.partition('::')[0]}" for plant in bugs})
    ran = run_tests(*files, *more)
    bare = {name.partition("[")[0] for name in ran.passed}
    red = {name.partition("[")[0] for name in ran.failed}
    caught = [plant for plant in bugs if (named := plant.caught_by.partition("[")[0]) in bare and named not in red]
    line = f"planted bugs caught {len(caught)}/{len(bugs)}; {ran.line}"
    return ran.code or int(len(caught) < len(bugs)), line


def crash(more: Sequence[str]) -> tuple[int, str]:
    """Kill every program at every numbered point, and count at the provider."""
    os.environ[EVERY_POINT] = "1"
    ran = run_tests(*CRASH, "-k", NO_COUNT, *more)
    told = ran.told
    return ran.code, f"points killed: {told['kills']}, {told['lives']} lives, {told['effects']} effects; {ran.line}"


def power(more: Sequence[str]) -> tuple[int, str]:
    """Cut the power at every write, and open what is left."""
    ran = run_tests("tests/crash/test_power_loss.py", *more)
    return ran.code, f"power-loss cuts: {ran.told['cuts']}, {ran.told['disks']} different disks opened; {ran.line}"


def storage(more: Sequence[str]) -> tuple[int, str]:
    """Let the disk fail: full, EIO, busy, read-only, replaced, damaged, of another version."""
    ran = run_tests(*CRASH, "tests/integration/test_store_opening.py", "-k", "storage_faults or store_opening", *more)
    return ran.code, f"storage faults: {sum(ran.tests.values())}; {ran.line}"


def soak(more: Sequence[str]) -> tuple[int, str]:
    """Play thousands of schedules; its own last line holds the figures."""
    done = subprocess.run([sys.executable, "-m", "tests.soak", *more], cwd=ROOT, check=False)
    return done.returncode, "its figures stand above"


def logfire(more: Sequence[str]) -> tuple[int, str]:
    """Run a job under the real package logfire, in an environment of its own, and look at what it exports."""
    from benchmarks.compare.envs import CouldNotRun, ensure, versions

    try:
        python = ensure("logfire", this_project=True, lock_name="logfire")
        version = versions(python, ("logfire",))["logfire"]
    except CouldNotRun as problem:
        return 1, f"the environment could not be made: {problem}"
    # The suite's own settings and helpers need what is not installed there.
    apart = ("-q", "-c", os.devnull, f"--rootdir={ROOT}", "--noconftest", "-p", "no:cacheprovider")
    ran = run_tests(*apart, "tests/apart/with_logfire.py", *more, python=str(python))
    return ran.code or int(not ran.tests["passed"]), f"logfire {version}; {ran.line}"


@dataclass(frozen=True, slots=True)
class Proof:
    """What it shows, and roughly how long it takes on two cores."""

    run: Callable[[Sequence[str]], tuple[int, str]]
    shows: str
    lasts: str


PROOFS = {
    "matrix": Proof(matrix, "every case of docs/durability_test_matrix.md, counted outside", "2 min"),
    "model": Proof(model, "the rules as a small model, all schedules; the engine ends as the model says", "1 min"),
    "mutants": Proof(mutants, "each rule of the model left out once: some program notices", "20 s"),
    "planted": Proof(planted, "each safety rule of the engine broken once on purpose: some test goes red", "5 min"),
    "crash": Proof(crash, "real processes killed at every numbered point, for every kind of guarantee", "5 min"),
    "power": Proof(power, "power lost at every write of the ledger: nothing that was promised is gone", "20 s"),
    "storage": Proof(storage, "full disks, EIO, damage, other owners: nothing sent without a record", "1 min"),
    "logfire": Proof(logfire, "spans with the ids of run, step and call come through the real Logfire", "30 s"),
    "soak": Proof(soak, "two kills exhaustively, syscalls, answers, 10,000 random schedules", "1 h"),
}


def listed() -> str:
    """All proofs, with what each shows and how long it takes."""
    lines = [f"  {name:8} {proof.shows} ({proof.lasts})" for name, proof in PROOFS.items()]
    return "\n".join(["python3 tasks.py prove NAME, one of:", *lines])


def main(arguments: Sequence[str]) -> int:
    """Run one proof, or list them."""
    parser = argparse.ArgumentParser(prog="tasks.py prove", description=__doc__, add_help=False)
    parser.add_argument("name", nargs="?", choices=list(PROOFS))
    options, more = parser.parse_known_args(arguments)
    if options.name is None:
        print(listed())
        return 0
    began = time.monotonic()
    code, line = PROOFS[options.name].run(more)
    print(f"{options.name}: {line}; {'ok' if code == 0 else 'FAILED'} in {time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
