"""``perdure policy explain|check``: the runtime's own answer, printed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from perdure.cli import policy_cmd
from perdure.cli.opening import settings_of
from perdure.cli.output import Output, note
from perdure.cli.values import mapping_of
from perdure.model.errors import UsageError
from perdure.model.policy import ToolDeclaration


def explain(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure policy explain``."""
    from perdure.config.policy_file import load_policy

    if not options.name.strip():
        raise UsageError("the tool's name is empty", next_command="perdure policy explain --help")
    given = None if options.args is None else mapping_of(options.args, "--args")
    document = policy_cmd.explain(
        options.name,
        policy=load_policy(settings_of(options).policy_paths()),
        namespace=options.namespace,
        args=given,
        declarations=list(_declared(options.tools)),
    )
    output.answer(document, lambda: policy_cmd.render_explain(document))
    if not options.tools and document["rule"] is None:
        note(f"this is what the rules say; what a tool {options.name!r} declares itself is added by --tools MODULE")
    return 0


def _declared(modules: list[str]) -> Iterator[ToolDeclaration]:
    from perdure.runtime.registry import tools_of_module

    if modules and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for name in modules:
        for tool in tools_of_module(name):
            yield tool.declaration


def check(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure policy check``."""
    document = policy_cmd.check([Path(name) for name in options.files])
    output.answer(document, lambda: policy_cmd.render_check(document))
    return 0
