"""What an error of the user's own code says, and where it was raised."""

from __future__ import annotations

import traceback
from pathlib import Path

from perdure.model.errors import CallError

_OWN_FOLDER = str(Path(__file__).parents[1])
_LIBRARY_FOLDER = str(Path(traceback.__file__).parent)


def said_by(problem: BaseException) -> str:
    """Return an error in one text: its type, what it says if it says something, and where it was raised."""
    told = told_by(problem)
    between = "" if not told else " " if not str(problem) else ": "
    return f"{type(problem).__name__}{between}{told}"


def told_by(problem: BaseException) -> str:
    """Return what an error says, and where it was raised; its type is told beside it."""
    return f"{problem}{raised_at(problem)}".strip()


def raised_at(problem: BaseException) -> str:
    """Return where in the user's own code an error was raised, in brackets; the whole traceback goes to the log."""
    frames = [
        frame
        for frame in traceback.extract_tb(problem.__traceback__)
        if not frame.filename.startswith((_OWN_FOLDER, _LIBRARY_FOLDER))
    ]
    if not frames or isinstance(problem, CallError):
        return ""
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name})"
