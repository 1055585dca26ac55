"""The person of the soak: looks at the provider's log, waits until everything has landed, and then answers."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.testing.provider.effect_log import Line
from tests.crash.support import LedgerFile
from tests.soak.desk import REFUSED, CommandLine, Library
from tests.soak.stand import World


@dataclass(frozen=True, slots=True)
class Row:
    """One row of `tool_calls`, as anyone may read it."""

    tool_call_id: str
    tool_name: str
    status: str
    replay_policy: str
    key: str
    key_expires_at: str | None
    what: str
    ref: str | None
    receipt: Any = field(hash=False)

    @property
    def name(self) -> str:
        """The end of the name of its effect."""
        return self.what.partition(":")[2]

    @property
    def provider_id(self) -> str | None:
        """The id that its receipt names."""
        found = self.receipt.get("id") if isinstance(self.receipt, dict) else None
        return self.ref or found


def rows_of(state_dir: Path) -> list[Row]:
    """The tool calls of a ledger, oldest first; none where it is not made yet."""
    path = state_dir / "runtime_state.db"
    if not path.exists():
        return []
    sql = (
        "SELECT tool_call_id, tool_name, status, replay_policy, idempotency_key, key_expires_at, request_ref,"
        " external_correlation_id, response_ref FROM tool_calls WHERE tool_namespace = 'local' ORDER BY call_no"
    )
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        try:
            found = db.execute(sql).fetchall()
        except sqlite3.OperationalError as error:
            # Killed while it was being made: there is no table yet, or a journal that a reader must not roll back.
            if "no such table" in str(error) or "readonly" in str(error):
                return []
            raise
    made = []
    for call, tool, status, policy, key, expires, request, ref, response in found:
        receipt = json.loads(response) if response else None
        made.append(Row(call, tool, status, policy, key, expires, _what(request), ref, receipt))
    return made


def _what(request: str) -> str:
    arguments = json.loads(request)
    return str(arguments.get("what", arguments.get("x", "")))


@dataclass
class Person:
    """Somebody who answers for one run.

    Args:
        asked_for: how often the program asks for each effect, all in all.
        habit: `honest`; `gives_up` and `denies` do so now and then, `always_gives_up` and `always_denies` always.
    """

    world: World
    tag: str
    state_dir: Path
    desk: Library | CommandLine
    asked_for: dict[str, int]
    habit: str
    draw: random.Random
    clock_was_set: bool = False
    given_up: dict[str, str] = field(default_factory=dict)  # the effect's name by the call, as of what was denied
    denied: dict[str, str] = field(default_factory=dict)
    sent_off: set[str] = field(default_factory=set)

    def answer(self, waiting_for: list[dict[str, Any]]) -> list[str]:
        """Answer everything that waits, and return what was said."""
        said: list[str] = []
        for item in waiting_for:
            self.world.let_land(self.tag)
            rows = rows_of(self.state_dir)
            shown = LedgerFile(self.state_dir).kin_shown(item["id"]) if item["kind"] == "challenge" else []
            row = next(row for row in rows if row.tool_call_id == item["tool_call_id"])
            said.append(self._one(item, row, rows, shown))
        return said

    def _one(self, item: dict[str, Any], row: Row, rows: list[Row], shown: list[str]) -> str:
        if item["kind"] == "approval":
            return self._sign(item["id"], row)
        if item["kind"] == "challenge":
            return self._compare(row, rows, shown)
        if self._does("gives_up"):
            self.given_up[row.tool_call_id] = row.name
            return self.desk.resolve(row.tool_call_id, "abandon")
        self.given_up.pop(row.tool_call_id, None)
        found = self._effect_of(row, rows)
        if found is None:
            # After somebody has set the clock no lag can be measured by it; whoever knows that all has landed may insist.
            said = self.desk.resolve(row.tool_call_id, "did_not_happen")
            insists = self.clock_was_set and said.startswith(REFUSED) and "about to show it" in said
            return self.desk.resolve(row.tool_call_id, "did_not_happen", force=True) if insists else said
        return self.desk.resolve(row.tool_call_id, "happened", result=found["reply"]["body"], ref=found["id"])

    def _does(self, habit: str) -> bool:
        return self.habit == f"always_{habit}" or (self.habit == habit and self.draw.random() < 0.5)

    def _sign(self, approval_id: str, row: Row) -> str:
        if self._does("denies"):
            self.denied[row.tool_call_id] = row.name
            return self.desk.deny(approval_id)
        self.denied.pop(row.tool_call_id, None)  # a denial that was cut off and not taken
        return self.desk.approve(approval_id)

    def _compare(self, row: Row, rows: list[Row], shown: list[str]) -> str:
        """It is another one while there are fewer effects of its name, sent or sent off, than are asked for."""
        same = [kin.tool_call_id for kin in rows if kin.tool_call_id in shown and kin.what == row.what]
        happened = sum(1 for line in self.world.effects(self.tag) if line["what"] == row.what)
        open_yet = sum(1 for kin in rows if kin.tool_call_id in self.sent_off and kin.status == "prepared"
                       and kin.what == row.what)  # fmt: skip
        if same and happened + open_yet >= self.asked_for.get(row.name, 0):
            return self.desk.resolve(row.tool_call_id, "same", same_as=same[-1])
        self.sent_off.add(row.tool_call_id)
        return self.desk.resolve(row.tool_call_id, "another")

    def _effect_of(self, row: Row, rows: list[Row]) -> Line | None:
        """The effect of a call in doubt: by its key where the provider knows it, else one that no receipt names."""
        effects = [line for line in self.world.effects(self.tag) if line["what"] == row.what]
        for line in effects:
            if row.key in (line.get("key"), line.get("marker")):
                return line
        named = {kin.provider_id for kin in rows if kin.status == "succeeded"}
        free = [line for line in effects if "key" not in line and line["id"] not in named]
        by_key = [line for line in free if line.get("marker") not in {kin.key for kin in rows}]
        return by_key[0] if by_key else None
