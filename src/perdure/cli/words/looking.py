"""The commands that look and change nothing."""

from __future__ import annotations

from perdure.cli.words.grammar import Commands, call_id, limit, run_id

NOUNS: dict[str, tuple[str, ...]] = {"runs": ("ls", "show"), "calls": ("ls", "show", "explain"), "inbox": ()}


def add_to(commands: Commands) -> None:
    """Add them."""
    runs = commands.noun("runs", "list or show runs")
    ls = runs.add("ls", "list runs, newest first", ("look_cmd", "runs_ls"))
    ls.add_argument(
        "--status",
        choices=("queued", "running", "waiting", "succeeded", "failed", "cancelled"),
        help="only runs in this state",
    )
    limit(ls, 50)
    run_id(runs.add("show", "show where a run stands", ("look_cmd", "runs_show")))
    calls = commands.noun("calls", "list, show or explain tool calls")
    ls = calls.add("ls", "list calls, oldest first", ("look_cmd", "calls_ls"))
    ls.add_argument("run", metavar="RUN", nargs="?", help="only of this run: its id, a unique prefix, or @last")
    ls.add_argument("--inner", action="store_true", help="memos and model turns as well")
    limit(ls, 1000)
    call_id(calls.add("show", "show one call with request, receipt and evidence", ("look_cmd", "calls_show")))
    call_id(calls.add("explain", "tell why a call is in its state and what to do", ("look_cmd", "calls_explain")))
    commands.add("inbox", "list everything that waits for a person", ("look_cmd", "inbox"))
