"""``perdure policy explain|check|test|diff`` and ``perdure schema``: the runtime's own answer, printed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from perdure.cli import policy_cmd
from perdure.cli.opening import NoLedger, engine_of, settings_of
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
    document = policy_cmd.check([Path(name) for name in options.files], list(_declared(options.tools)))
    output.answer(document, lambda: policy_cmd.render_check(document))
    return 0


def test(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure policy test``; 1 where an answer is not as its table expects."""
    from perdure.config.policy_file import load_policy
    from perdure.config.policy_table import read_tables, results

    rows = read_tables([Path(name) for name in options.files])
    policy = load_policy(settings_of(options).policy_paths())
    found = list(results(rows, policy, _declared(options.tools)))
    failed = [row for row in found if not row["ok"]]
    document = {
        "schema": "perdure.policy_test/v1",
        "files": options.files,
        "tests": len(found),
        "failed": len(failed),
        "results": found,
    }
    output.answer(document, lambda: policy_cmd.render_test(document), rows="results")
    return 1 if failed else 0


def diff(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure policy diff``; 1 where something would change."""
    from perdure.config.policy_file import load_policy
    from perdure.runtime.policy_diff import tools_between

    old, new = (load_policy([] if name == "-" else [Path(name)]) for name in (options.old, options.new))
    try:
        with engine_of(options) as engine:
            engine.add_tools(options.tools)
            found = engine.policy_diff(old, new, options.run)
    except NoLedger:
        if options.run is not None:
            raise
        note("there is no ledger here: only the names in the rules are compared")
        known = {(tool.namespace, tool.name): tool for tool in _declared(options.tools)}
        found = {"tools": tools_between(old, new, known), "calls": [], "calls_looked_at": 0}
    document = {"schema": "perdure.policy_diff/v1", "old": options.old, "new": options.new, **found}
    output.answer(document, lambda: policy_cmd.render_diff(document), rows="tools")
    if not options.tools and found["calls_looked_at"]:
        note("what the tools declare themselves is added by --tools MODULE")
    return 1 if found["tools"] or found["calls"] else 0


def schema(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure schema``."""
    from perdure.config.schemas import schema_of_file

    document = schema_of_file(options.kind)
    output.answer(document, lambda: json.dumps(document, indent=2) + "\n")
    return 0
