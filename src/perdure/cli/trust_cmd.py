"""``perdure doctor``, ``verify`` and ``db``: whether the machine and the ledger hold what they promise, and copies."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.cli.opening import engine_of, flags_of, ledger_of, settings_of
from perdure.cli.output import Output, note, visible
from perdure.cli.values import duration_of
from perdure.core.doctor import Level
from perdure.core.ways_on import with_flags

if TYPE_CHECKING:
    from perdure.runtime.verify import Verified


def doctor(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure doctor``."""
    from perdure.ports.clock import SystemClock
    from perdure.runtime.doctor import examine

    settings = settings_of(options)
    found = examine(settings.database, settings.state_dir, clock=SystemClock(), environ=os.environ)
    flags = flags_of(options)
    findings = [{**asdict(item), "fix": with_flags(item.fix, flags)} for item in found.findings]
    worst = max((item.level for item in found.findings), key=list(Level).index)
    document = {
        "schema": "perdure.doctor/v1",
        "ok": found.exit_code == 0,
        "worst": worst,
        "path": str(found.database.absolute()),
        "findings": findings,
    }

    def text() -> str:
        lines: list[str] = []
        for item in findings:
            lines.append(f"{output.paint(item['level']):4}  {item['about']}: {visible(item['found'])}")
            lines += [f"      {visible(item[key])}" for key in ("means", "fix") if item[key]]
        return "\n".join(lines) + "\n"

    output.answer(document, text, rows="findings")
    return found.exit_code


