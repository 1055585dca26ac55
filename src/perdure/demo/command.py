"""``perdure demo``: starts the outside world, runs the report job, kills it at its worst moments, and counts."""

from __future__ import annotations

import argparse
import importlib.util
import json
import signal
import sys
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from perdure.demo.errors import DemoUnavailable
from perdure.model.errors import UsageError

_NEEDED = (
    *("aiosmtpd", "aiosmtplib", "httpx2", "lede", "lxml_html_clean", "obstore", "protego", "pymap"),
    *("trafilatura", "typst"),
)


class _Terminated(KeyboardInterrupt):
    """SIGTERM came; it ends the demo as Ctrl-C does."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, next_command="perdure demo --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="perdure demo",
        description="Watch a real job (crawl, report, PDF, upload, mail, notice) being killed with SIGKILL at its "
        "three worst moments and finishing anyway, on servers of its own on this machine. What they received counts.",
        epilog="Exit code 0 only if every count is right.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--kill-at", metavar="POINT", help="crawl, upload, mail (several apart by commas), none, or the number of a "
        "crash point; all three when left out")  # fmt: skip
    add(
        "--no-probe",
        action="store_true",
        help="the job may not search the mailbox: a person has to settle the mail",
    )
    add(
        "--folder",
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="an empty folder for everything; else a temporary one",
    )
    add(
        "--policy",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a policy on top of the job's own",
    )
    add("-o", "--output", choices=("table", "json"), default="table", help="what is printed on stdout")
    add("--debug", action="store_true", help="show the traceback of an error")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code.

    Args:
        arguments: what stands behind ``perdure demo``; those of this process when left out.

    Raises:
        UsageError: the arguments make no sense.
        DemoUnavailable: what the demo needs is not installed.
        PerdureError: a server, or the run itself, did not do what it must.
    """
    told = _parser().parse_args(arguments)
    _check_installed()
    from perdure.demo.judge import document, judge, summary
    from perdure.demo.moments import kills_of
    from perdure.demo.screen import Screen
    from perdure.demo.show import Show

    kills = kills_of(told.kill_at)
    for path in told.policy:
        if not path.is_file():
            raise UsageError(f"--policy {path}: no such file", next_command="perdure demo --help")
    with _ended_by_sigterm():
        try:
            seen = Show(_folder(told.folder), kills, probe=not told.no_probe, policies=told.policy).run()
        except KeyboardInterrupt as stop:
            sys.stderr.write("\nstopped, and with it the servers and the job\n")
            return 143 if isinstance(stop, _Terminated) else 130
    wrong = judge(seen)
    as_json = told.output == "json"
    Screen(sys.stderr if as_json else sys.stdout).lines(summary(seen, wrong))
    if as_json:
        sys.stdout.write(json.dumps(document(seen)) + "\n")
    return 1 if wrong else 0


def _check_installed() -> None:
    """Say at once, and not after ten seconds, that something is missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise DemoUnavailable(f"the demo needs packages that are not installed: {', '.join(missing)}")
    from perdure.demo.world.weed import WeedError, find_program

    try:
        find_program()
    except WeedError as problem:
        raise DemoUnavailable(str(problem)) from problem


def _folder(given: Path | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="perdure-demo-"))
    folder = given.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{given} is not an empty folder; the demo counts, and must begin at nothing")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _ended_by_sigterm() -> Generator[None]:
    """Let SIGTERM end the demo in good order: nothing it started may stay behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
