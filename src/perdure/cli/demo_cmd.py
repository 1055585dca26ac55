"""``perdure demo``: handed on to the demo, which lies in an extra."""

from __future__ import annotations

import argparse

from perdure.cli.output import Output
from perdure.model.errors import PerdureError

INSTALL = "pip install 'perdure[demo]'"


class ExtraMissing(PerdureError):
    """A command needs packages that the base install does not have."""

    code = "PERDURE-410"
    exit_code = 4
    default_safe = "Nothing was started."


def demo(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure demo`` with its own flags.

    Raises:
        ExtraMissing: the packages of the extra are not installed.
    """
    try:
        from perdure.demo import command

        return command.main(options.rest)
    except ModuleNotFoundError as problem:
        if problem.name is not None and problem.name.partition(".")[0] == "perdure":
            raise
        raise ExtraMissing(
            f"the demo needs packages that are not installed here: {problem.name}", next_command=INSTALL
        ) from problem