def verify(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure verify``."""
    head = None if options.expect_head is None else options.expect_head.strip().lower()
    with engine_of(options) as engine:
        found = engine.verify(options.run, expect_head=head)
    document = verify_document(found)
    output.answer(document, lambda: _verified(found))
    if found.in_doubt:
        calls = "1 call is" if len(found.in_doubt) == 1 else f"{len(found.in_doubt)} calls are"
        note(f"{calls} in doubt, see: perdure inbox {flags_of(options)}".rstrip())
    return 0 if found.ok else 1


def verify_document(found: Verified) -> dict[str, Any]:
    """Return ``perdure.verify/v1``."""
    return {
        "schema": "perdure.verify/v1",
        "ok": found.ok,
        "run_id": found.run_id,
        "runs": found.runs,
        "calls": found.calls,
        "seals": {
            "entries": found.seals,
            "head": found.head,
            "sealed": found.sealed,
            "not_sealed_yet": found.not_sealed_yet,
            "older_than_the_chain": found.older_than_the_chain,
        },
        "problems": [asdict(item) for item in found.problems],
        "more_problems": found.more_problems,
        "duplicates": found.duplicates,
        "in_doubt": found.in_doubt,
        "artifacts": {"missing": found.missing_artifacts, "changed": found.changed_artifacts},
    }


def _verified(found: Verified) -> str:
    lines = [f"{'ok' if found.ok else 'NOT OK'}: {found.runs} runs, {found.calls} calls, {found.seals} seals"]
    for item in found.problems:
        lines.append(f"  {'warning' if item.is_warning else 'bad'}  {visible(item.subject)}: {visible(item.says)}")
    if found.more_problems:
        lines.append(f"  and {found.more_problems} more")
    for twice in found.duplicates:
        lines.append(f"  bad  {visible(twice['tool_call_id'])}: {visible(twice['tool_name'])} was done twice:")
        lines += [f"    {visible(str(item['ref']))}  {visible(str(item['receipt']))}" for item in twice["receipts"]]
    lines += [f"  in doubt  {visible(item['tool_call_id'])}: {visible(item['tool_name'])}" for item in found.in_doubt]
    lines += [f"  file is gone  {visible(item)}" for item in found.missing_artifacts]
    lines += [f"  file has other bytes than were recorded  {visible(item)}" for item in found.changed_artifacts]
    lines.append(
        f"  sealed {found.sealed}, not sealed yet {found.not_sealed_yet}, "
        f"older than the chain {found.older_than_the_chain}"
    )
    lines.append(f"  head {found.head}")
    return "\n".join(lines) + "\n"


def db_path(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure db path``."""
    settings = settings_of(options)
    path = settings.database.absolute()
    document = {
        "schema": "perdure.db/v1",
        "path": str(path),
        "exists": path.exists(),
        "store": settings.store_url,
        "state_dir": str(settings.state_dir.absolute()),
    }
    output.answer(document, lambda: f"{path}\n")
    return 0


def db_check(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure db check``."""
    from perdure.store.upkeep import check

    path = ledger_of(options)
    pages = check(str(path))
    document = {"schema": "perdure.db_check/v1", "path": str(path.absolute()), "ok": True, "pages": pages}
    output.answer(document, lambda: f"ok: {pages} pages, each holds what was written to it\n")
    return 0


def db_backup(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure db backup``."""
    with engine_of(options) as engine:
        copy = engine.backup(Path(options.file))
    document = {
        "schema": "perdure.db_backup/v1",
        "path": str(copy.path.absolute()),
        "bytes": copy.bytes,
        "runs": copy.runs,
        "calls": copy.calls,
    }
    output.answer(document, lambda: f"{copy.path}: {copy.runs} runs, {copy.calls} calls, checked\n")
    note("the rows only: files of runs stand in workspaces/ of the state directory")
    return 0


def db_migrate(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure db migrate``."""
    from perdure.ports.clock import SystemClock
    from perdure.store.upkeep import Migrated, bring_up, pending

    path = ledger_of(options)
    looks = options.dry_run or options.print_sql
    done = Migrated(tuple(pending(str(path))), None) if looks else bring_up(str(path), SystemClock())
    steps: list[dict[str, Any]] = [{"number": step.number, "name": step.name} for step in done.applied]
    if options.print_sql:
        steps = [{**said, "sql": step.sql} for said, step in zip(steps, done.applied, strict=True)]
    document = {
        "schema": "perdure.db_migrate/v1",
        "path": str(path.absolute()),
        "applied": not looks,
        "migrations": steps,
        "copy": None if done.copy is None else str(done.copy.absolute()),
    }

    def text() -> str:
        if not steps:
            return "nothing to do: the ledger has the schema of this version\n"
        word = "would apply" if looks else "applied"
        lines = [f"-- {word} {step['number']:04} {step['name']}\n{step.get('sql', '')}" for step in steps]
        return "".join(lines) + ("" if done.copy is None else f"-- as it was before: {done.copy}\n")

    output.answer(document, text)
    return 0


def db_prune(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure db prune``."""
    with engine_of(options) as engine:
        found = engine.prune(
            older_than=duration_of(options.older_than),
            dry_run=options.dry_run,
            workspaces=options.workspaces,
            vacuum=options.vacuum,
        )
    document = {
        "schema": "perdure.db_prune/v1",
        "dry_run": options.dry_run,
        "runs": list(found.runs),
        "failed": list(found.failed),
        "kept": [{"run_id": run_id, "why": why} for run_id, why in found.kept],
        "calls": found.calls,
        "bytes": found.bytes,
        "workspaces": [str(path) for path in found.workspaces],
        "log_emptied": found.log_emptied,
        "shrunk": found.shrunk,
        "copies": [str(path) for path in found.copies],
    }
    verb = "would lose" if options.dry_run else "lost"
    lines = [f"{len(found.runs)} runs {verb} their bodies ({found.calls} calls, {found.bytes} bytes)"]
    never = "could not be resumed afterwards" if options.dry_run else "cannot be resumed any more"
    lines += [f"  {visible(it)}" + (f"   failed: {never}" if it in found.failed else "") for it in found.runs]
    lines += [f"  kept {visible(run_id)}: {why}" for run_id, why in found.kept]
    lines += [f"  removed {path}" for path in found.workspaces]
    output.answer(document, lambda: "\n".join(lines) + "\n")
    if found.log_emptied is False:
        note("warning: another process reads the ledger: old copies may stay in its log until the next db prune")
    if found.shrunk is False:
        note("warning: another process uses the ledger; it was not made smaller")
    for copy in found.copies:
        note(f"warning: {copy} is an older copy of the ledger, and still has what was removed")
    return 0
