"""What may be typed. This module imports nothing of the engine, so that ``perdure --help`` starts at once."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from perdure import __version__
from perdure.model.errors import UsageError

FORMATS = ("table", "json", "jsonl")
NOUNS: dict[str, tuple[str, ...]] = {
    "run": (),
    "resume": (),
    "runs": ("ls", "show"),
    "calls": ("ls", "show", "explain"),
    "inbox": (),
    "resolve": (),
    "approve": (),
    "deny": (),
    "answer": (),
    "policy": ("explain", "check"),
    "demo": (),
    "smoke": (),
    "crashtest": (),
    "db": ("path",),
}
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


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours: same shape, same code, one place where they are printed."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, next_command=f"{self.prog} --help")


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
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    hint = f"did you mean '{under}{near[0]}'?" if near else f"there are: {', '.join(names)}"
    return UsageError(f"no such {kind} '{under}{word}'; {hint}", next_command=help_command)


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
        raise UsageError("which command?" if not words.names else f"which command of '{words.names[0]}'?")
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
    commands = _Commands(parser, everywhere)
    _running(commands)
    _looking(commands)
    _deciding(commands)
    _the_rest(commands)
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


class _Commands:
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

    def noun(self, name: str, help_text: str) -> _Commands:
        """Add a command that has verbs."""
        return _Commands(self.add(name, help_text), self._everywhere, metavar="VERB")


def _running(commands: _Commands) -> None:
    run = commands.add("run", "start a job, or go on with the run of that id", ("run_cmd", "run"))
    run.add_argument("job", metavar="JOB", help="a job file (YAML or JSON), or FILE.py:function")
    run.add_argument("-i", "--input", metavar="KEY=VALUE", action="append", default=[], help="one input; may be JSON")
    run.add_argument("--run-id", metavar="ID", help="name the run; the same id again attaches or resumes")
    run.add_argument("--wait", action="store_true", help="stay until people have answered")
    resume = commands.add("resume", "settle what was started and go on with a run", ("run_cmd", "resume"))
    _run_id(resume)
    resume.add_argument("--kill-owner", action="store_true", help="kill the process that owns the run first")
    resume.add_argument("--wait", action="store_true", help="stay until people have answered")


def _looking(commands: _Commands) -> None:
    runs = commands.noun("runs", "list or show runs")
    ls = runs.add("ls", "list runs, newest first", ("look_cmd", "runs_ls"))
    ls.add_argument(
        "--status",
        choices=("queued", "running", "waiting", "succeeded", "failed", "cancelled"),
        help="only runs in this state",
    )
    _limit(ls, 50)
    _run_id(runs.add("show", "show where a run stands", ("look_cmd", "runs_show")))
    calls = commands.noun("calls", "list, show or explain tool calls")
    ls = calls.add("ls", "list calls, oldest first", ("look_cmd", "calls_ls"))
    ls.add_argument("run", metavar="RUN", nargs="?", help="only of this run: its id, a unique prefix, or @last")
    ls.add_argument("--inner", action="store_true", help="memos and model turns as well")
    _limit(ls, 1000)
    _call_id(calls.add("show", "show one call with request, receipt and evidence", ("look_cmd", "calls_show")))
    _call_id(calls.add("explain", "tell why a call is in its state and what to do", ("look_cmd", "calls_explain")))
    commands.add("inbox", "list everything that waits for a person", ("look_cmd", "inbox"))


def _deciding(commands: _Commands) -> None:
    resolve = commands.add("resolve", "settle a call in doubt, or a challenged one", ("decide_cmd", "resolve"))
    _call_id(resolve)
    says = resolve.add_mutually_exclusive_group(required=True)
    for flag, text in (
        ("--happened", "in doubt: it was done"),
        ("--did-not-happen", "in doubt: it was not done; it will be sent again"),
        ("--abandon", "in doubt: go on without knowing"),
        ("--another", "challenged: a new effect, meant to be sent"),
    ):
        verdict = flag.removeprefix("--").replace("-", "_")
        says.add_argument(flag, dest="says", action="store_const", const=verdict, help=text)
    says.add_argument("--same", metavar="CALL", nargs="?", const="", help="challenged: the same as an earlier call")
    resolve.add_argument("--result", metavar="JSON", help="what the caller gets, with --happened")
    resolve.add_argument("--ref", metavar="ID", help="the provider's own id of the effect, with --happened")
    resolve.add_argument("--reason", metavar="TEXT", default="", help="kept with the verdict")
    resolve.add_argument(
        "--force", action="store_true", help="with --did-not-happen: the sender may be alive; recorded"
    )
    _go_on(resolve)
    approve = commands.add("approve", "let a call be sent", ("decide_cmd", "approve"))
    approve.add_argument("question", metavar="ID", help="the question's id, as the inbox shows it")
    _go_on(approve)
    deny = commands.add("deny", "refuse a call", ("decide_cmd", "deny"))
    deny.add_argument("question", metavar="ID", help="the question's id, as the inbox shows it")
    deny.add_argument("--reason", metavar="TEXT", required=True, help="what the agent is told")
    _go_on(deny)
    answer = commands.add("answer", "close a notice, with words for the record", ("decide_cmd", "answer"))
    answer.add_argument("question", metavar="ID", help="its id, as the inbox shows it")
    answer.add_argument("text", metavar="TEXT", help="what is recorded")


def _the_rest(commands: _Commands) -> None:
    policy = commands.noun("policy", "ask what the policy says")
    explain = policy.add("explain", "tell what holds for a tool, and why", ("rules_cmd", "explain"))
    explain.add_argument("name", metavar="NAME", help="the tool's name")
    explain.add_argument("--namespace", metavar="N", help="where the tool lives (default: local)")
    explain.add_argument("--args", metavar="JSON", help="arguments of one call, to show what would be refused")
    explain.add_argument("--tools", metavar="MODULE", action="append", default=[], help="a module with @tool functions")
    check = policy.add("check", "check policy files", ("rules_cmd", "check"))
    check.add_argument("files", metavar="FILE", nargs="+")
    commands.add("demo", "watch a real job being killed three times and finish anyway")
    smoke = commands.add(
        "smoke", "kill a small run at its worst moments, resume it, and count outside", ("smoke_cmd", "smoke")
    )
    smoke.add_argument("--folder", metavar="DIR", help="an empty folder for everything; else a temporary one")
    _crashtest(commands)
    db = commands.noun("db", "ask about the ledger's file")
    db.add("path", "print where the ledger is", ("look_cmd", "db_path"))


def _crashtest(commands: _Commands) -> None:
    test = commands.add(
        "crashtest", "kill your own job at every crash point, and count outside", ("crashtest_cmd", "crashtest")
    )
    add = test.add_argument
    add("job", metavar="JOB", help="a job file (YAML or JSON), or FILE.py:function")
    add("-i", "--input", metavar="KEY=VALUE", action="append", default=[], help="one input; may be JSON")
    add("--points", metavar="LIST", help="only these crash points, such as 1-20,33")
    add("--worst", action="store_true", help="only the worst moment of each tool: result received, receipt not stored")
    add("--max-points", metavar="N", type=_positive, help="at most N crash points")
    add("--jobs", metavar="N", type=_positive, default=1, help="so many runs side by side (1)")
    add("--returns", metavar="TOOL=JSON", action="append", default=[], help="what the stand-in for a tool returns; "
        "memo:NAME for a memo, '*' for every tool")  # fmt: skip
    add("--from-run", metavar="RUN", help="stand-ins return what the tools returned in this real run")
    add("--stub-reads", action="store_true", help="reading tools are not entered either, nor local ones with a value")
    add("--live", action="store_true", help="enter the real tools; needs --max-points, --points or --worst")
    add("--html", metavar="FILE", help="write the report as a page")
    add("--folder", metavar="DIR", help="an empty folder for everything, kept; else a temporary one")
    add("--life-seconds", metavar="N", type=_positive, default=60, help="a life that lasts longer is stuck (60)")


def _positive(text: str) -> int:
    number = _count(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return number


def _run_id(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="the run's id, a unique prefix of it, or @last")


def _call_id(parser: Parser) -> None:
    parser.add_argument("call", metavar="CALL", help="the call's id, <run_id>.<n>")


def _go_on(parser: Parser) -> None:
    parser.add_argument("--resume", action="store_true", help="then resume the run; its exit code is returned")


def _limit(parser: Parser, default: int) -> None:
    parser.add_argument("--limit", metavar="N", type=_count, default=default, help=f"at most N, 0 for all ({default})")


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)
