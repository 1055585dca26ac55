"""The lines of ``run.log``: what a person reads of a run with ``tail -f``. Names and ids only, never arguments."""

from __future__ import annotations

_OPENING = {"life": "life {subject} began", "question": "waits for a person: {name} {subject}"}


def line(kind: str, subject: str, name: str, status: str, at: str, note: str = "") -> str:
    """Return one line, without its end.

    Args:
        kind: ``life run step call question``.
        subject: the public id of what changed; of a life its number.
        name: of the tool, the step or the kind of question.
        status: the ledger's word for what it is now; of a life how it ended.
        at: when, as it stands in the row.
        note: half a line more.
    """
    if kind == "life" and status != "began":
        said = f"life ended: {status}"
    elif kind in _OPENING:
        said = _OPENING[kind].format(subject=subject, name=name)
    elif kind == "run":
        said = f"run {subject}: {status}"
    else:
        said = " ".join(word for word in ("step" if kind == "step" else "", subject, name, status) if word)
    told = f"{said} ({note})" if note else said
    return f"{at}  {' '.join(told.split())}"
