"""``transcript.md``: what was asked, called and answered, in reading order; each life adds what is new.

The end of the file says how far it goes, so that adding costs what is added and not what is there. A file without that
line, or without its end, is written anew.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.core.transcript import entry
from perdure.runtime.workspace import TRANSCRIPT, append, tail, write_whole

if TYPE_CHECKING:
    from perdure.runtime.ledger import Ledger
    from perdure.store.sql_store import SqlStore

PAGE_ROWS = 200
TAIL_BYTES = 16 * 1024
_END = re.compile(r"<!-- perdure: told to (\d+), open((?: \d+)*) -->\n\Z")


def write_transcript(ledger: Ledger, run_id: str, workspace: Path) -> None:
    """Add to a run's transcript what its rows have more, a page at a time."""
    path = workspace / TRANSCRIPT
    after, waiting = _place(path, run_id)
    while True:
        text, after, waiting, more = ledger.read(partial(_page, run_id, after, waiting))
        if text:
            text = ledger.vault.shown(text, page=True)
            append(path, f"{text}<!-- perdure: told to {after}, open{''.join(f' {item}' for item in waiting)} -->\n")
        if not more:
            return


def _place(path: Path, run_id: str) -> tuple[int, list[int]]:
    """Return how far the file goes, and which calls had no outcome then; begin it where there is none."""
    found = _END.search(tail(path, TAIL_BYTES))
    if found is not None:
        return int(found[1]), [int(number) for number in found[2].split()]
    write_whole(path, f"# Transcript of {run_id}\n\n")
    return 0, []


def _page(run_id: str, after: int, waiting: list[int], store: SqlStore) -> tuple[str, int, list[int], bool]:
    parts: list[str] = []
    still: list[int] = []
    for call_no in waiting:
        row = store.calls.get(call_no)
        if row.status.settled:
            request, response = store.listed.request(call_no), store.listed.response(call_no)
            parts.append(entry(row, request, response, again=True))
        else:
            still.append(call_no)
    page = store.reports.whole_page(run_id, after=after, limit=PAGE_ROWS)
    for row, request, response in page:
        parts.append(entry(row, request, response))
        if not row.status.settled:
            still.append(row.call_no)
    end = page[-1][0].call_no if page else after
    return "".join(parts), end, still, len(page) == PAGE_ROWS
