"""The entry point: parse, run one command, tell one error, leave with the right code."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from perdure.cli.failure import tell
from perdure.cli.opening import flags_of
from perdure.cli.output import Output, note
from perdure.cli.parser import command_of, parse, wanted_format
from perdure.model.errors import UsageError

SIGINT_EXIT = 130
_OURS = "perdure: "


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: without the program's name; those of this process when left out.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    output = Output(wanted_format(given))
    options = argparse.Namespace(debug="--debug" in given)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _plainly(warnings.showwarning)
            options = parse(given)
            output.flags = flags_of(options)
            if options.debug:
                logging.basicConfig(level=logging.INFO, format="%(message)s")
            module, function = options.handler
            code: int = getattr(import_module(f"perdure.cli.{module}"), function)(options, output)
            _leave_what_never_ends(code, is_process=arguments is None)
            return code
    except SystemExit as left:
        # Only --help and --version get here: the commands that run agents keep their exits to themselves.
        return left.code if isinstance(left.code, int) else 0
    except KeyboardInterrupt:
        note("stopped")
        return SIGINT_EXIT
    except UsageError as problem:
        if problem.next_command == UsageError.default_next:
            problem.next_command = f"{command_of(given)} --help"
        return tell(problem, output, flags=flags_of(options), debug=options.debug)
    except Exception as problem:
        return tell(problem, output, flags=flags_of(options), debug=options.debug)


def _leave_what_never_ends(code: int, *, is_process: bool) -> None:
    """End the process now if an agent has left a thread behind that the interpreter would wait for (semantics §2.3)."""
    runner = sys.modules.get("perdure.runtime.async_runner")
    if is_process and runner is not None and runner.left_behind():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _plainly(otherwise: Any) -> Any:
    def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        text = str(message)
        if text.startswith(_OURS):
            note(f"warning: {text.removeprefix(_OURS)}")
        else:
            otherwise(message, category, *where)

    return show
