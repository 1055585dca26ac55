"""``must_cite_sources``: what is handed over cites what was read, by receipts and files alone (R035).

Each expected output that is prose must name a URL that a reading tool of this run was given, or says it has fetched,
in a call that succeeded.
Whether the text is true to its source nobody checks here; a report without any source that was read is not accepted.
"""

from __future__ import annotations

import json

from perdure.core.citations import is_prose, urls_fetched, urls_in
from perdure.runtime.life import Life
from perdure.store.sql_store import SqlStore

LARGEST_BYTES = 64 * 1024 * 1024


def missing(life: Life, store: SqlStore) -> list[str]:
    """Return one sentence for each expected output that cites nothing that was read."""
    if life.section("constraints").get("must_cite_sources") is not True:
        return []
    outputs = [path for path in life.section("artifacts").get("expected_outputs") or () if is_prose(path)]
    numbers = store.calls.reads(life.run_id) if outputs else []
    read = set[str]().union(*(_read_by(store, number) for number in numbers))
    return [
        f"{path} cites no URL that a reading tool of this run has fetched (must_cite_sources)"
        for path in outputs
        if not read & _cited(life, path)
    ]


def _read_by(store: SqlStore, call_no: int) -> set[str]:
    receipt = json.loads(store.calls.response(call_no) or "null")
    return urls_in(store.calls.request(call_no)) | urls_fetched(receipt)


def _cited(life: Life, path: str) -> set[str]:
    file = life.workspace / path
    if not file.is_file():
        return set()
    with file.open("rb") as stream:
        return urls_in(stream.read(LARGEST_BYTES).decode("utf-8", errors="replace"))
