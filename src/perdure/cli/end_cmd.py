"""``perdure runs cancel``: end runs that have not ended."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from perdure.cli.opening import engine_of
from perdure.cli.output import Output, note, visible
from perdure.core.ways_on import with_flags

if TYPE_CHECKING:
    from perdure.model.run import Outcome


def cancel(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure runs cancel``; 1 where a run had ended otherwise before."""
    with engine_of(options) as engine:
        chosen = list(dict.fromkeys(engine.find_run(text) for text in options.runs))  # a wrong id: nothing is changed
        found = [engine.cancel(run_id, reason=options.reason, kill=options.kill_owner) for run_id in chosen]
    show = with_flags("perdure runs show", output.flags)
    listed = [_document(outcome, show) for outcome in found]
    output.answer(
        {"schema": "perdure.cancel/v1", "runs": listed},
        lambda: "".join(f"{visible(item['run_id'])}: {visible(item['said'])}\n" for item in listed),
        rows="runs",
    )
    for outcome in found:
        if outcome.status == "cancelled" and outcome.waiting_for:
            lines = (
                line
                for item in outcome.waiting_for
                for line in (f"  {item.summary}", *(f"    {command}" for command in item.commands))
            )
            note(f"run {outcome.run_id}: what was sent and not answered stays in the inbox:", *lines)
    return 1 if any(outcome.status in ("succeeded", "failed") for outcome in found) else 0


def _document(outcome: Outcome, show: str) -> dict[str, Any]:
    return {
        "run_id": outcome.run_id,
        "status": str(outcome.status),
        "said": _said(outcome, show),
        "waiting_for": [item.tool_call_id for item in outcome.waiting_for],
    }


def _said(outcome: Outcome, show: str) -> str:
    if outcome.status == "cancelled":
        return f"cancelled ({outcome.note})"
    if outcome.status == "running":
        return f"asked for; {outcome.note}; see: {show} {outcome.run_id}"
    return f"{outcome.status} before; nothing was cancelled"
