"""What may be typed. This module imports nothing of the engine, so that ``perdure --help`` starts at once."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from perdure import __version__
from perdure.cli.words import deciding, forking, looking, proving, ruling, running, trusting
from perdure.cli.words.grammar import Commands, Parser
from perdure.model.errors import UsageError

FAMILIES = (running, forking, looking, deciding, ruling, trusting, proving)
FORMATS = ("table", "json", "jsonl")
NOUNS: dict[str, tuple[str, ...]] = {name: verbs for family in FAMILIES for name, verbs in family.NOUNS.items()}
_VALUED = ("--state-dir", "--store", "--policy", "-o", "--output")
_BARE = ("--debug",)
_TELLING = ("-h", "--help", "--version")


@dataclass(frozen=True, slots=True)
class Words:
    """A command line, cut up.

    Args:
        before: the global flags in front of the command.
        names: the command, and its verb if it has some.
        after: everything behind the command.
    """

    before: tuple[str, ...]
    names: tuple[str, ...]
    after: tuple[str, ...]


class Gather(argparse.Action):
    """Collects a repeatable global flag wherever it stands, before or after the command."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.gathered: list[str] = []

    def __call__(self, parser: object, namespace: argparse.Namespace, values: Any, option: object = None) -> None:
        self.gathered.append(values)
        setattr(namespace, self.dest, self.gathered)


def cut(arguments: Sequence[str]) -> Words:
    """Cut a command line into global flags, command and the rest.

    Raises:
        UsageError: it names no command, or one that does not exist.
    """
    position = _first_word(arguments, 0)
    if position is None or arguments[position] in _TELLING:
        return Words(tuple(arguments), (), ())
    noun = arguments[position]
    verbs = NOUNS.get(noun)
    if verbs is None and noun.startswith("-"):
        raise _no_such("flag", noun, (*_VALUED, *_BARE, *_TELLING), "perdure --help")
    if verbs is None:
        raise _no_such("command", noun, NOUNS, "perdure --help")
    words = Words(tuple(arguments[:position]), (noun,), tuple(arguments[position + 1 :]))
    second = _first_word(arguments, position + 1) if verbs else None
    if not verbs or second is None or arguments[second].startswith("-"):
        return words
    if arguments[second] not in verbs:
        raise _no_such("command", arguments[second], verbs, f"perdure {noun} --help", under=f"{noun} ")
    return Words(words.before, (noun, arguments[second]), words.after)


def command_of(arguments: Sequence[str]) -> str:
    """Return the command that a command line begins with, such as ``perdure runs ls``, even where it is wrong."""
    try:
        return " ".join(("perdure", *cut(arguments).names))
    except UsageError:
        return "perdure"


def _first_word(arguments: Sequence[str], start: int) -> int | None:
    """Return where the first word stands that is no global flag and no value of one."""
    at = start
    while at < len(arguments):
        text = arguments[at]
        if text in _VALUED:
            at += 2
        elif text in _BARE or text.startswith(tuple(f"{flag}=" for flag in _VALUED)) or text[:2] == "-o":
            at += 1
        else:
            return at
    return None


def _no_such(kind: str, word: str, known: Iterable[str], help_command: str, *, under: str = "") -> UsageError:
    names = list(known)
    bare = {name.lstrip("-"): name for name in names}
    near = difflib.get_close_matches(word.lstrip("-"), bare, n=1, cutoff=0.5)
    hint = f"did you mean '{under}{bare[near[0]]}'?" if near else f"there are: {', '.join(names)}"
    return UsageError(f"no such {kind} '{under}{word}'; {hint}", next_command=help_command)


def _no_verb(noun: str) -> UsageError:
    return UsageError(f"which command of '{noun}'? {', '.join(NOUNS[noun])}", next_command=f"perdure {noun} --help")


def wanted_format(arguments: Sequence[str]) -> str:
    """Return the output format that a command line asks for, even where it cannot be parsed."""
    found = "table"
    for at, text in enumerate(arguments):
        value = ""
        if text in ("-o", "--output"):
            value = arguments[at + 1] if at + 1 < len(arguments) else ""
        elif text.startswith("--output="):
            value = text.removeprefix("--output=")
        elif text.startswith("-o"):
            value = text.removeprefix("-o").removeprefix("=")
        found = value if value in FORMATS else found
    return found


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line.

    Raises:
        UsageError: it cannot be understood.
        SystemExit: it asked for help or for the version, which was printed.
    """
    words = cut(arguments)
    if words.names == ("demo",):
        # The demo has flags of its own and lies in an extra; its parser is not needed to start any other command.
        return argparse.Namespace(handler=("demo_cmd", "demo"), rest=[*words.before, *words.after], debug=False)
    # Not set_defaults: it would reach the flags' own parsers too, and undo what stood before the command.
    defaults = argparse.Namespace(state_dir=None, store=None, policy=[], output="table", debug=False)
    options = build().parse_args(list(arguments), defaults)
    if not hasattr(options, "handler"):
        raise _no_verb(words.names[0]) if words.names else UsageError("which command?")
    return options


def build() -> Parser:
    """Return the parser of the whole command line."""
    everywhere = _global_flags()
    parser = Parser(
        prog="perdure",
        description="A durable job runner for LLM agents: a killed job goes on, and no effect is silently repeated.",
        epilog="Global flags may stand before or after the command. Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, "
        "4 store, 5 lease held, 6 waits for a person, 7 in doubt, 8 deadline, 9 denied, 10 timer, 11 cancelled.",
        parents=[everywhere],
        allow_abbrev=False,
    )
    commands = Commands(parser, everywhere)
    for family in FAMILIES:
        family.add_to(commands)
    return parser


def _global_flags() -> Parser:
    flags = Parser(add_help=False, argument_default=argparse.SUPPRESS, allow_abbrev=False)
    group = flags.add_argument_group("global flags")
    group.add_argument("--state-dir", metavar="DIR", help="where ledger and workspaces are (PERDURE_HOME, ./.perdure)")
    group.add_argument("--store", metavar="URL", help="the ledger itself: sqlite:///FILE (PERDURE_STORE)")
    group.add_argument("--policy", metavar="FILE", action=Gather, help="a policy overlay; may be given several times")
    group.add_argument("-o", "--output", choices=FORMATS, help="what is printed on stdout (default: table)")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")
    group.add_argument("--version", action="version", version=f"perdure {__version__}")
    return flags
