"""`python3 tasks.py compare`: the same mail and the same change of code on other systems and on Perdure.

Every system gets a virtual environment of its own under .compare/, made from a hash-locked file, and its documented
defaults. docs/comparison.md says what is done and what is not compared. It takes some minutes and is no test.
"""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.compare import envs, report
from benchmarks.compare.systems import SYSTEMS, System
from benchmarks.compare.trial import Setting, names_of, run_trial
from benchmarks.compare.verdicts import Experiment, Facts, judge


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 tasks.py compare", description=__doc__)
    parser.add_argument("--trials", type=int, default=3, help="trials of each test with a kill (3)")
    parser.add_argument("--watch", type=float, default=60, metavar="SECONDS", help="watch a resumed job so long (60)")
    parser.add_argument("--jobs", type=int, default=3, help="trials at the same time (3)")
    parser.add_argument("--only", metavar="KEYS", help=f"some systems only: {','.join(s.key for s in SYSTEMS)}")
    parser.add_argument("--record", action="store_true", help="write benchmarks/compare/results.json, then the README")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else [system.key for system in SYSTEMS]
    unknown = set(chosen) - {system.key for system in SYSTEMS}
    if unknown:
        parser.error(f"--only: no such system: {', '.join(sorted(unknown))}")
    if options.trials < 1 or options.jobs < 1 or options.watch <= 0:
        parser.error("--trials, --jobs and --watch must be above 0")
    if options.record and (options.only or options.trials < 3):
        parser.error("--record wants all systems and at least 3 trials")
    options.systems = [system for system in SYSTEMS if system.key in chosen]
    return options


@contextmanager
def _running_server(system: System, python: Path) -> Iterator[str]:
    if system.server is None:
        yield ""
        return
    with (
        tempfile.TemporaryDirectory(prefix="compare-", ignore_cleanup_errors=True) as folder,
        system.server(python, Path(folder)) as address,
    ):
        yield address


def _row(system: System, options: argparse.Namespace) -> report.Row:
    """Try one system; whatever keeps it from running stands in its row."""
    tests = tuple(test.name for test in system.tests)
    row = report.Row(system.key, system.title, {}, tests)
    try:
        python = envs.ensure(system.env, this_project=system.env == "perdure")
        row = replace(row, versions=envs.versions(python, system.packages))
        with _running_server(system, python) as address:
            setting = Setting(python, "", address, options.watch)
            return replace(row, trials=_trials(system, setting, options))
    except envs.CouldNotRun as reason:
        print(f"{system.key}: could not run: {reason}", file=sys.stderr)
        return replace(row, could_not_run=str(reason).replace(str(envs.ROOT), "."))


def _trials(system: System, setting: Setting, options: argparse.Namespace) -> dict[str, list[Facts]]:
    def one(named: tuple[Experiment, str]) -> tuple[Experiment, Facts]:
        test, name = named
        facts = run_trial(system, test, replace(setting, name=name))
        seen = f"{judge(test, facts)}, {facts.watched_seconds:.0f} s; {' '.join(facts.detail.split())[:100]}"
        print(f"{name}: {seen}", file=sys.stderr, flush=True)
        return test, facts

    found: dict[str, list[Facts]] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for test, facts in pool.map(one, names_of(system, options.trials)):
            found.setdefault(test.name, []).append(facts)
    return found


def main() -> None:
    """Run the trials, print the tables."""
    options = _options()
    rows = tuple(_row(system, options) for system in options.systems)
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    today = datetime.now(UTC).date().isoformat()
    results = report.Results(today, machine, options.trials, options.watch, rows)
    if options.record:
        report.RESULTS.write_text(report.encode(results), "utf-8")
        print("recorded; now: python3 tasks.py docs", file=sys.stderr)
    print(report.encode(results) if options.output == "json" else report.markdown(results), end="")


if __name__ == "__main__":
    main()
