"""``verify`` finds what another program has changed in a ledger, and says ok of what only lived."""

from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import NotFound, tool
from perdure.core.seals import first_link, link
from perdure.model.toolcall import Evidence
from tests.integration.engine_support import Crash, live, mailer, open_engine
from tests.integration.store_support import NOW
from tests.integration.trust_support import LEDGER, a_lived_in_ledger, kinds, meddle, open_it, rows_with_columns


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger in which much has happened; to be copied, not changed."""
    folder = tmp_path_factory.mktemp("lived-in")
    a_lived_in_ledger(folder)
    return folder


@pytest.fixture
def folder(lived_in: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of that ledger."""
    shutil.copytree(lived_in, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_ledger_that_only_lived_holds_what_it_promises(folder: Path) -> None:
    with open_it(folder) as engine:
        found = engine.verify()
    assert (found.ok, found.problems) == (True, [])
    assert (found.runs, found.calls, found.older_than_the_chain) == (2, 7, 0)
    assert (found.sealed, found.not_sealed_yet, found.seals) == (6, 0, 6)
    assert [item["tool_call_id"] for item in found.in_doubt] == ["r1.5"]


TAMPERED = {
    "a receipt": ("edited", "UPDATE tool_calls SET response_ref = '\"forged\"' WHERE tool_call_id = 'r2.1'"),
    "a receipt that is said to be due for a new seal": (
        "edited",
        "UPDATE tool_calls SET response_ref = '\"forged\"' WHERE tool_call_id = 'r2.1'",
        "INSERT INTO unsealed VALUES ('r2', 'r2.1')",
    ),
    "a request": ("edited", "UPDATE tool_calls SET request_ref = '{}' WHERE tool_call_id = 'r2.1'"),
    "a reference": ("edited", "UPDATE tool_calls SET external_correlation_id = 'x' WHERE tool_call_id = 'r2.1'"),
    "a time": ("edited", "UPDATE tool_calls SET finished_at = '2020-01-01' WHERE tool_call_id = 'r2.2'"),
    "a success into a failure": (
        "edited",
        "UPDATE tool_calls SET status = 'failed', error_code = 'x', response_ref = NULL WHERE tool_call_id = 'r2.1'",
    ),
    "a success into nothing done": (
        "edited",
        "UPDATE tool_calls SET status = 'prepared', finished_at = NULL WHERE tool_call_id = 'r2.1'",
        "UPDATE runs SET status = 'queued' WHERE run_id = 'r2'",
        "INSERT INTO unsealed VALUES ('r2', 'r2.1')",
    ),
    "an argument hash": ("key", "UPDATE tool_calls SET normalized_args_hash = 'x' WHERE tool_call_id = 'r2.1'"),
    "a state that is none": (
        "damaged",
        "PRAGMA ignore_check_constraints = 1",
        "UPDATE tool_calls SET status = 'done' WHERE tool_call_id = 'r2.1'",
    ),
    "bytes in place of text": ("edited", "UPDATE tool_calls SET response_ref = x'00ff' WHERE tool_call_id = 'r2.1'"),
    "a call taken out": ("missing_calls", "DELETE FROM tool_calls WHERE tool_call_id = 'r2.2'"),
    "a call taken out with its seal": (
        "missing_calls",
        "DROP TRIGGER seals_are_not_deleted",
        "DELETE FROM seals WHERE tool_call_id = 'r2.2'",
        "DELETE FROM tool_calls WHERE tool_call_id = 'r2.2'",
    ),
    "the chain's tail": (
        "seal_missing",
        "DROP TRIGGER seals_are_not_deleted",
        "DELETE FROM seals WHERE seal_no > 4",
    ),
    "the chain's middle": ("chain", "DROP TRIGGER seals_are_not_deleted", "DELETE FROM seals WHERE seal_no = 3"),
    "the chain's order": (
        "chain",
        "DROP TRIGGER seals_are_append_only",
        "UPDATE seals SET seal_no = 100 WHERE seal_no = 3",
        "UPDATE seals SET seal_no = 3 WHERE seal_no = 4",
        "UPDATE seals SET seal_no = 4 WHERE seal_no = 100",
    ),
    "an entry of the chain": (
        "chain",
        "DROP TRIGGER seals_are_append_only",
        "UPDATE seals SET row_sha256 = 'x' WHERE seal_no = 2",
    ),
    "a rule of the tables": ("schema", "DROP TRIGGER evidence_is_append_only"),
    "the rule of references": ("schema", "DROP INDEX idx_tool_calls_ref"),
    "a body of the payloads": ("payload", "UPDATE payloads SET bytes = x'00'"),
    "a body taken out": ("payload", "DELETE FROM payloads"),
    "evidence about nothing": (
        "file",
        "INSERT INTO evidence (tool_call_id, kind, at, actor, attempt, says) VALUES ('r9.1', 'reply', '1', 'x', 1, 'x')",
    ),
    "a run that nobody owns": ("no_lease", "UPDATE runs SET status = 'running' WHERE run_id = 'r2'"),
    "an end with a call to be sent": (
        "open_calls",
        "UPDATE tool_calls SET status = 'prepared', attempt = 0, started_at = NULL WHERE tool_call_id = 'r1.5'",
        "UPDATE runs SET status = 'failed', reason = NULL, error_code = 'x' WHERE run_id = 'r1'",
    ),
    "a success with a doubt": (
        "open_calls",
        "UPDATE runs SET status = 'succeeded', reason = NULL WHERE run_id = 'r1'",
    ),
    "a question taken out": ("no_question", "DELETE FROM approvals"),
    "a life taken out": ("lives", "DELETE FROM run_attempts WHERE run_id = 'r2'"),
    "the number of attempts": ("attempts", "UPDATE tool_calls SET attempt = 0 WHERE tool_call_id = 'r1.5'"),
    "when it was started": (
        "damaged",
        *("PRAGMA ignore_check_constraints = 1", "UPDATE tool_calls SET started_at = NULL"),
    ),
    "two receipts with one reference": (
        "ref",
        "DROP INDEX idx_tool_calls_ref",
        "UPDATE tool_calls SET external_correlation_id = 'm1' WHERE run_id = 'r2'",
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_what_another_program_changed_is_found(folder: Path, what: str) -> None:
    kind, *statements = TAMPERED[what]
    meddle(folder, *statements)
    assert kind in kinds(folder), what


def test_a_whole_chain_that_was_forged_anew_is_found_by_the_head_that_was_kept_elsewhere(folder: Path) -> None:
    with open_it(folder) as engine:
        kept = engine.verify().head
        ledger_id = engine._around.ledger_id
    chain, statements = (
        first_link(ledger_id),
        ["DROP TRIGGER seals_are_append_only", "DROP TRIGGER seals_are_not_deleted"],
    )
    rows = [row for row in rows_with_columns(folder / LEDGER)["seals"] if row["tool_call_id"] != "r2.2"]
    statements += ["DELETE FROM seals", "DELETE FROM tool_calls WHERE tool_call_id = 'r2.2'"]
    statements.append("UPDATE runs SET sealed_calls = 1 WHERE run_id = 'r2'")
    for row in rows:
        chain = link(chain, row["tool_call_id"], row["sealed_at"], row["row_sha256"])
        values = ", ".join(
            f"'{row[name]}'" for name in ("tool_call_id", "sealed_at", "status", "receipt_sha256", "row_sha256")
        )
        columns = "tool_call_id, sealed_at, status, receipt_sha256, row_sha256, chain_sha256"
        statements.append(f"INSERT INTO seals ({columns}) VALUES ({values}, '{chain}')".replace("'None'", "NULL"))
    for name in ("seals_are_append_only", "seals_are_not_deleted"):
        event = "UPDATE" if name.endswith("only") else "DELETE"
        statements.append(
            f"CREATE TRIGGER {name} BEFORE {event} ON seals\nBEGIN SELECT RAISE(ABORT, 'seals are append-only'); END"
        )
    meddle(folder, *statements)
    assert kinds(folder) == set()  # nothing in the file can tell
    assert kinds(folder, expect_head=kept) == {"head"}


def test_a_head_that_was_kept_still_holds_when_more_has_happened(folder: Path) -> None:
    with open_it(folder) as engine:
        kept = engine.verify().head
        engine.resolve("r1.5", "happened", result="sent at last")
        found = engine.verify(expect_head=kept)
    assert (found.ok, found.seals) == (True, 7)
    assert found.head != kept


def test_rows_settled_since_the_last_seal_are_no_errors(tmp_path: Path) -> None:
    seen: list[Any] = []

    @tool(name="note", side_effect_class="local")
    def note(text: str) -> str:
        return text

    def main(run: Any) -> str:
        note("one")
        note("two")
        with open_engine(tmp_path) as other:
            seen.append(other.verify())
        return "done"

    assert live(tmp_path, main).status == "succeeded"
    assert (seen[0].ok, seen[0].seals, seen[0].runs) == (True, 0, 1)
    with open_it(tmp_path) as engine:
        assert engine.verify().sealed == 2


def test_a_reopened_failure_and_an_added_value_are_new_entries_of_the_same_chain(tmp_path: Path) -> None:
    outside: list[str] = []

    @tool(name="send", side_effect_class="external")
    def send(to: str) -> str:
        outside.append(to)
        if len(outside) == 1:
            raise ConnectionResetError("lost")
        return "sent"

    @tool(name="read", side_effect_class="read_only")
    def read() -> int:
        return 1 // (len(outside) - 1)

    def main(run: Any) -> int:
        send("ann")
        return read()

    assert live(tmp_path, main).reason == "in_doubt"
    with open_it(tmp_path) as engine:
        engine.resolve("r1.1", "happened")
    assert live(tmp_path, main, resume=True).status == "failed"
    with open_it(tmp_path) as engine:
        engine.resolve("r1.1", "happened", result="sent, says the log")
        assert engine.verify().ok
    outside.append("so that the second try can read")
    assert live(tmp_path, main, resume=True).status == "succeeded"
    with open_it(tmp_path) as engine:
        found = engine.verify()
    assert (found.ok, found.problems, found.calls, found.seals) == (True, [], 2, 4)
    assert (found.sealed, found.not_sealed_yet) == (2, 0)
    assert [row["status"] for row in rows_with_columns(tmp_path / LEDGER)["seals"]] == [
        "succeeded",
        "failed",
        "succeeded",
        "succeeded",
    ]


def test_what_a_killed_life_settled_is_sealed_by_the_next_one(tmp_path: Path) -> None:
    from tests.integration.engine_support import Outside

    outside = Outside()
    send = mailer(outside)

    def first(run: Any) -> str:
        send("ann")
        raise Crash

    assert live(tmp_path, first).status == "failed"
    meddle(
        tmp_path,
        "DROP TRIGGER seals_are_not_deleted",
        "DELETE FROM seals",
        "CREATE TRIGGER seals_are_not_deleted BEFORE DELETE ON seals\nBEGIN SELECT RAISE(ABORT, 'seals are append-only'); END",
        "UPDATE runs SET sealed_calls = 0",  # as a life leaves it that was killed before its end
    )
    assert live(tmp_path, lambda run: send("ann"), resume=True).status == "succeeded"
    with open_it(tmp_path) as engine:
        found = engine.verify()
    assert (found.ok, found.sealed, outside.sent) == (True, 1, ["ann:"])


def test_an_effect_that_happened_twice_is_listed_with_both_receipts(folder: Path) -> None:
    with open_it(folder) as engine:
        second = Evidence("reply", NOW, "a late reply", 1, "duplicate_found", '"sent again"', "m2")
        engine._ledger.run(lambda store: store.calls.add_evidence("r2.1", second))
        found = engine.verify()
        assert engine.verify("r1").duplicates == []
    assert not found.ok
    (twice,) = found.duplicates
    assert (twice["tool_call_id"], twice["tool_name"]) == ("r2.1", "send")
    assert [item["receipt"] for item in twice["receipts"]] == ['"sent to bob"', '"sent again"']
    assert twice["receipts"][1]["ref"] == "m2"


def test_evidence_of_a_clock_that_went_back_is_a_warning(folder: Path) -> None:
    with open_it(folder) as engine:
        for at in ("2026-11-22T10:00:00.000000Z", "2026-11-21T10:00:00.000000Z"):
            fact = Evidence("probe", at, "me", 1, "unknown")
            engine._ledger.run(lambda store, fact=fact: store.calls.add_evidence("r2.1", fact))
        found = engine.verify()
    assert found.ok
    assert [(item.kind, item.is_warning) for item in found.problems] == [("evidence_order", True)]


def test_files_that_are_gone_or_other_are_told_apart_and_are_no_damage_of_the_ledger(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    (tmp_path / "writer.py").write_text(
        "def main(run):\n    for name in 'abc': (run.workspace / name).write_text(name)\n", "utf-8"
    )
    job.write_text('name: files\nagent: {python: "writer:main"}\nartifacts: {expected_outputs: [a, b, c]}\n', "utf-8")
    with open_engine(tmp_path) as engine:
        outcome = engine.run(job, run_id="files")
        assert outcome.status == "succeeded"
        (Path(outcome.workspace) / "a").unlink()
        (Path(outcome.workspace) / "b").write_text("B")
        found = engine.verify()
    assert (found.ok, found.missing_artifacts, found.changed_artifacts) == (True, ["files: a"], ["files: b"])


def test_a_run_that_is_not_there_is_said_so(folder: Path) -> None:
    with open_it(folder) as engine, pytest.raises(NotFound):
        engine.verify("r77")


def test_memory_stays_flat_however_many_calls_are_checked(tmp_path: Path) -> None:
    @tool(name="look", side_effect_class="read_only")
    def look(number: int) -> str:
        return "x" * 1_000

    def peak(calls: int, run_id: str) -> int:
        def main(run: Any) -> None:
            for number in range(calls):
                look(number)

        with open_engine(tmp_path / run_id) as engine:
            engine.run(main, run_id=run_id)
            tracemalloc.start()
            assert engine.verify().ok
            found = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return found

    assert peak(120, "long") < peak(12, "short") + 50_000
