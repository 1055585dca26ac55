"""The commands about policies."""

from __future__ import annotations

from perdure.cli.words.grammar import Commands

NOUNS: dict[str, tuple[str, ...]] = {"policy": ("explain", "check")}


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
