"""``perdure runs watch``, for a run that another process works on; and what ``perdure run`` shows of its own."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from typing import IO, TYPE_CHECKING

from perdure.cli import progress
from perdure.cli.live import Block, can_redraw, printed_above, speaks_unicode
from perdure.cli.look_cmd import print_outcome
from perdure.cli.opening import engine_of
from perdure.cli.output import Output, note
from perdure.model.errors import NotFound, PerdureError, UsageError

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.runtime.changes import Change
    from perdure.runtime.watching import Watcher

POLL_SECONDS = 0.2
REDRAW_SECONDS = 1.0
UNDRIVEN_EXIT = 6  # it waits for a person who goes on with it


def watch(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure runs watch``; the exit code is the run's."""
    if options.since is not None and output.form == "json":
        raise UsageError("--since belongs to -o jsonl, or to lines; -o json prints where the run stands in the end")
    with engine_of(options) as engine, engine.watcher(options.run, since=options.since) as watcher:
        if output.form == "jsonl":
            _stream(watcher, output, options.until)
        elif output.form == "json":
            _follow(watcher, options.until)
        elif can_redraw(output.stdout, os.environ) and options.since is None:
            _draw(watcher, output.stdout, options.until)
        else:
            _print_lines(watcher, output, options.until)
        found = watcher.outcome()
        code = print_outcome(output, found) if output.form == "json" else found.exit_code
    if watcher.is_undriven():
        note(f"run {found.run_id}: nobody drives it; {found.way_on}")
        return UNDRIVEN_EXIT
    return code


def _stream(watcher: Watcher, output: Output, until: str) -> None:
    for found in _looks(watcher, until):
        output.lines(json.dumps(item.document(watcher.run_id)) for item in found)


def _print_lines(watcher: Watcher, output: Output, until: str) -> None:
    output.lines(progress.block(watcher.progress(), unicode=True)[:1])
    for found in _looks(watcher, until):
        output.lines(progress.lines(found, lambda: watcher.progress().resume_command))
    output.lines(progress.block(watcher.progress(), unicode=True))


def _follow(watcher: Watcher, until: str) -> None:
    for _ in _looks(watcher, until):
        continue


def _looks(watcher: Watcher, until: str) -> Iterator[list[Change]]:
    """Look until there is nothing more to stay for, and yield what has changed each time."""
    pause = threading.Event()
    while True:
        found = watcher.look()
        if found:
            yield found
        elif watcher.is_over(until):
            return
        else:
            pause.wait(POLL_SECONDS)


def _draw(watcher: Watcher, stream: IO[str], until: str) -> None:
    block, unicode, pause = Block(stream), speaks_unicode(stream), threading.Event()
    since_drawn = REDRAW_SECONDS
    while True:
        found = watcher.look()
        if found or since_drawn >= REDRAW_SECONDS:
            block.draw(progress.block(watcher.progress(), unicode=unicode))
            since_drawn = 0.0
        if not found and watcher.is_over(until):
            return
        if not found:
            pause.wait(POLL_SECONDS)
            since_drawn += POLL_SECONDS


@contextmanager
def shown(engine: Engine, run_id: str, output: Output, *, quiet: bool) -> Generator[None]:
    """Show on stderr how a run of this process gets on: a block on a terminal, a line for each change elsewhere.

    Args:
        quiet: show nothing; nor is anything shown where the answer is a document for programs.
    """
    if quiet or not output.is_table or not sys.stderr:
        yield
        return
    block = Block(sys.stderr) if can_redraw(sys.stderr, os.environ) else None
    screen = _Screen(engine, run_id, block, unicode=speaks_unicode(sys.stderr))
    with printed_above(block) if block is not None else nullcontext():
        screen.start()
        try:
            yield
        finally:
            screen.stop()


class _Screen:
    """A thread that looks at a run of its own process, on a connection that only reads."""

    def __init__(self, engine: Engine, run_id: str, block: Block | None, *, unicode: bool) -> None:
        self._engine = engine
        self._run_id = run_id
        self._block = block
        self._unicode = unicode
        self._watcher: Watcher | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="perdure-progress", daemon=True)

    def start(self) -> None:
        """Begin to look; a run that is there already is told from here on."""
        self._open(None)
        self._thread.start()

    def stop(self) -> None:
        """Show the last of it, and take the block away: the answer says where the run stands."""
        self._over.set()
        self._thread.join()
        if self._block is not None:
            self._block.erase()

    def _open(self, since: str | None) -> None:
        try:
            self._watcher = self._engine.watcher(self._run_id, since=since)
        except NotFound:
            self._watcher = None

    def _look(self) -> None:
        try:
            while not self._over.wait(POLL_SECONDS):
                self._show()
            self._show()
        except PerdureError:
            return  # what ails the ledger is told by the run itself
        finally:
            if self._watcher is not None:
                self._watcher.close()

    def _show(self) -> None:
        if self._watcher is None:
            self._open("start")
        if self._watcher is None:
            return
        watcher = self._watcher
        found = watcher.look()
        if self._block is not None:
            self._block.draw(progress.block(watcher.progress(), unicode=self._unicode))
        elif found:
            note(*progress.lines(found, lambda: watcher.progress().resume_command))
