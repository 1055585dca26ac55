"""Figures that are taken from processes of their own: resume, long runs, memory, start."""

import json
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.report import Row

ROOT = Path(__file__).resolve().parents[1]
HELP = "import sys; sys.argv = ['perdure', '--help']; from perdure.cli.main import main; sys.exit(main())"
CHILD_TIMEOUT_SECONDS = 600


def _child(scenario: str, folder: Path, calls: int, *, killed: bool = False) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.child",
        scenario,
        "--calls",
        str(calls),
        "--dir",
        str(folder),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=CHILD_TIMEOUT_SECONDS, check=False)
    if done.returncode != (-signal.SIGKILL if killed else 0):
        raise RuntimeError(f"{scenario} ended with {done.returncode}:\n{done.stderr}")
    return {} if killed else dict(json.loads(done.stdout))


def resume_row(folder: Path, calls: int, rounds: int, *, at_most: float | None) -> Row:
    """Kill a run in call `calls`, take it over, and measure open to next new call."""
    seed = folder / f"seed-{calls}"
    seed.mkdir(parents=True)
    _child("seed", seed, calls, killed=True)
    figures, first = [], []
    for turn in range(rounds):
        place = folder / f"resume-{calls}-{turn}"
        shutil.copytree(seed, place)
        resumed = _child("resume", place, calls)
        figures.append(resumed["resume_milliseconds"])
        first.append(resumed["first_run_milliseconds"])
    figure = statistics.median(figures)
    return Row(
        f"resume, killed in call {calls:,}",
        figure,
        "ms",
        at_most=at_most,
        lowest=min(figures),
        highest=max(figures),
        detail=f"{figure / calls:.3f} ms a call, open to next new call; "
        f"imports, a new ledger and one call before it: {statistics.median(first):.0f} ms",
    )


def long_rows(folder: Path, calls: int) -> list[Row]:
    """One long run: does it get slower, how much disk, CPU and memory."""
    from benchmarks.payload import ARGS_BYTES, RESULT_BYTES

    place = folder / "long"
    place.mkdir(parents=True)
    figures = _child("long", place, calls)
    other = folder / "memory"
    other.mkdir(parents=True)
    memory = _child("memory", other, calls)
    payload = ARGS_BYTES + RESULT_BYTES
    disk = figures["disk_bytes_per_call"]
    return [
        Row(f"last tenth / first tenth of {calls:,} calls", figures["last_to_first_tenth"], "x", at_most=1.1,
            detail=f"with a growing message list; of CPU time {figures['last_to_first_tenth_cpu']:.2f} x"),
        Row("disk beyond the payload", disk - payload, "B/call", at_most=1000,
            detail=f"{disk:,.0f} B in all, payload {payload} B"),
        Row("CPU of one long run", figures["cpu_seconds_per_1000"], "s/1,000 calls", at_most=0.3),
        Row(f"memory growth, call 100 to {calls:,}", memory["growth_mb"], "MB", at_most=3,
            detail=f"{memory['resident_mb']:.0f} MB in all"),
    ]  # fmt: skip


def _seconds(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def start_row(name: str, arguments: list[str], pairs: int, *, at_most: float) -> Row:
    """Measure a start over that of a bare interpreter, in turns."""
    over = [(_seconds(*arguments) - _seconds("-c", "pass")) * 1000 for _ in range(pairs)]
    return Row(name, statistics.median(over), "ms", at_most=at_most, lowest=min(over), highest=max(over),
               detail="over a bare interpreter")  # fmt: skip
