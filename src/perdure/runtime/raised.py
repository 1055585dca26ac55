"""Where an error of the user's own code was raised."""

from __future__ import annotations

import traceback
from pathlib import Path

from perdure.model.errors import CallError

_OWN_FOLDER = str(Path(__file__).parents[1])
_LIBRARY_FOLDER = str(Path(traceback.__file__).parent)


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
