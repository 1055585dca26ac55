"""How commands and their arguments are added to the command line."""

from __future__ import annotations

import argparse
import difflib
from typing import Any, NoReturn

from perdure.model.errors import UsageError


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours: same shape, same code, one place where they are printed."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message + self._nearest(message), next_command=f"{self.prog} --help")

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]: every overload at once
        self, args: Any = None, namespace: Any = None
    ) -> Any:
        """Refuse what is unknown here, where the command's own flags are known, and not in the parser above it."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def _nearest(self, message: str) -> str:
        """Return the flag that somebody may have meant by an unknown one."""
        head, _, rest = message.partition("unrecognized arguments: ")
        if head or not rest.startswith("--"):
            return ""
        bare = {name.lstrip("-"): name for name in self._option_string_actions}
        near = difflib.get_close_matches(rest.split()[0].split("=")[0].lstrip("-"), bare, n=1)
        return f"; did you mean {bare[near[0]]}?" if near else ""


class Commands:
    """Adds commands, each with the global flags and the handler that it calls."""

    def __init__(self, parser: Parser, everywhere: Parser, *, metavar: str = "COMMAND") -> None:
        self._everywhere = everywhere
        self._sub = parser.add_subparsers(title="commands", metavar=metavar, parser_class=Parser)

    def add(self, name: str, help_text: str, handler: tuple[str, str] | None = None) -> Parser:
        """Add one command; ``handler`` is a module of this package and a function in it."""
        made: Parser = self._sub.add_parser(
            name,
            help=help_text,
            description=help_text[0].upper() + help_text[1:] + ".",
            parents=[self._everywhere],
            allow_abbrev=False,
        )
        if handler is not None:
            made.set_defaults(handler=handler)
        return made

    def noun(self, name: str, help_text: str) -> Commands:
        """Add a command that has verbs."""
        return Commands(self.add(name, help_text), self._everywhere, metavar="VERB")


def positive(text: str) -> int:
    """Return a number from 1, as argparse wants it."""
    number = count(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return number


def run_id(parser: Parser) -> None:
    """Add the positional argument that names a run."""
    parser.add_argument("run", metavar="RUN", help="the run's id, a unique prefix of it, or @last")


def call_id(parser: Parser) -> None:
    """Add the positional argument that names a call."""
    parser.add_argument("call", metavar="CALL", help="the call's id, or RUN.n such as @last.3")


def go_on(parser: Parser) -> None:
    """Add ``--resume``, and ``--quiet`` for the life that it begins."""
    parser.add_argument("--resume", action="store_true", help="then resume the run; its exit code is returned")
    quiet(parser)


def quiet(parser: Parser) -> None:
    """Add ``--quiet``."""
    parser.add_argument("-q", "--quiet", action="store_true", help="do not show on stderr how the run gets on")


def limit(parser: Parser, default: int) -> None:
    """Add ``--limit``."""
    parser.add_argument("--limit", metavar="N", type=count, default=default, help=f"at most N, 0 for all ({default})")


def count(text: str) -> int:
    """Return a number from 0, as argparse wants it."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)
