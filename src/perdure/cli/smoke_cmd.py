"""``perdure smoke``: the smoke test, and its checklist."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.cli.output import Output, note
from perdure.model.errors import UsageError

if TYPE_CHECKING:
    from perdure.testing.smoke.play import Played

SCHEMA = "perdure.smoke/v1"


def smoke(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure smoke``; 0 only if every line of the checklist is right.

    Raises:
        UsageError: the folder is not empty, or a flag makes no sense here.
        SmokeError: it could not be carried out.
    """
    from perdure.testing.smoke.play import RUN_ID, play

    if options.store is not None:
        raise UsageError("the smoke test keeps a ledger of its own; leave --store out", next_command="perdure smoke")
    folder = _folder(options.folder or options.state_dir)
    policies = [Path(path) for path in options.policy]
    for path in policies:
        if not path.is_file():
            raise UsageError(f"--policy {path}: no such file", next_command="perdure smoke --help")
    resume_command = f"perdure resume {RUN_ID} --state-dir {shlex.quote(str(folder))}"
    played = play(folder, policies=policies, tell=note, resume_command=resume_command)
    document = document_of(played, resume_command)
    output.answer(document, lambda: checklist(document))
    return 0 if played.ok else 1


def _folder(given: str | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="perdure-smoke-"))
    folder = Path(given).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{given} is not an empty folder; the smoke test counts, and must begin at nothing",
            next_command="perdure smoke --folder DIR",
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def document_of(played: Played, resume_command: str) -> dict[str, Any]:
    """Return the ``perdure.smoke/v1`` document.

    Args:
        played: the test that was carried out.
        resume_command: what goes on with the run.
    """
    from perdure.testing.smoke.play import RUN_ID

    facts = played.facts
    return {
        "schema": SCHEMA,
        "ok": played.ok,
        "run_id": RUN_ID,
        "resume_command": resume_command,
        "kills": sum(life.killed and life.as_expected for life in facts.lives),
        "lives": [
            {
                "command": life.command,
                "pid": life.pid,
                "exit_code": life.exit_code,
                "expected": life.expected,
                "why": life.why,
            }
            for life in facts.lives
        ],
        "checks": [{"name": check.name, "ok": check.ok, "found": check.found} for check in played.checks],
        "effects": dict(Counter(str(effect["what"]) for effect in facts.effects)),
        "folder": str(played.folder),
        "seconds": round(played.seconds, 1),
    }


def checklist(document: dict[str, Any]) -> str:
    """Return the document as a person reads it."""
    width = max(len(check["name"]) for check in document["checks"])
    lines = [
        f"{'ok  ' if check['ok'] else 'FAIL'}  {check['name'].ljust(width)}  {check['found']}"
        for check in document["checks"]
    ]
    told = f"killed {document['kills']} times, {len(document['lives'])} lives, {document['seconds']} s"
    said = f"Everything happened exactly as often as it was asked for ({told})."
    if not document["ok"]:
        said = f"This build does not keep its promises here ({told}): see the lines that say FAIL."
    return "\n".join([*lines, "", said, f"files: {document['folder']}", ""])
