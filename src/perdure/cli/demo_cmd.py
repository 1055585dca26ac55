"""``perdure demo``: handed on to the demo, which has a parser of its own and needs an extra."""

from __future__ import annotations

import argparse

from perdure.cli.output import Output


def demo(options: argparse.Namespace, _output: Output) -> int:
    """Run ``perdure demo``.

    Raises:
        PerdureError: what the demo needs is not installed; the error says how to get it.
    """
    from perdure.demo.command import main

    return main(options.rest)
