"""``restart.sh``: the command that goes on with a run, as it can be pasted into any shell in any folder (R120)."""

from __future__ import annotations

import re
import shlex

from perdure.model.run import LATER, RunRow, WayOn
from perdure.runtime.completions import Reach

_ANSWER = "\n# It waits for an answer of yours (perdure inbox); without one it would only wait again."
_WAITS = {
    "budget": "\n# It waits for more of a budget: put --grant behind the last line (perdure inbox says what),\n"
    "# or it pauses again.",
    **dict.fromkeys(("approval", "question", "challenge", "in_doubt"), _ANSWER),
}
_FOLDER = re.compile(r"^\(cd (.+?) && ", re.MULTILINE)


def folder_of(text: str) -> str | None:
    """Return the folder that an earlier ``restart.sh`` goes to, quoted as it stands there."""
    found = _FOLDER.search(text)
    return found[1] if found else None


def restart_text(row: RunRow, way: WayOn, reach: Reach, folder: str | None) -> str:
    """Return the file's text; its last line is the one to paste.

    Args:
        way: what works next for the run.
        folder: quoted for a shell; where the run was driven, so that relative paths mean the same.
    """
    quoted = shlex.quote(row.run_id)
    if not way.resume:
        why = f"; {way.why}" if way.why else ""
        head = f"# Run {row.run_id} has ended ({row.status}{why}). The last line shows it."
        head += f"\n# For another answer: {way.fork}" if way.fork else ""
        last = reach.program(f"runs show {quoted}")
    elif row.is_scope:
        text = f"start the script again that has run_scope({row.run_id!r})"
        head, last = f"# Run {row.run_id} is the body of a run_scope.", f"echo {shlex.quote(text)} >&2; false"
    elif row.job_path is None:
        text = f"start your program again with run_id={row.run_id!r}: its main cannot be loaded from outside"
        head, last = f"# Run {row.run_id} was started by a program of yours.", f"echo {shlex.quote(text)} >&2; false"
    else:
        head = f"# Goes on with run {row.run_id}: run this file, or paste its last line into any shell."
        head += _WAITS.get(row.reason or "", "")
        head += f"\n# It helps only {way.after}." if way.after else ""
        late = row.status == "failed" and row.error_code == "deadline"
        # A script may be run by a program; more time is given by a person.
        head += f"\n# Its deadline is over: put --grant {LATER} behind the last line, or it ends again." if late else ""
        last = reach.program(f"resume {quoted}")
    line = f"(cd {folder} && {last})" if folder else last
    return f"#!/bin/sh\n{head}\n{line}\n"
