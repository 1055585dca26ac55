"""Commands by which a person decides: ``resolve``, ``approve``, ``deny``, ``answer``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from perdure.cli.look_cmd import call_document
from perdure.cli.opening import engine_of
from perdure.cli.output import Output, note, visible
from perdure.cli.run_cmd import go_on
from perdure.cli.values import value_of
from perdure.model.errors import UsageError

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.model.toolcall import CallRow


def resolve(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure resolve``."""
    says = "same" if options.same is not None else str(options.says)
    result = _checked_result(options, says)
    with engine_of(options) as engine:
        row = engine.resolve(
            options.call,
            says,
            result=result,
            ref=options.ref,
            same_as=options.same or None,
            reason=options.reason,
            force=options.force,
        )
        if says == "happened" and options.result is None:
            note(
                f"no --result was given: the caller of {row.tool_call_id} will get None; if it needs more: "
                f"perdure resolve {row.tool_call_id} --happened --result JSON"
            )
        return _after(options, output, engine, row)


def _checked_result(options: argparse.Namespace, says: str) -> Any:
    if says != "happened" and (options.result is not None or options.ref is not None):
        raise UsageError("--result and --ref belong to --happened", next_command="perdure resolve --help")
    if says != "did_not_happen" and options.force:
        raise UsageError("--force belongs to --did-not-happen", next_command="perdure resolve --help")
    if options.ref is not None and not options.ref.strip():
        raise UsageError("--ref is empty: give the provider's own id, or leave it out")
    return None if options.result is None else value_of(options.result, "--result")


def approve(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure approve``."""
    with engine_of(options) as engine:
        return _after(options, output, engine, engine.approve(options.question))


def deny(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure deny``."""
    if not options.reason.strip():
        raise UsageError("--reason is empty: the agent is told why", next_command="perdure deny --help")
    with engine_of(options) as engine:
        return _after(options, output, engine, engine.deny(options.question, reason=options.reason))


def answer(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure answer``."""
    if not options.text.strip():
        raise UsageError("TEXT is empty: say what you answer, or what you found", next_command="perdure answer --help")
    with engine_of(options) as engine:
        engine.answer(options.question, options.text)
        run_id = engine.run_of_question(options.question)
        if options.resume:
            note(f"{options.question}: {options.text}")
            return go_on(output, engine, run_id)
        found = engine.outcome(run_id)
    output.answer(
        {"schema": "perdure.answer/v1", "id": options.question, "answer": options.text, "run_id": run_id},
        lambda: f"{options.question}: {visible(options.text)}\n",
    )
    if found.status == "queued":
        note(f"run {run_id}: {found.status}; go on with: {found.resume_command}")
    return 0


def _after(options: argparse.Namespace, output: Output, engine: Engine, row: CallRow) -> int:
    if options.resume:
        note(f"{row.tool_call_id} ({row.tool_name}): {row.status}")
        return go_on(output, engine, row.run_id)
    document = call_document(engine, row.tool_call_id)
    output.answer(document, lambda: f"{row.tool_call_id} ({visible(row.tool_name)}): {row.status}\n")
    found = engine.outcome(row.run_id)
    if found.status.ended:
        note(f"run {found.run_id} has ended ({found.status}); its program does not see this unless it is resumed")
    if found.status in ("waiting", "queued"):
        more = f"{len(found.waiting_for)} more to decide, see perdure inbox; " if found.waiting_for else ""
        note(f"run {found.run_id}: {found.status}; {more}go on with: {found.resume_command}")
    return 0
