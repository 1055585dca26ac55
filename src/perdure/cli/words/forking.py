"""The command that makes a new run from an old one."""

from __future__ import annotations

from perdure.cli.words.grammar import Commands, quiet, run_id

NOUNS: dict[str, tuple[str, ...]] = {"fork": ()}


def add_to(commands: Commands) -> None:
    """Add it."""
    fork = commands.add("fork", "make a new run from an old one, and run it", ("fork_cmd", "fork"))
    run_id(fork)
    fork.add_argument("--at", metavar="CHECKPOINT", help="a checkpoint's id, c3 for short, or start; else the newest")
    fork.add_argument(
        "--effects", choices=("simulate", "live"), default="simulate", help="simulate sends nothing (the default)"
    )
    fork.add_argument("-i", "--input", metavar="KEY=VALUE", action="append", default=[], help="an input to change")
    fork.add_argument("--run-id", metavar="ID", help="name the fork; the same fork again goes on with it")
    quiet(fork)
    fork.add_argument("--wait", action="store_true", help="stay until people have answered")
