"""The commands about runs and calls: all look and change nothing, but for ``runs cancel``."""

from __future__ import annotations

from perdure.cli.words.grammar import Commands, Parser, call_id, limit, run_id

NOUNS: dict[str, tuple[str, ...]] = {
    "runs": ("ls", "show", "watch", "cancel", "export"),
    "calls": ("ls", "show", "explain"),
    "inbox": (),
}
_WATCH = ("watch_cmd", "watch")
_RUN_STATES = ("queued", "running", "waiting", "succeeded", "failed", "cancelled")
_CALL_STATES = (
    *("prepared", "awaiting_approval", "running", "in_doubt"),
    *("succeeded", "failed", "cancelled", "abandoned"),
)
_CLASSES = ("external", "memory", "local", "read_only")


def add_to(commands: Commands) -> None:
    """Add them."""
    runs = commands.noun("runs", "list, show, watch or cancel runs")
    ls = runs.add("ls", "list runs, newest first", ("look_cmd", "runs_ls"))
    ls.add_argument("--status", choices=_RUN_STATES, help="only runs in this state")
    ls.add_argument("--name", metavar="NAME", help="only runs of this name; may hold * and ?")
    _since(ls, "runs")
    _table(ls)
    limit(ls, 50)
    show = runs.add("show", "show where a run stands", ("look_cmd", "runs_show"))
    run_id(show)
    show.add_argument("--if-killed-now", action="store_true", help="what would be done with each open call")
    _times(show)
    cancel = runs.add(
        "cancel", "end runs that have not ended; what is in doubt stays in the inbox", ("end_cmd", "cancel")
    )
    cancel.add_argument("runs", metavar="RUN", nargs="+", help="ids, unique prefixes, or @last")
    cancel.add_argument("--reason", metavar="TEXT", default="", help="kept with the run")
    cancel.add_argument("--kill-owner", action="store_true", help="kill the process that drives the run first")
    watch = runs.add(
        "watch", "show what a run does, until it ends, waits or nobody drives it; its exit code is returned", _WATCH
    )
    watch.add_argument(
        "run", metavar="RUN", nargs="?", default="@last", help="its id, a unique prefix, or @last (@last)"
    )
    watch.add_argument(
        "--until",
        choices=("waits", "ended"),
        default="waits",
        help="ended: stay while it waits, or nobody drives it (waits)",
    )
    watch.add_argument("--since", metavar="CURSOR", help="what came after this event; 'start' is the beginning")
    run_id(runs.add("export", "write the files of a run anew from the ledger", ("files_cmd", "export")))
    calls = commands.noun("calls", "list, show or explain tool calls")
    ls = calls.add("ls", "list calls, oldest first", ("look_cmd", "calls_ls"))
    ls.add_argument("run", metavar="RUN", nargs="?", help="only of this run: its id, a unique prefix, or @last")
    ls.add_argument("--status", choices=_CALL_STATES, help="only calls in this state")
    ls.add_argument("--effects", choices=_CLASSES, help="only calls of this side-effect class")
    ls.add_argument("--tool", metavar="NAME", help="only calls of this tool; may hold * and ?")
    ls.add_argument("--inner", action="store_true", help="memos and model turns as well")
    _since(ls, "calls")
    _table(ls)
    limit(ls, 1000)
    call_id(calls.add("show", "show one call with request, receipt and evidence", ("look_cmd", "calls_show")))
    call_id(calls.add("explain", "tell why a call is in its state and what to do", ("look_cmd", "calls_explain")))
    inbox = commands.add("inbox", "list everything that waits for a person", ("look_cmd", "inbox"))
    inbox.add_argument("run", metavar="RUN", nargs="?", help="only of this run: its id, a unique prefix, or @last")


def _since(parser: Parser, what: str) -> None:
    parser.add_argument(
        "--since",
        metavar="TIME",
        help=f"only {what} that moved since: 90 (seconds ago), 24h, 7d, or a time in ISO-8601",
    )


def _table(parser: Parser) -> None:
    parser.add_argument("--columns", metavar="LIST", help="the columns of the table, apart by commas")
    _times(parser)


def _times(parser: Parser) -> None:
    parser.add_argument(
        "--time", choices=("relative", "iso"), help="how times are shown (relative on a terminal, else iso)"
    )
