"""One process life of a run: open the ledger through the library, start or go on with one run, report in a file."""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.testing.order import Order

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.model.run import Outcome
    from perdure.runtime.life import Tuning
    from perdure.testing.clock import FakeClock


def warm_up() -> None:
    """Import and cache what every life needs, by a whole run in a ledger that is thrown away."""
    from perdure.engine import Engine

    for name in ("encodings.idna", "perdure.config.job_file", "perdure.testing.clock"):
        importlib.import_module(name)

    async def main(run: Any) -> str:
        return str(await run.memo("nothing", str))

    with tempfile.TemporaryDirectory() as folder, Engine(f"sqlite:///{folder}/ledger.db") as engine:
        engine.run(main)


def obey(members: Mapping[str, Any]) -> int:
    """Live one life and return the exit code that the command line would have."""
    from perdure.engine import Engine
    from perdure.model.errors import PerdureError

    order = Order.from_members(members)
    sys.path[:] = [*order.import_paths, *(path for path in sys.path if path not in order.import_paths)]
    clock = _clock(order)
    try:
        with Engine(
            f"sqlite:///{Path(order.state_dir).absolute()}/runtime_state.db",
            policies=order.policies,
            state_dir=order.state_dir,
            tuning=_tuning(order),
            clock=clock,
            command_flags=f"--state-dir {order.state_dir}",
            entrypoint="testing",
        ) as engine:
            outcome = _live(engine, order)
            _report(order, _document(outcome), engine.calls(outcome.run_id), clock)
    except PerdureError as problem:
        _report(order, problem.as_document(), [], clock)
        return problem.exit_code
    return outcome.exit_code


def _live(engine: Engine, order: Order) -> Outcome:
    from perdure.model.errors import NotFound

    if order.reopens:
        try:
            return engine.resume(order.run_id, kill=order.kills_owner)
        except NotFound:
            pass  # the crash came before the run was accepted: nobody promised anything yet
    return engine.run(_job(order), order.inputs, run_id=order.run_id)


def _job(order: Order) -> str | Callable[..., Any]:
    """Return what to run: a job file and ``file.py:main`` are for the engine, a module is imported here."""
    module, colon, function = order.job.rpartition(":")
    if not colon or module.endswith(".py") or "/" in order.job:
        return order.job
    main: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return main


def _tuning(order: Order) -> Tuning:
    from perdure.runtime.life import Tuning

    fields: dict[str, Any] = dict(order.tuning)
    return Tuning(**fields)


def _clock(order: Order) -> FakeClock | None:
    if order.clock is None:
        return None
    from perdure.testing.clock import FakeClock

    return FakeClock(order.clock, skips_sleeps=True)


def _document(outcome: Outcome) -> Mapping[str, Any]:
    from perdure.runtime.report import run_document

    return run_document(outcome)


def _report(order: Order, document: Mapping[str, Any], calls: list[dict[str, Any]], clock: FakeClock | None) -> None:
    told = {"document": document, "calls": calls, "clock": None if clock is None else clock.now()}
    new = f"{order.report_path}.new"
    with open(new, "w", encoding="utf-8") as file:
        json.dump(told, file)
    os.replace(new, order.report_path)
