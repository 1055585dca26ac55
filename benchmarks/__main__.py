"""`python3 -m benchmarks`: the engine beside raw SQLite, as ratios taken in one run on one machine.

The yardstick is two durable commits a call through apsw (WAL, synchronous=FULL) on a new database file. Each
scenario runs in turns with it; the figure is the median of the pair ratios. These are benchmarks and no
tests: they exit 0 whenever they could measure.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from benchmarks import engine_runs, processes, raw_sqlite
from benchmarks.measure import Measured, Run, alternate
from benchmarks.report import Row, document, row_of, table

ASYNC_RUNS = 100


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks", description=__doc__)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--calls", type=int, default=1000, help="calls of the one run (1000)")
    parser.add_argument("--pairs", type=int, default=5, help="how often each scenario runs beside its yardstick (5)")
    parser.add_argument("--quick", action="store_true", help="300 calls, 3 pairs, 2,000 instead of 10,000 calls")
    parser.add_argument("--dir", type=Path, default=Path.cwd(), help="put the databases in a folder in here (.)")
    parser.add_argument("--raw", action="store_true", help="the yardstick's own rows only")
    options = parser.parse_args()
    if options.quick:
        options.calls, options.pairs = min(options.calls, 300), min(options.pairs, 3)
    if options.calls < 10 or options.pairs < 1:
        parser.error("--calls must be at least 10 and --pairs at least 1")
    return options


def _raw_scenarios(calls: int) -> dict[str, Measured]:
    return {
        "raw: itself again": lambda folder: raw_sqlite.two_commits(folder, calls),
        "raw: WAL stretched before": lambda folder: raw_sqlite.two_commits(folder, calls, warm=True),
        "raw: stretched, result with next intent": lambda folder: raw_sqlite.fused(folder, calls),
        f"raw: {ASYNC_RUNS} runs, group commit": lambda f: raw_sqlite.grouped(f, ASYNC_RUNS, max(1, calls // 10)),
    }


def _engine_scenarios(calls: int) -> dict[str, tuple[Measured, float | None]]:
    return {
        "one sync run, strict": (lambda folder: engine_runs.one_sync_run(folder, calls, strict=True), 0.85),
        "one sync run": (lambda folder: engine_runs.one_sync_run(folder, calls, strict=False), 1.6),
        "one async run, strict": (lambda f: engine_runs.async_runs(f, 1, calls, strict=True), 0.5),
        "one async run": (lambda folder: engine_runs.async_runs(folder, 1, calls, strict=False), None),
        f"{ASYNC_RUNS} async runs": (
            lambda f: engine_runs.async_runs(f, ASYNC_RUNS, max(1, calls // 10), strict=False),
            4.0,
        ),
    }


def _paired_rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    def yardstick(place: Path) -> Run:
        return raw_sqlite.two_commits(place, options.calls)

    for name, measured in _raw_scenarios(options.calls).items():
        yield row_of(name, alternate(folder / name, measured, yardstick, options.pairs))
    if options.raw:
        return
    engine_runs.warm_up(folder / "warm-up")
    for name, (measured, target) in _engine_scenarios(options.calls).items():
        yield row_of(name, alternate(folder / name, measured, yardstick, options.pairs), at_least=target)


def _process_rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    many = 2_000 if options.quick else 10_000
    rounds = 1 if options.quick else 3
    yield processes.resume_row(folder, 100, rounds, at_most=None)
    yield processes.resume_row(folder, many, rounds, at_most=many * 0.015)
    yield from processes.long_rows(folder, many)
    yield processes.start_row("import perdure", ["-c", "import perdure"], 2 * options.pairs, at_most=60)
    yield processes.start_row("perdure --help", ["-c", processes.HELP], 2 * options.pairs, at_most=100)


def main() -> None:
    """Measure and print."""
    options = _options()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=options.dir, prefix=".bench-") as folder:
        measured = _paired_rows(Path(folder), options)
        for row in measured if options.raw else chain(measured, _process_rows(Path(folder), options)):
            rows.append(row)
            print(f"{row.name}: {row.figure:.2f} {row.unit}", file=sys.stderr)
    shown = {"calls": options.calls, "pairs": options.pairs, "quick": options.quick}
    print(document(rows, shown) if options.output == "json" else table(rows))


if __name__ == "__main__":
    main()
