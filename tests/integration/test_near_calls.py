"""The few rows of a run that a new effect is compared with: no kin is missing, and nothing is read for nothing."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.core.identity import kin
from perdure.model.toolcall import CallKey, CallRow
from perdure.store.sql_store import SqlStore
from tests.integration.store_support import KEY, new_call, open_ledger, seed

HASHES, SCOPES = ("one", "two", "three"), (None, '{"to":"ann"}', '{"to":"bob"}', '{"to":"cid"}')
NOW = "2026-11-22T10:00:00.000000Z"


def fill(store: SqlStore, chance: random.Random) -> None:
    """Insert calls of two tools with all kinds of arguments, scopes, edits and citations."""
    seed(store)
    for number in range(1, 81):
        key = KEY._replace(args_hash=chance.choice(HASHES), tool_name=chance.choice((KEY.tool_name, "other")))
        cites = f"r1.{number - 1}" if number > 1 and chance.random() < 0.3 else None
        call = replace(new_call(number), key=key, effect_scope=chance.choice(SCOPES), repeat_of=cites)
        row = store.calls.insert(call, NOW)
        if chance.random() < 0.3:
            edited = {"hash": chance.choice(HASHES), "scope": chance.choice(SCOPES), "call_no": row.call_no}
            store.connection.write(
                "UPDATE tool_calls SET edited_args_hash = :hash, edited_scope = :scope WHERE call_no = :call_no", edited
            )


@pytest.mark.parametrize("seed_of_chance", range(3))
def test_no_kin_and_no_citation_is_missing_among_the_rows_near_a_call(tmp_path: Path, seed_of_chance: int) -> None:
    chance = random.Random(seed_of_chance)
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.run(lambda store: fill(store, chance))
    compared = 0
    for _ in range(60):
        asked = (KEY._replace(args_hash=chance.choice(HASHES)), chance.choice(SCOPES))
        edited = (asked[0]._replace(args_hash=chance.choice(HASHES)), chance.choice(SCOPES))
        meant = chance.choice([(asked,), (asked, edited)])
        own, cited, listed = chance.randrange(1, 81), f"r1.{chance.randrange(1, 81)}", chance.sample(range(1, 81), 3)

        def found(
            store: SqlStore,
            meant: tuple[tuple[CallKey, str | None], ...] = meant,
            own: int = own,
            cited: str = cited,
            listed: list[int] = listed,
        ) -> tuple[list[CallRow], list[CallRow]]:
            near = store.kin.near("r1", meant, own=own, cited=cited, listed=listed)
            return near, [row for row in store.calls.same_tool("r1", meant[0][0]) if row.call_no != own]

        near, all_of_tool = ledger.read(found)
        needed = [
            row
            for row in all_of_tool
            if any(kin(row, key, scope, unmet=False) for key, scope in meant)
            or row.repeat_of == cited
            or row.call_no in listed
        ]
        assert [row for row in near if row in needed] == needed
        compared += len(needed)
    ledger.close()
    assert compared


def test_what_has_nothing_to_do_with_a_call_is_not_read_for_it(tmp_path: Path) -> None:
    """A run may have done ten thousand effects; the next one is not compared with each."""
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.run(lambda store: fill(store, random.Random(0)))
    new = (KEY._replace(args_hash="new"), '{"to":"dan"}')
    assert ledger.read(lambda store: store.kin.near("r1", (new,), own=-1, cited=None, listed=[])) == []
    assert ledger.read(lambda store: store.kin.near("r2", (new,), own=-1, cited=None, listed=[1])) == []
    ledger.close()
