"""``perdure smoke`` as a person runs it: on a good build, and on builds whose guard is off (R102, R103)."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.cli_support import Desk, Said, ended
from tests.acceptance.outside_knowledge import BARE, changed, planted

CHECKS = ("killed", "resumed", "asked", "artifacts", "receipts", "keys", "provider", "ledger")
LIE = """\
version: 1
rules:
  # The provider of mails knows nothing of keys: with this rule a lost mail is sent again, and arrives twice.
  - {tool: send_mail, replay_policy: REPLAY_IDEMPOTENT, key_ttl: 24h}
"""
GUARD_OFF = {
    # a planted bug, and a line of the checklist that must see it
    "doubts_are_sent_again": "provider",
    "each_attempt_has_a_new_key": "provider",
    "a_receipt_is_given_to_everybody": "ledger",
    "receipts_are_not_stored": "receipts",
}
SIDE_BY_SIDE = 3


class Smoke:
    """One smoke test in a process of its own."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder = folder
        self._process = process
        self._said: Said | None = None

    def said(self) -> Said:
        """Wait for its end and return what it left behind."""
        if self._said is None:
            self._said = ended(self._process, 120)
        return self._said

    def failed(self) -> set[str]:
        """The lines of the checklist that are not right."""
        return {check["name"] for check in self.said().document["checks"] if not check["ok"]}

    def arrived(self) -> dict[str, int]:
        """Count in the provider's own log, by words of this test."""
        lines = [json.loads(line) for line in (self.folder / "provider.jsonl").read_text("utf-8").splitlines()]
        return dict(Counter(line["what"] for line in lines if line["event"] == "effect"))


Start = Callable[..., Smoke]
ONCE = {"store_report": 1, "pay": 1, "send_mail": 1, "post_notice": 1, "remind": 2}


@pytest.fixture(scope="module")
def smokes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Smoke]]:
    """Start them side by side: much of their time is waiting."""
    base = tmp_path_factory.mktemp("smoke")
    lie = base / "lie.policy.yaml"
    lie.write_text(LIE, "utf-8")
    found: dict[str, Smoke] = {}
    variables = {name: planted(base / f"site-{name}", name) for name in GUARD_OFF}
    cases = {"good": ([], changed(base / "site-bare", BARE)), "lie": (["--policy", str(lie)], {}),
             **{name: ([], env) for name, env in variables.items()}}  # fmt: skip
    for name, (flags, env) in cases.items():
        folder = base / name
        if len(found) >= SIDE_BY_SIDE:
            list(found.values())[-SIDE_BY_SIDE].said()
        found[name] = Smoke(folder, Desk(base).start("smoke", "--folder", str(folder), "-o", "json", *flags, env=env))
    yield found
    for smoke in found.values():
        smoke.said()


def test_a_good_build_does_everything_once_wherever_it_is_killed(smokes: dict[str, Smoke]) -> None:
    said = smokes["good"].said()
    assert said.code == 0, said
    document = said.document
    assert (document["schema"], document["ok"], document["kills"]) == ("perdure.smoke/v1", True, 5)
    assert [check["name"] for check in document["checks"]] == list(CHECKS)
    assert document["effects"] == smokes["good"].arrived() == ONCE
    assert [life["exit_code"] for life in document["lives"]] == [137, 137, 137, 137, 7, -9, 0, 0]
    assert len({life["pid"] for life in document["lives"]}) == 8


def test_it_prints_run_id_and_a_resume_command_that_works(smokes: dict[str, Smoke], tmp_path: Path) -> None:
    said = smokes["good"].said()
    command = said.document["resume_command"]
    assert f"run id          {said.document['run_id']}\n" in said.err
    assert f"resume command  {command}\n" in said.err
    again = Desk(tmp_path).paste(command)
    assert again.code == 0
    assert "succeeded" in again.out
    assert smokes["good"].arrived() == ONCE


def test_the_ledger_says_of_each_effect_that_it_succeeded_once(smokes: dict[str, Smoke]) -> None:
    smokes["good"].said()
    query = "SELECT tool_name, count(*) FROM tool_calls WHERE side_effect_class = 'external' GROUP BY tool_name, status"
    with closing(sqlite3.connect(f"file:{smokes['good'].folder / 'runtime_state.db'}?mode=ro", uri=True)) as database:
        assert dict(database.execute(query)) == ONCE
        keys = [str(row[0]) for row in database.execute("SELECT idempotency_key FROM tool_calls")]
    sent = (smokes["good"].folder / "provider.jsonl").read_text("utf-8")
    assert sum(key in sent for key in keys) == 4  # pay, send_mail and two reminders


@pytest.mark.parametrize("name", GUARD_OFF)
def test_a_build_with_its_guard_off_does_not_pass(smokes: dict[str, Smoke], name: str) -> None:
    smoke = smokes[name]
    assert smoke.said().code == 1, smoke.said()
    assert smoke.said().document["ok"] is False
    assert GUARD_OFF[name] in smoke.failed(), smoke.said().document["checks"]
    if GUARD_OFF[name] == "provider":
        assert smoke.arrived() != ONCE


def test_a_policy_that_lies_about_a_provider_is_caught_by_the_count(smokes: dict[str, Smoke]) -> None:
    smoke = smokes["lie"]
    assert smoke.said().code == 1, smoke.said()
    assert smoke.arrived() == {**ONCE, "send_mail": 2}
    assert {"receipts", "keys"} & smoke.failed() == set(), "the rows alone do not show it"
    assert "provider" in smoke.failed()


def test_it_refuses_before_it_starts_anything(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write("mine.txt", "not the smoke test's")
    desk.type("smoke", "--folder", ".").is_error(2, "PERDURE-140")
    desk.type("smoke", "--folder", "new", "--policy", "none.yaml").is_error(2, "PERDURE-140")
    desk.type("smoke", "--store", "sqlite:///x.db").is_error(2, "PERDURE-140")
    assert {path.name for path in tmp_path.iterdir()} <= {"mine.txt", "new"}
    assert not list(tmp_path.glob("new/*"))
