"""``run.log``: written while a run goes on, by what commits have changed; caught up after a crash."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.core.run_log import line
from perdure.model.run import StepStatus
from perdure.model.toolcall import CallRow, CallStatus
from perdure.runtime.workspace import RUN_LOG, append, tail
from perdure.store.changes import Change
from perdure.store.runs import LifeRow, StepRow

if TYPE_CHECKING:
    from perdure.runtime.ledger import Ledger
    from perdure.runtime.life import Life
    from perdure.store.sql_store import SqlStore

WRITE_SECONDS = 0.25
TAIL_BYTES = 64 * 1024
RECENT_ROWS = 60
RECENT_STEPS = 20
HELD_LINES = 100
PAGE_ROWS = 500
ENDED = ("succeeded", "failed", "cancelled")


class RunLogs:
    """Collects what was committed, and writes it into the logs of the runs a few times a second.

    Args:
        failed: told where a log cannot be written; what it would have said stands in the rows.
        write: called a few times a second; it calls ``write`` here.
    """

    def __init__(self, ledger: Ledger, failed: Callable[[str, Exception], None], write: Callable[[], object]) -> None:
        self._ledger = ledger
        self._failed = failed
        self._write = write
        self._heard: deque[Change] = deque()
        self._files: dict[str, Path] = {}
        self._held: dict[str, list[str]] = {}
        self._writing = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        ledger.listen(self._heard.extend)

    def watch(self, run_id: str, workspace: Path) -> None:
        """Write a run's log from now on, without anybody asking."""
        self._files[run_id] = workspace / RUN_LOG
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="perdure-run-log", daemon=True)
            self._thread.start()

    def catch_up(self, life: Life) -> None:
        """Write what the life before did last and did not come to write down: it was killed."""
        known = tail(life.workspace / RUN_LOG, TAIL_BYTES)
        told = life.ledger.read(lambda store: _of_the_life_before(life, store))
        # An announced step was written down as ready, and the row of one that has begun does not say so any more.
        late = [text for text in sorted(told) if text not in known and f"  {_subject(text)} ready" not in known]
        if late:
            append(life.workspace / RUN_LOG, "".join(f"{text}  [told late]\n" for text in late))

    def write(self) -> set[str]:
        """Write everything that was heard until now, and return the runs that have ended according to it."""
        ended: set[str] = set()
        with self._writing:
            lines, self._held = self._held, {}
            while self._heard:
                change = self._heard.popleft()
                if change.kind == "run" and change.status in ENDED:
                    ended.add(change.run_id)
                text = line(change.kind, change.subject, change.name, change.status, change.at, change.note)
                lines.setdefault(change.run_id, []).append(text + "\n")
            for run_id, texts in lines.items():
                try:
                    file = self._file(run_id)
                    if file.parent.is_dir():
                        append(file, "".join(texts))
                    else:
                        self._held[run_id] = texts[-HELD_LINES:]  # its folder is about to be made, or was taken away
                except Exception as problem:
                    self._failed(run_id, problem)
        return ended

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _file(self, run_id: str) -> Path:
        known = self._files.get(run_id)
        if known is None:
            row = self._ledger.read(lambda store: store.listed.run(run_id))
            if row is None:
                raise FileNotFoundError(f"there is no run {run_id!r}")
            known = self._files[run_id] = Path(row.workspace) / RUN_LOG
        return known

    def _serve(self) -> None:
        while not self._stop.wait(WRITE_SECONDS):
            self._write()


def lines_of_call(row: CallRow) -> Iterator[str]:
    """Yield what the log says of a call, as far as its row still tells."""
    if row.started_at is not None:
        yield _of_call(row, CallStatus.RUNNING, row.started_at, f"attempt {row.attempt}")
    if row.finished_at is not None:
        yield _of_call(row, row.status, row.finished_at, row.error_code or "")


def _of_call(row: CallRow, status: str, at: str, note: str) -> str:
    return line("call", row.tool_call_id, row.tool_name, status, at, note)


def whole_log(ledger: Ledger, run_id: str) -> str:
    """Return the log of a run as its rows tell it, in the order of time."""
    lines = ledger.read(
        lambda store: [
            *_of_lives(store, run_id),
            *(text for step in store.steps.list(run_id) for text in _of_step(step)),
        ]
    )
    after = 0
    while rows := ledger.read(partial(_page, run_id, after)):
        lines += [text for row in rows for text in lines_of_call(row)]
        after = rows[-1].call_no
    return "".join(f"{text}\n" for text in sorted(lines))


def _of_the_life_before(life: Life, store: SqlStore) -> list[str]:
    before = store.runs.life(life.run_id, life.fence - 1)
    if before is None:
        return []
    last = life.next_call_number - 1
    rows = store.reports.recent(life.run_id, last=last, how_many=RECENT_ROWS)
    told = [text for row in rows if row.fence == before.fence for text in lines_of_call(row)]
    known_steps: list[StepRow] = list(life.steps.values())[-RECENT_STEPS:]
    steps = [text for step in known_steps if step.created_at >= before.started_at for text in _of_step(step)]
    return [_began(before), *steps, *told]


def _began(life: LifeRow) -> str:
    return line("life", str(life.attempt), "", "began", life.started_at, f"process {life.owner.pid}")


def _page(run_id: str, after: int, store: SqlStore) -> list[CallRow]:
    return store.reports.page(run_id, after=after, limit=PAGE_ROWS)


def _of_lives(store: SqlStore, run_id: str) -> Iterator[str]:
    for life in store.runs.lives(run_id):
        yield _began(life)
        if life.ended_at is not None:
            yield line("life", "", "", life.how or "", life.ended_at)
    for asked in store.reports.questions(run_id):
        yield line("question", asked.approval_id, asked.kind, "open", asked.created_at, asked.tool_call_id or "")
    row = store.listed.run(run_id)
    if row is not None and row.status.ended:
        yield line("run", run_id, "", row.status, row.updated_at, row.error_code or "")


def _subject(text: str) -> str:
    """Return the beginning of a line that tells of a step's first moment: which step, and its name."""
    return text.partition("  ")[2].rpartition(" ")[0]


def _of_step(step: StepRow) -> Iterator[str]:
    """Yield what the log says of a step; of one that was announced and has begun, the row knows no second moment."""
    never_begun = step.status in (StepStatus.READY, StepStatus.SKIPPED)
    if step.status is StepStatus.SKIPPED and step.created_at == step.updated_at:
        yield line("step", step.step_id, step.name, step.status, step.created_at)
        return
    first = StepStatus.READY if never_begun else StepStatus.RUNNING
    yield line("step", step.step_id, step.name, first, step.created_at)
    if step.status is not first:
        yield line("step", step.step_id, "", step.status, step.updated_at, step.error_code or "")
