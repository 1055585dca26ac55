"""The commands that run jobs."""

from __future__ import annotations

from perdure.cli.words.grammar import Commands, quiet

NOUNS: dict[str, tuple[str, ...]] = {"run": (), "resume": ()}


def add_to(commands: Commands) -> None:
    """Add them."""
    run = commands.add("run", "start a job, or go on with the run of that id", ("run_cmd", "run"))
    run.add_argument("job", metavar="JOB", help="a job file (YAML or JSON), or FILE.py:function")
    run.add_argument("-i", "--input", metavar="KEY=VALUE", action="append", default=[], help="one input; may be JSON")
    run.add_argument("--run-id", metavar="ID", help="name the run; the same id again attaches or resumes")
    quiet(run)
    run.add_argument("--wait", action="store_true", help="stay until people have answered")
    resume = commands.add("resume", "settle what was started and go on with a run", ("run_cmd", "resume"))
    resume.add_argument("run", metavar="RUN", nargs="?", help="the run's id, a unique prefix of it, or @last")
    resume.add_argument("--all", action="store_true", help="every interrupted or queued run that needs no person")
    resume.add_argument(
        "--max-age", metavar="TIME", help="with --all: leave runs in which nothing has happened for longer (24h)"
    )
    resume.add_argument("--accept-change", action="store_true", help="go on although the program or its rules changed")
    resume.add_argument("--kill-owner", action="store_true", help="kill the process that owns the run first")
    quiet(resume)
    resume.add_argument("--wait", action="store_true", help="stay until people have answered")
    resume.add_argument(
        "--grant",
        metavar="NAME=AMOUNT",
        action="append",
        default=[],
        help="let the run use more: minutes calls steps tokens usd retries errors, "
        "deadline=MOMENT or deadline=+2h; several with commas",
    )
