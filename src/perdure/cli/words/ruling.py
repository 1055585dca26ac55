"""The commands about policies."""

from __future__ import annotations

from perdure.cli.words.grammar import Commands, Parser

NOUNS: dict[str, tuple[str, ...]] = {"policy": ("explain", "check", "test", "diff"), "schema": ()}


def add_to(commands: Commands) -> None:
    """Add them."""
    policy = commands.noun("policy", "ask what the policy says")
    explain = policy.add("explain", "tell what holds for a tool, and why", ("rules_cmd", "explain"))
    explain.add_argument("name", metavar="NAME", help="the tool's name")
    explain.add_argument("--namespace", metavar="N", help="where the tool lives (default: local)")
    explain.add_argument("--args", metavar="JSON", help="arguments of one call, to show what would be refused")
    explain.add_argument("--tools", metavar="MODULE", action="append", default=[], help="a module with @tool functions")
    check = policy.add("check", "check policy files", ("rules_cmd", "check"))
    check.add_argument("files", metavar="FILE", nargs="+")
    _tools(check, "also warn of rules that match none of the tools")
    tests = policy.add("test", "check the answers of the policy against tables of your own", ("rules_cmd", "test"))
    tests.add_argument("files", metavar="FILE", nargs="+", help="YAML: a list of a tool and what is expected of it")
    _tools(tests, "include what its tools declare of themselves")
    diff = policy.add("diff", "tell what another policy would change", ("rules_cmd", "diff"))
    diff.add_argument("old", metavar="OLD", help="a policy file; - is the shipped policy alone")
    diff.add_argument("new", metavar="NEW", help="a policy file; - is the shipped policy alone")
    diff.add_argument("--run", metavar="RUN", help="only calls of this run: its id, a unique prefix, or @last")
    _tools(diff, "include what its tools declare of themselves")
    schema = commands.add("schema", "print the JSON Schema of a kind of file", ("rules_cmd", "schema"))
    schema.add_argument("kind", metavar="KIND", choices=("job", "policy"), help="job or policy")


def _tools(parser: Parser, why: str) -> None:
    parser.add_argument("--tools", metavar="MODULE", action="append", default=[], help=f"a module with tools: {why}")
