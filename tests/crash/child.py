"""One process life: open the ledger through the library, run or resume one run, print one JSON line.

`python -m tests.crash.child ORDER` with an order as `Order.text` writes it. The exit code is the one that the outcome (or
the error) has in the library, so that the parent sees what a shell would see.
"""

import importlib
import json
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

JOBS = Path(__file__).resolve().parent / "jobs"
PLANT_VARIABLE = "CRASH_LOOP_PLANTED_BUG"
QUICK = {"quiet_seconds": 0.05, "first_retry_seconds": 0.01, "wait_poll_seconds": 0.02}


@dataclass(frozen=True)
class Order:
    """What one life is to do.

    `do` is `run` (start, or attach by the same id), `resume` (which starts the run where the crash came before it was
    accepted) or `take_over` (resume, and kill the owner first). `job` is `module:function` in the jobs folder. The wall
    clock of the life is ahead (or behind, below zero) of the machine's. `command` is another thing: the command line
    `perdure` with `inputs["words"]`.
    """

    state_dir: str
    job: str
    run_id: str = "job"
    do: str = "run"
    inputs: dict[str, Any] = field(default_factory=dict)
    tuning: dict[str, Any] = field(default_factory=dict)
    clock_ahead_seconds: float = 0.0

    @property
    def text(self) -> str:
        """The order as one argument of a command line."""
        return json.dumps(asdict(self))


def obey(order: Order) -> int:
    """Live one life and return the exit code."""
    if planted := os.environ.get(PLANT_VARIABLE):
        from tests.crash.planted import plant

        plant(planted)
    if str(JOBS) not in sys.path:
        sys.path.insert(0, str(JOBS))
    import perdure

    if order.do == "command":
        from perdure.cli.main import main as command_line

        return command_line(order.inputs["words"])
    module, _, function = order.job.partition(":")
    main = getattr(importlib.import_module(module), function)
    try:
        with _open(order) as engine:
            outcome, entered = _live(engine, main, order)
    except perdure.PerdureError as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}), flush=True)
        return error.exit_code
    print(json.dumps({**_document(outcome), "entered": entered}), flush=True)
    return outcome.exit_code


def _open(order: Order) -> Any:
    import perdure

    tuning = perdure.Tuning(**{**QUICK, **order.tuning})
    if not order.clock_ahead_seconds:
        return perdure.open(state_dir=order.state_dir, tuning=tuning)
    from perdure.ports.clock import SystemClock, after

    class Stepped(SystemClock):
        """The machine's clock after somebody has set it."""

        def now(self) -> str:
            return after(super().now(), order.clock_ahead_seconds)

    url = f"sqlite:///{order.state_dir}/runtime_state.db"
    return perdure.Engine(url, state_dir=order.state_dir, tuning=tuning, clock=Stepped())


def _live(engine: Any, main: Any, order: Order) -> tuple[Any, str]:
    import perdure

    if order.do in ("resume", "take_over"):
        try:
            return engine.resume(order.run_id, kill=order.do == "take_over"), order.do
        except perdure.NotFound:
            # The crash came before the run was accepted: nobody promised anything yet.
            return engine.run(main, order.inputs, run_id=order.run_id), "run"
    return engine.run(main, order.inputs, run_id=order.run_id), "run"


def _document(outcome: Any) -> dict[str, Any]:
    from perdure.runtime.report import run_document

    return run_document(outcome)


if __name__ == "__main__":
    sys.exit(obey(Order(**json.loads(sys.argv[1]))))
