"""The commands by which people answer."""

from __future__ import annotations

from perdure.cli.words.grammar import Commands, call_id, go_on

NOUNS: dict[str, tuple[str, ...]] = {"resolve": (), "approve": (), "deny": (), "answer": ()}


def add_to(commands: Commands) -> None:
    """Add them."""
    resolve = commands.add("resolve", "settle a call in doubt, or a challenged one", ("decide_cmd", "resolve"))
    call_id(resolve)
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
    go_on(resolve)
    approve = commands.add("approve", "let a call be sent", ("decide_cmd", "approve"))
    approve.add_argument("questions", metavar="ID", nargs="+", help="ids of questions, as the inbox shows them")
    edited = approve.add_mutually_exclusive_group()
    edited.add_argument("--edit", metavar="JSON", help="arguments to send instead, of one call; the others stay")
    edited.add_argument("--edit-file", metavar="FILE", help="the same from a file; - is standard input")
    approve.add_argument(
        "--tools", metavar="MODULE", action="append", default=[], help="a module with the tool, to check an edit by"
    )
    approve.add_argument("--reason", metavar="TEXT", default="", help="kept with the verdict")
    go_on(approve)
    deny = commands.add("deny", "refuse a call", ("decide_cmd", "deny"))
    deny.add_argument("questions", metavar="ID", nargs="+", help="ids of questions, as the inbox shows them")
    deny.add_argument("--reason", metavar="TEXT", required=True, help="what the agent is told")
    go_on(deny)
    answer = commands.add(
        "answer",
        "answer a question of the program, or close a notice",
        ("decide_cmd", "answer"),
    )
    answer.add_argument("question", metavar="ID", help="its id, as the inbox shows it")
    answer.add_argument("text", metavar="TEXT", help="one of its options, if it has some")
    go_on(answer)
