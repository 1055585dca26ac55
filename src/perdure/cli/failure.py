"""How an error is told: what happened, what is safe now, and the next command; never a traceback unasked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.cli.output import Output, note
from perdure.core.ways_on import with_flags
from perdure.model.errors import PerdureError, SpecError

INTERNAL_CODE = "PERDURE-900"
ENVIRONMENT_CODE = "PERDURE-400"


def tell(problem: BaseException, output: Output, *, flags: str, debug: bool) -> int:
    """Print an error and return the exit code that it stands for.

    Args:
        flags: what the next command needs to reach the same ledger.
        debug: print the traceback too.
    """
    code, document = _described(problem, flags)
    first, *more = document["message"].split("\n")
    if debug:
        import traceback

        note(*"".join(traceback.format_exception(problem)).splitlines())
    note(f"error[{document['code']}]: {first}", *(f"  {line}" for line in more))
    note(f"  safe: {document['safe']}", f"  next: {document['next']}", f"  more: perdure help {document['code']}")
    if not output.is_table:
        output.answer(document, str)
    return code


def _described(problem: BaseException, flags: str) -> tuple[int, Mapping[str, Any]]:
    if isinstance(problem, PerdureError):
        exit_code, document = problem.exit_code, problem.as_document()
    elif isinstance(problem, OSError):
        exit_code, document = (
            4,
            PerdureError(
                f"the environment is unusable: {problem}", next_command="put it right and run the same command again"
            ).as_document(),
        )
        document["code"] = ENVIRONMENT_CODE
    else:
        exit_code, document = (
            1,
            PerdureError(
                f"internal error: {type(problem).__name__}: {problem}",
                next_command="run it again with --debug and report what it shows",
            ).as_document(),
        )
        document["code"] = INTERNAL_CODE
    if not isinstance(problem, SpecError):  # there, what is wrong is a file or an argument, not the ledger
        document["next"] = with_flags(document["next"], flags)
    return exit_code, document
