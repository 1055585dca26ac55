"""Commands that only look: ``runs ls|show``, ``calls ls|show|explain``, ``inbox``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from perdure.cli.columns import Cell, Columns, of, time_of
from perdure.cli.opening import NoLedger, engine_of, flags_of
from perdure.cli.output import Output, fields, note, shown, visible
from perdure.cli.values import duration_of
from perdure.core.forking import fork_counts

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.model.run import Outcome, Waiting

ENDLESS = 2**62
LAST_CHECKPOINTS = 10
_NO_FIELDS = ("schema", "evidence", "questions", "commands")


def runs_ls(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure runs ls``."""
    _times(options, output)
    columns = _run_columns(output)
    names = columns.chosen(options.columns, output)
    beside: dict[str, None] = {}
    try:
        with engine_of(options) as engine:
            limit = options.limit or ENDLESS
            rows = engine.runs(status=options.status, limit=limit, name=options.name, since=_since(options.since))
            notes = [engine.note_of(row) for row in rows]
    except NoLedger as problem:
        note(problem.message)
        rows, notes, beside = [], [], {"ledger": None}
    listed: list[dict[str, Any]] = [
        {
            "run_id": row.run_id,
            "name": row.name,
            "status": str(row.status),
            "reason": row.reason,
            "attempt": row.attempt,
            "entrypoint": row.entrypoint,
            "created_at": row.created_at,
            "updated_at": row.updated_at,
            "deadline_at": row.deadline_at,
            "error_code": row.error_code,
            "workspace": row.workspace,
            "note": said,
        }
        for row, said in zip(rows, notes, strict=True)
    ]
    document = {"schema": "perdure.runs/v1", "runs": listed, **beside}
    output.answer(document, lambda: columns.table(output, names, listed), rows="runs")
    _say_if_cut(listed, options.limit, "runs, the newest")
    return 0


def _run_columns(output: Output) -> Columns:
    cells: dict[str, Cell] = {
        "run": of("run_id"),
        "name": of("name"),
        "status": lambda row: _status(row["status"], row["reason"], row["note"]),
        "lives": of("attempt"),
        "created": time_of(output, "created_at"),
        "updated": time_of(output, "updated_at"),
        "error": of("error_code"),
        "deadline": of("deadline_at"),
        "entrypoint": of("entrypoint"),
        "workspace": of("workspace"),
    }
    return Columns(cells, ("run", "name", "status", "lives", "created", "updated", "error"))


def _since(text: str | None) -> str | float | None:
    return None if text is None else duration_of(text)


def _times(options: argparse.Namespace, output: Output) -> None:
    """Show times as ``--time`` says."""
    if options.time is not None:
        output.relative_times = options.time == "relative"


