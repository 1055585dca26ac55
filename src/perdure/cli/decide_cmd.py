"""Commands by which a person decides: ``resolve``, ``approve``, ``deny``, ``answer``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.cli.look_cmd import call_document
from perdure.cli.opening import engine_of
from perdure.cli.output import Output, note, visible
from perdure.cli.run_cmd import go_on
from perdure.cli.values import mapping_of, value_of
from perdure.core.ways_on import with_flags
from perdure.model.errors import PerdureError, UsageError

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
        ended = engine.outcome(row.run_id).status in ("cancelled", "succeeded")
        if says == "happened" and options.result is None and not ended:
            say = (
                f"no --result was given: the caller of {row.tool_call_id} will get None; if it needs more: "
                f"perdure resolve {row.tool_call_id} --happened --result JSON"
            )
            note(with_flags(say, output.flags))
        if says == "abandon" and not ended:
            note(f"the caller of {row.tool_call_id} gets CallAbandoned; a program that does not catch it fails by it")
        return _after(options, output, engine, row)


def _checked_result(options: argparse.Namespace, says: str) -> Any:
    if says != "happened" and (options.result is not None or options.ref is not None):
        raise UsageError("--result and --ref belong to --happened", next_command="perdure resolve --help")
    if says != "did_not_happen" and options.force:
        raise UsageError("--force belongs to --did-not-happen", next_command="perdure resolve --help")
    from perdure.runtime.left_out import LEFT_OUT

    if options.ref is not None and not options.ref.strip():
        raise UsageError("--ref is empty: give the provider's own id, or leave it out")
    return LEFT_OUT if options.result is None else value_of(options.result, "--result")


def approve(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure approve``."""
    edit = _edit(options)
    with engine_of(options) as engine:
        engine.add_tools(options.tools)
        if edit is not None:
            rows = [engine.approve(options.questions[0], edit=edit, reason=options.reason)]
        else:
            rows = engine.approve_all(options.questions, reason=options.reason)
        return _after_all(options, output, engine, rows)


def _edit(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the changed arguments of one call, or ``None``."""
    if options.edit is None and not options.edit_file:
        return None
    if len(options.questions) > 1:
        raise UsageError("an edit belongs to one question", next_command="perdure approve --help")
    if options.edit is not None:
        return mapping_of(options.edit, "--edit")
    try:
        text = sys.stdin.read() if options.edit_file == "-" else Path(options.edit_file).read_text("utf-8")
    except OSError as problem:
        raise UsageError(f"--edit-file: {options.edit_file}: {problem.strerror or problem}") from None
    except ValueError:
        raise UsageError(f"--edit-file: {options.edit_file} is no text in UTF-8") from None
    return mapping_of(text, "--edit-file")


def deny(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure deny``."""
    if not options.reason.strip():
        raise UsageError("--reason is empty: the agent is told why", next_command="perdure deny --help")
    with engine_of(options) as engine:
        rows = engine.deny_all(options.questions, reason=options.reason)
        return _after_all(options, output, engine, rows)


def answer(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure answer``."""
    if not options.text.strip():
        raise UsageError("TEXT is empty: say what you answer, or what you found", next_command="perdure answer --help")
    with engine_of(options) as engine:
        engine.answer(options.question, options.text)
        run_id = engine.run_of_question(options.question)
        if options.resume:
            note(f"{options.question}: {options.text}")
            with _kept():
                return go_on(output, engine, run_id, quiet=options.quiet)
        found = engine.outcome(run_id)
    output.answer(
        {"schema": "perdure.answer/v1", "id": options.question, "answer": options.text, "run_id": run_id},
        lambda: f"{options.question}: {visible(options.text)}\n",
    )
    if found.status == "queued":
        note(f"run {run_id}: {found.status}; {found.way_on}")
    return 0


def _after_all(options: argparse.Namespace, output: Output, engine: Engine, rows: list[CallRow]) -> int:
    """Tell what became of one or several calls, and of their runs."""
    if len(rows) == 1:
        return _after(options, output, engine, rows[0])
    if options.resume:
        if len({row.run_id for row in rows}) > 1:
            raise UsageError(
                "--resume goes on with one run, and these are calls of several",
                safe="The answers are kept; do not give them again. No run was gone on with.",
                next_command="perdure resume --all",
            )
        for row in rows[:-1]:
            note(f"{row.tool_call_id} ({row.tool_name}): {row.status}")
        return _after(options, output, engine, rows[-1])
    documents = [call_document(engine, row.tool_call_id) for row in rows]
    text = "".join(f"{row.tool_call_id} ({visible(row.tool_name)}): {row.status}\n" for row in rows)
    output.answer({"schema": "perdure.decided/v1", "calls": documents}, lambda: text, rows="calls")
    for run_id in dict.fromkeys(row.run_id for row in rows):
        _say_where(output, engine, run_id)
    return 0


def _after(options: argparse.Namespace, output: Output, engine: Engine, row: CallRow) -> int:
    if options.resume:
        note(f"{row.tool_call_id} ({row.tool_name}): {row.status}")
        with _kept():
            return go_on(output, engine, row.run_id, quiet=options.quiet)
    document = call_document(engine, row.tool_call_id)
    output.answer(document, lambda: f"{row.tool_call_id} ({visible(row.tool_name)}): {row.status}\n")
    _say_where(output, engine, row.run_id)
    return 0


@contextmanager
def _kept() -> Generator[None]:
    """Let a refusal to resume say that the answer stands all the same."""
    try:
        yield
    except PerdureError as problem:
        problem.safe = f"The answer is kept; do not give it again. {problem.safe}"
        raise


def _say_where(output: Output, engine: Engine, run_id: str) -> None:
    """Say on stderr where a run stands after an answer, and how to go on with it."""
    found, inbox = engine.outcome(run_id), with_flags("perdure inbox", output.flags)
    if found.status in ("cancelled", "succeeded"):
        note(f"run {found.run_id} has ended ({found.status}): this is recorded, and its program does not see it")
    elif found.status == "failed":
        note(f"run {found.run_id} has ended (failed): its program sees this once it is resumed", f"  {found.way_on}")
    if found.status in ("waiting", "queued"):
        more = f"{len(found.waiting_for)} more to decide, see {inbox}; " if found.waiting_for else ""
        note(f"run {found.run_id}: {found.status}; {more}{found.way_on}")
