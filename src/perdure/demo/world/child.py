"""What every server process of the world does when it starts, and how it ends with its parent."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """What a server of the world is told on its command line."""

    folder: Path
    ports: tuple[int, ...]
    leash: int
    key_ttl_seconds: float


def parse_options(server: str, argv: Sequence[str] | None = None) -> ChildOptions:
    """Read the command line every server of the world shares.

    Args:
        server: the server's module name, for the usage line.
        argv: the arguments; those of this process when left out.
    """
    parser = argparse.ArgumentParser(prog=f"python -m perdure.demo.world.{server}")
    parser.add_argument("--folder", type=Path, required=True, help="where this world keeps its files")
    parser.add_argument("--port", type=int, action="append", default=[], help="0 or absent: the system chooses")
    parser.add_argument("--leash", type=int, default=0, help="process id of the parent to die with, 0 for none")
    parser.add_argument("--key-ttl-seconds", type=float, default=86400.0, help="how long a webhook key is remembered")
    told = parser.parse_args(argv)
    return ChildOptions(told.folder.absolute(), (*told.port, 0, 0), told.leash, told.key_ttl_seconds)


def announce(**facts: object) -> None:
    """Tell the parent, in one line of JSON on stdout, that this server answers now, and where."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def serve_until_orphaned(at_end: Callable[[], None] | None = None) -> None:
    """Block until the parent closes its end of stdin, by intent or by dying, or SIGTERM comes; then end.

    Args:
        at_end: called before the end; must be quick.
    """

    mine = threading.current_thread() is threading.main_thread()

    def end() -> None:
        if mine:
            # A parent's death closes stdin and sends the signal: the one must not begin the end again inside the other,
            # where it would wait for a lock that the interrupted half holds.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if at_end is not None:
            at_end()
        # Every line that was answered for is on stable storage already; request threads are not waited for.
        os._exit(0)

    if mine:
        signal.signal(signal.SIGTERM, lambda _number, _frame: end())
    while os.read(0, 4096):
        continue
    end()