def runs_show(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure runs show``."""
    if options.if_killed_now:
        from perdure.cli import forecast_cmd

        return forecast_cmd.if_killed_now(options, output)
    from perdure.runtime.report import GONE, INTERRUPTED, run_document

    _times(options, output)
    with engine_of(options) as engine:
        run_id = engine.find_run(options.run)
        found, details = engine.outcome(run_id, shown=True), engine.details(run_id)
    document = {**run_document(found), **details}

    def text() -> str:
        idle = found.status in ("queued", "failed") or found.note == INTERRUPTED or found.note.endswith(GONE)
        undriven = f"\n{visible(found.way_on)}\n" if idle and found.way_on else ""
        return summary(found, document) + "".join(_details(output, details)) + _waits(found.waiting_for) + undriven

    output.answer(document, text)
    return 0


def summary(found: Outcome, document: Mapping[str, Any]) -> str:
    """Return what a person wants to know of a run first."""
    counted = ", ".join(f"{count} {status}" for status, count in sorted(found.calls.items()))
    lives = {"replayed": found.replayed, "settled": found.settled, "challenged": found.challenged}
    last = ", ".join(f"{count} {what}" for what, count in lives.items() if count)
    return fields(
        [
            ("run", found.run_id),
            ("name", found.name),
            ("status", _status(str(found.status), found.reason, found.note)),
            ("result", shown(document["result"]) if document["result"] is not None else None),
            ("error", found.error_said or None),
            ("calls", counted),
            ("life", f"{found.attempt}" + (f" ({last})" if last else "")),
            ("fork of", _fork(found)),
            ("unmet", str(found.unmet) if found.unmet and found.status.ended else None),
            ("duplicates", str(found.duplicates_found) if found.duplicates_found else None),
            ("workspace", found.workspace),
        ]
    )


def _fork(found: Outcome) -> str | None:
    """Return of which run this is a fork, from where, and what became of its effects."""
    origin = found.origin
    if origin.parent_run_id is None:
        return None
    counts = fork_counts(found.inherited, found.simulated)
    return f"{origin.forked_from or origin.parent_run_id + ' from its beginning'}, {origin.fork_effects}: {counts}"


def print_outcome(output: Output, found: Outcome) -> int:
    """Print where a run stands, and return its exit code."""
    from perdure.quick import lines_of
    from perdure.runtime.report import run_document

    document = run_document(found)
    output.answer(document, lambda: summary(found, document))
    note(*lines_of(found))
    return found.exit_code


def _details(output: Output, details: Mapping[str, Any]) -> Iterable[str]:
    lives = [
        (life["attempt"], life["pid"], output.when(life["started_at"]), output.when(life["ended_at"]), life["how"])
        for life in details["lives"]
    ]
    yield "\n" + output.table(("LIFE", "PID", "STARTED", "ENDED", "HOW"), lives)
    steps = [
        (*(step[name] for name in ("step_id", "name", "phase", "status")), _said(step)) for step in details["steps"]
    ]
    yield "\n" + output.table(("STEP", "NAME", "PHASE", "STATUS", "SAID"), steps)
    marks = [
        (mark["checkpoint_id"], mark["kind"], mark["step_id"], output.when(mark["created_at"]))
        for mark in details["checkpoints"][-LAST_CHECKPOINTS:]
    ]
    if marks:
        yield "\n" + output.table(("CHECKPOINT", "KIND", "STEP", "WRITTEN"), marks)
    said = (
        ("provider session", details["provider_session_id"]),
        ("forked session", details["provider_session_forked_from"]),
        ("objective", details["objective"]),
        ("last prompt", details["last_job_prompt"] if details["last_job_prompt"] != details["objective"] else None),
        ("forks", ", ".join(details["forks"])),
    )
    if any(value for _, value in said):
        yield "\n" + fields(said)
    budgets = [
        (item["limit"], _amount(item["used"]), _amount(item["allowed"]), item["key"]) for item in details["budgets"]
    ]
    if budgets:
        yield "\n" + output.table(("BUDGET", "USED", "ALLOWED", "LIMIT"), budgets)
    reviews = [(item["phase"], item["verdict"], item["text"]) for item in details["reviews"]]
    if reviews:
        yield "\n" + output.table(("PHASE", "CRITIC", "SAID"), reviews)
    files = [(file["path"], file["size_bytes"], file["sha256"]) for file in details["artifacts"]]
    if files:
        yield "\n" + output.table(("FILE", "BYTES", "SHA256"), files)


def _amount(value: float | int) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _said(step: Mapping[str, Any]) -> str | None:
    return ": ".join(text for text in (step["error_code"], step["error"]) if text) or None


def _waits(items: Iterable[Waiting]) -> str:
    return "".join(f"\n{visible(item.summary)}\n" + _commands(item.commands) for item in items)


def _commands(commands: Iterable[str]) -> str:
    return "".join(f"  {visible(command)}\n" for command in commands)


def _status(status: str, reason: str | None, note: str = "") -> str:
    said = "; ".join(word for word in (reason, note) if word)
    return f"{status} ({said})" if said else status


def _say_if_cut(listed: list[Any], limit: int, what: str) -> None:
    if limit and len(listed) == limit:
        note(f"these are {limit} {what}; --limit 0 shows all")


def calls_ls(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure calls ls``."""
    _times(options, output)
    columns = _call_columns(output)
    names = columns.chosen(options.columns, output)
    beside: dict[str, None] = {}
    try:
        with engine_of(options) as engine:
            listed = engine.calls(
                options.run,
                limit=options.limit or ENDLESS,
                inner=options.inner,
                status=options.status,
                effects=options.effects,
                tool=options.tool,
                since=_since(options.since),
            )
    except NoLedger as problem:
        if options.run is not None:
            raise
        note(problem.message)
        listed, beside = [], {"ledger": None}
    document = {"schema": "perdure.calls/v1", "calls": listed, **beside}
    output.answer(document, lambda: columns.table(output, names, listed), rows="calls")
    _say_if_cut(listed, options.limit, "calls, the oldest")
    return 0


def _call_columns(output: Output) -> Columns:
    cells: dict[str, Cell] = {
        "call": of("tool_call_id"),
        "tool": of("tool_name"),
        "class": of("side_effect_class"),
        "guarantee": of("guarantee"),
        "status": _standing,
        "try": of("attempt"),
        "started": time_of(output, "started_at"),
        "finished": time_of(output, "finished_at"),
        "error": of("error_code"),
        "run": of("run_id"),
        "step": of("step_id"),
        "policy": of("replay_policy"),
        "occurrence": of("occurrence"),
        "key": of("idempotency_key"),
        "prepared": time_of(output, "prepared_at"),
    }
    return Columns(cells, ("call", "tool", "class", "guarantee", "status", "try", "started", "finished", "error"))


def _standing(call: Mapping[str, Any]) -> str:
    """Return a call's state, and whether it happened in this run: it may be simulated, or inherited by a fork."""
    marks = ", ".join(
        word for word, holds in ((_simulated(call), call["simulated"]), ("inherited", call["inherited_from"])) if holds
    )
    return f"{call['status']} ({marks})" if marks else str(call["status"])


def _simulated(call: Mapping[str, Any]) -> str:
    """Return whether a call of a fork was simulated, or would be if it started."""
    return "simulated" if call["status"] in ("succeeded", "failed") else "to be simulated"


def call_document(engine: Engine, tool_call_id: str) -> dict[str, Any]:
    """Return the ``perdure.call/v1`` document of a call.

    Raises:
        NotFound: there is no such call.
    """
    found = engine.call(tool_call_id)
    for name in ("request", "response"):
        found[name] = None if found[name] is None else json.loads(found[name])
    return {"schema": "perdure.call/v1", **found}


def calls_show(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure calls show``."""
    with engine_of(options) as engine:
        document = call_document(engine, options.call)

    def text() -> str:
        held = ((name, value) for name, value in document.items() if name not in _NO_FIELDS and value is not None)
        plain = [(name, value if isinstance(value, str) else shown(value)) for name, value in held]
        evidence = [
            (item["at"], item["kind"], item["attempt"], item["says"], item["actor"], item["ref"], item["detail"])
            for item in document["evidence"]
        ]
        header = ("AT", "EVIDENCE", "TRY", "SAYS", "ACTOR", "REF", "DETAIL")
        return fields(plain) + ("\n" + output.table(header, evidence) if evidence else "")

    output.answer(document, text)
    return 0


def calls_explain(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure calls explain``."""
    from perdure.cli.story import explanation, story

    with engine_of(options) as engine:
        document = call_document(engine, options.call)
        found = engine.outcome(document["run_id"], shown=True)
    document["explanation"] = explanation(document, found)
    output.answer(document, lambda: story(document, output))
    return 0


def inbox(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure inbox``."""
    from perdure.runtime.waiting import waiting_document

    try:
        with engine_of(options) as engine:
            items = engine.inbox(options.run)
            interrupted = engine.interrupted() if options.run is None else []
    except NoLedger as problem:
        if options.run is not None:
            raise
        note(problem.message)
        output.answer({"schema": "perdure.inbox/v1", "items": [], "ledger": None}, str, rows="items")
        return 0
    listed: list[dict[str, Any]] = [{**waiting_document(item), "run_id": run_id} for run_id, item in items]

    def text() -> str:
        return "\n".join(_asked(output, item) for item in listed)

    output.answer({"schema": "perdure.inbox/v1", "items": listed}, text, rows="items")
    if not listed:
        note("nothing waits for a person")
    together = [item for item in interrupted if not item.command]
    if together:
        said = "1 run was interrupted" if len(together) == 1 else f"{len(together)} runs were interrupted"
        note(f"{said}: perdure resume --all {flags_of(options)}".rstrip())
    note(*(f"run {item.run_id} was interrupted: {item.command}" for item in interrupted if item.command))
    return 0


def _asked(output: Output, item: Mapping[str, Any]) -> str:
    """Return one question as a person reads it: what would be sent exactly, what is new about it, and the answers."""
    until = f"  until {output.when(item['expires_at'])}" if item["expires_at"] else ""
    said = [f"{item['kind']}  {visible(item['run_id'])}  {item['id']}  {output.when(item['since'])}{until}"]
    said.append(f"  {visible(item['summary'])}")
    arguments: Mapping[str, Any] = item["arguments"] or {}
    if item["kind"] == "approval":
        said += [f"    {visible(name)}: {shown(value)}" for name, value in arguments.items()]
    if item["changed_from"]:
        said.append(f"  beside {item['changed_from']}:" + ("" if item["changes"] else " the same arguments"))
        said += [f"    {visible(c['argument'])}: {shown(c['was'])} → {shown(c['now'])}" for c in item["changes"]]
    return "\n".join(said) + "\n" + _commands(item["commands"])
