"""Measure what docs/reliability.md tells, and keep it in docs/reliability_figures.json.

Each measurement runs one command that anyone can run, and keeps what it said with the commit, the date and the
versions. A figure that was not measured is not on the page. `python3 tasks.py figures` measures all, with names only
those; what stands behind `--` goes to the command: `python3 tasks.py figures soak -- --seed 2`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs/reliability_figures.json"
Figures = dict[str, Any]


def soak(more: list[str]) -> Figures:
    """Play the soak and keep its flat figures."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "soak.json")
        done = subprocess.run([sys.executable, "-m", "tests.soak", "--json", str(told), *more], cwd=ROOT, check=False)
        found: Figures = json.loads(told.read_text("utf-8"))
    kept = {key: value for key, value in found.items() if key not in surroundings() and key != "commit_is_clean"}
    return kept | {"exit_code": done.returncode}


def model(more: list[str]) -> Figures:
    """Print the model's two tables and add up their columns."""
    command = [sys.executable, "-m", "tests.model.table", *more]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    programs, _, mutants = printed.partition("\n\n")
    explored, broken = _rows(programs), _rows(mutants)
    return {
        "programs": len(explored),
        "ledgers": sum(int(row[2]) for row in explored),
        "lives": sum(int(row[3]) for row in explored),
        "schedules": sum(int(row[4]) for row in explored),
        "broken_promises": sum(int(row[5]) for row in explored),
        "broken_rules": len(broken),
        "broken_rules_noticed": sum(int(row[4]) > 0 for row in broken),
    }


def _rows(table: str) -> list[list[str]]:
    """Return the cells of a Markdown table, without its head."""
    lines = [line for line in table.strip().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def tests(*chosen: str) -> Callable[[list[str]], Figures]:
    """Return a measurement that runs some tests and counts them."""

    def run(more: list[str]) -> Figures:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "report.xml")
            command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *chosen, *more]
            subprocess.run(command, cwd=ROOT, check=False)
            suite = ElementTree.parse(report).getroot()[0].attrib
        bad = int(suite["failures"]) + int(suite["errors"])
        skipped = int(suite["skipped"])
        return {
            "tests": int(suite["tests"]),
            "passed": int(suite["tests"]) - bad - skipped,
            "failed": bad,
            "skipped": skipped,
        }

    return run


# What is measured: the command as a reader types it, and how it is done here.
MEASURED: Mapping[str, tuple[str, Callable[[list[str]], Figures]]] = {
    "matrix": ("tasks.py test -m matrix", tests("-m", "matrix")),
    "crash points": ("tasks.py test tests/crash/test_crash_points.py", tests("tests/crash/test_crash_points.py")),
    "planted bugs": ("tasks.py test tests/crash -k planted", tests("tests/crash", "-k", "planted")),
    "power loss": ("tasks.py test tests/crash/test_power_loss.py", tests("tests/crash/test_power_loss.py")),
    "storage faults": ("tasks.py test tests/crash -k storage_faults", tests("tests/crash", "-k", "storage_faults")),
    "engine and model": ("tasks.py test tests/property -k model", tests("tests/property", "-k", "model")),
    "model": ("python -m tests.model.table", model),
    "soak": ("tasks.py soak", soak),
}


def surroundings() -> Figures:
    """Return the versions that a measurement was made with."""
    import apsw

    import perdure

    return {
        "commit": _said("git", "rev-parse", "HEAD"),
        "perdure": perdure.__version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def _said(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def measure(name: str, more: list[str]) -> Figures:
    """Measure one thing and return its entry in the file."""
    command, work = MEASURED[name]
    clean = not _said("git", "status", "--porcelain", "--", "src", "tests")
    began = time.monotonic()
    figures = work(more)
    seconds = round(time.monotonic() - began)
    when = datetime.now(UTC).strftime("%d %B %Y")
    typed = command if command.startswith("python") else f"python3 {command}"
    told = {"command": " ".join([typed, *more]), "on": when, "clean": clean, **surroundings()}
    return told | {"figures": figures | {"seconds": figures.get("seconds", seconds)}}


def recorded() -> dict[str, Figures]:
    """Return what the file holds, by the name of the measurement."""
    found: dict[str, Figures] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    return found


def main(arguments: list[str] | None = None) -> int:
    """Measure and keep; 1 if something that was measured is not as it must be."""
    words = sys.argv[1:] if arguments is None else arguments
    own, _, more = (
        (words, "", []) if "--" not in words else (words[: words.index("--")], "", words[words.index("--") + 1 :])
    )
    parser = argparse.ArgumentParser(prog="python3 tasks.py figures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(MEASURED)} (all)")
    names: list[str] = parser.parse_args(own).names or list(MEASURED)
    if unknown := [name for name in names if name not in MEASURED]:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(MEASURED)}")
    bad = 0
    for name in names:
        entry = measure(name, more)
        kept = recorded() | {name: entry}
        text = json.dumps({key: kept[key] for key in MEASURED if key in kept}, indent=1)
        FILE.write_text(text + "\n", "utf-8")
        print(f"{name}: {entry['figures']}")
        bad += broken(entry["figures"])
    return int(bad > 0)


def broken(figures: Mapping[str, Any]) -> bool:
    """Return whether figures show a broken promise, or that nothing was done."""
    zero = ("failed", "duplicates", "losses", "stuck", "usurped", "broken_promises", "exit_code", "failed_labels")
    some = ("tests", "schedules", "receipts", "broken_rules")
    nothing_done = any(name in figures and not figures[name] for name in some)
    missed = figures.get("broken_rules", 0) != figures.get("broken_rules_noticed", 0)
    return nothing_done or missed or any(figures.get(name) for name in zero)


if __name__ == "__main__":
    sys.exit(main())
