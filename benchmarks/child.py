"""What needs a process of its own: `python -m benchmarks.child seed|resume|long --calls N --dir DIR`."""

import argparse
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUN_ID = "bench"


def seed(folder: Path, calls: int) -> dict[str, Any]:
    """Make `calls` calls and be killed inside the last of them."""
    import perdure
    from benchmarks import jobs

    def enter(number: int) -> None:
        if number == calls - 1:
            os.kill(os.getpid(), signal.SIGKILL)

    with perdure.open(f"sqlite:///{folder / 'runtime_state.db'}") as engine:
        outcome = engine.run(jobs.resumable_agent(calls, enter), run_id=RUN_ID)
    raise RuntimeError(f"the run ended {outcome.status} although it should have been killed")


def resume(folder: Path, calls: int) -> dict[str, Any]:
    """Take the killed run over and measure the time until it makes its next new call.

    A small run elsewhere comes first, so that imports (made on first use) are not part of that time; the
    first open with them is reported beside it.
    """
    import perdure
    from benchmarks import jobs

    entries: dict[int, float] = {}

    def enter(number: int) -> None:
        entries[number] = time.perf_counter()

    began = time.perf_counter()
    with perdure.open(f"sqlite:///{folder / 'first' / 'runtime_state.db'}") as engine:
        engine.run(jobs.sync_agent(1, lambda: None))
    start = time.perf_counter()
    with perdure.open(f"sqlite:///{folder / 'runtime_state.db'}") as engine:
        outcome = engine.run(jobs.resumable_agent(calls, enter), run_id=RUN_ID)
    if outcome.status != "succeeded" or sorted(entries) != [calls - 1, calls]:
        raise RuntimeError(f"the resume ended {outcome.status} and made the calls {sorted(entries)}")
    return {
        "resume_milliseconds": (entries[calls] - start) * 1000,
        "first_run_milliseconds": (start - began) * 1000,
    }


def long(folder: Path, calls: int) -> dict[str, Any]:
    """Make one long run that keeps its messages, and see whether its calls get slower."""
    import perdure
    from benchmarks import jobs
    from benchmarks.measure import Stopwatch, last_to_first_tenth

    with perdure.open(f"sqlite:///{folder / 'runtime_state.db'}") as engine:
        watch = Stopwatch()
        engine.run(jobs.long_agent(calls, watch.enter, []), run_id=RUN_ID)
        run = watch.stop(calls)
    disk_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return {
        "last_to_first_tenth": last_to_first_tenth(run.gaps_seconds),
        "last_to_first_tenth_cpu": last_to_first_tenth(run.cpu_gaps_seconds),
        "disk_bytes_per_call": disk_bytes / calls,
        "cpu_seconds_per_1000": run.cpu_seconds / calls * 1000,
    }


def memory(folder: Path, calls: int) -> dict[str, Any]:
    """Make one long run that keeps nothing, and see how much memory the engine has gained since call 100."""
    import perdure
    from benchmarks import jobs

    sizes: list[float] = []
    entered = 0

    def enter() -> None:
        nonlocal entered
        entered += 1
        if entered in (min(100, calls), calls):
            sizes.append(_resident_mb())

    with perdure.open(f"sqlite:///{folder / 'runtime_state.db'}") as engine:
        engine.run(jobs.sync_agent(calls, enter), run_id=RUN_ID)
    return {"growth_mb": sizes[-1] - sizes[0], "resident_mb": sizes[-1]}


def _resident_mb() -> float:
    """The memory in use now; where the system does not tell, the most that ever was."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


SCENARIOS: dict[str, Callable[[Path, int], dict[str, Any]]] = {
    "seed": seed, "resume": resume, "long": long, "memory": memory}  # fmt: skip


def main() -> None:
    """Run one scenario and print its figures as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    options = parser.parse_args()
    print(json.dumps(SCENARIOS[options.scenario](options.dir, options.calls)))


if __name__ == "__main__":
    main()
