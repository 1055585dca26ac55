"""``perdure fork``: a new run from an old one, and its first life in this process."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.cli.opening import engine_of, flags_of
from perdure.cli.output import Output, note
from perdure.cli.run_cmd import live_life, telling
from perdure.cli.watch_cmd import shown
from perdure.core.forking import fork_counts
from perdure.core.ways_on import with_flags
from perdure.model.toolcall import INNER_NAMESPACES

if TYPE_CHECKING:
    from perdure.model.run import RunRow
    from perdure.runtime.forks import ForkPlan

SHOWN = 5


def fork(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure fork``."""
    from perdure.config.inputs import parse_inputs

    with engine_of(options) as engine:
        run_id: str = options.run_id if options.run_id is not None else engine.new_run_id()
        drawn = engine.fork_plan(options.run, at=options.at, effects=options.effects)
        inputs = parse_inputs(options.input, _declared(drawn.parent))
        _tell(drawn, options)
        with telling(engine, run_id, options.wait):
            show = shown(engine, run_id, output, quiet=options.quiet)
            return live_life(
                output,
                engine,
                run_id,
                lambda: engine.fork(
                    options.run,
                    at=options.at,
                    effects=options.effects,
                    inputs=inputs,
                    new_run_id=run_id,
                    wait=options.wait,
                ),
                show,
            )


def _declared(parent: RunRow) -> Mapping[str, Any]:
    """Return the inputs that a fork may have; only those of a job file say of which kind they are."""
    from perdure.runtime.accept import spec_of

    inputs: dict[str, Any] = spec_of(parent)["inputs"]
    is_file = parent.job_path is not None and not parent.job_path.endswith(".py")
    return inputs if is_file else dict.fromkeys(inputs)


def _tell(drawn: ForkPlan, options: argparse.Namespace) -> None:
    """Say what the fork begins with and, before anything is really sent, what may be done twice."""
    where = drawn.checkpoint.checkpoint_id if drawn.checkpoint is not None else "its beginning"
    calls = [row for row in drawn.receipts if row.tool_namespace not in INNER_NAMESPACES]
    others = len(drawn.receipts) - len(calls)
    beside = f", and {others} other receipt(s): of memos, model turns, answers" if others else ""
    note(f"fork of {drawn.parent.run_id} at {where}: {fork_counts(len(calls), 0)}{beside}")
    if options.effects != "live":
        return
    note("warning: this fork really sends; its calls have keys of their own, which no provider knows")
    if not drawn.later:
        return
    note(f"warning: {len(drawn.later)} effect(s) lie beyond this point, and may be done twice:")
    note(*(f"  {row.tool_call_id} {row.tool_name}: {row.status}" for row in drawn.later[:SHOWN]))
    if len(drawn.later) > SHOWN:
        listed = with_flags(f"perdure calls ls {drawn.parent.run_id}", flags_of(options))
        note(f"  and {len(drawn.later) - SHOWN} more: {listed}")
    note("  a call of the same tool and scope is asked about first; one with another scope is sent")
