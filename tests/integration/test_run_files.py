"""The files of a run: what they tell, that they are only exports, and that nothing about them can stop a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perdure import CallContext
from perdure.core.summary import inline
from perdure.model.errors import UsageError
from tests.integration.engine_support import Crash, Outside, live, mailer, open_engine
from tests.integration.files_support import PACKET, PAGE, REPORT, lost, make, report, run_row, workspace

# --- layout ---------------------------------------------------------------------------------------------------------


def test_a_run_that_has_ended_has_every_file(tmp_path: Path) -> None:
    live(tmp_path, lambda run: "done")
    names = {item.name for item in workspace(tmp_path).iterdir()}
    assert names == {"run.log", "transcript.md", "restart.sh", "work_products", PAGE, REPORT}


def test_the_first_life_has_no_packet_and_the_second_has_one_before_its_program_is_entered(tmp_path: Path) -> None:
    seen: list[Any] = []

    def main(run: Any) -> None:
        seen.append((run.resume_packet, run.replay_note, (run.workspace / PACKET).exists()))
        raise Crash

    live(tmp_path, main)
    live(tmp_path, main, resume=True)
    assert seen[0] == (None, "", False)
    packet, note, written = seen[1]
    assert packet.attempt == 2
    assert "life 2" in note
    assert written
    assert (workspace(tmp_path) / PACKET).read_text("utf-8") == str(packet)


def test_the_place_for_results_is_there(tmp_path: Path) -> None:
    def main(run: Any) -> str:
        (run.work_products / "a.txt").write_text("x")
        return str(run.work_products)

    assert live(tmp_path, main).result == str(workspace(tmp_path) / "work_products")


def test_two_runs_of_one_moment_have_folders_of_their_own(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine:
        places = {engine.run(lambda run: None).workspace for _ in range(5)}
    assert len(places) == 5


# --- the packet -----------------------------------------------------------------------------------------------------


def test_a_packet_tells_of_step_calls_and_files_and_the_note_of_what_not_to_repeat(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])
    told: list[Any] = []

    def main(run: Any) -> None:
        told.append(run.resume_packet)
        with run.step("write", phase="render"):
            make("report.txt", "all is well")
        with run.step("mail", phase="send"):
            send("boss", "the report")
        raise Crash

    live(tmp_path, main)
    (workspace(tmp_path) / "report.txt").write_text("all is ill!")
    live(tmp_path, main, resume=True)
    packet = told[1]
    page = str(packet)
    assert packet.checkpoint.step_name == "mail"
    assert packet.checkpoint.phase == "send"
    assert [line.tool_call_id for line in packet.done] == ["r1.1", "r1.2"]
    assert [(file.artifact.path, file.state) for file in packet.files] == [("report.txt", "changed")]
    assert '`send(body="the report", to="boss")`; receipt `"sent 1"`' in page
    assert "report.txt`: changed" in page
    assert "r1.2" in packet.replay_note
    assert "r1.1" not in packet.replay_note  # local work is no effect


def test_what_was_in_flight_is_settled_before_the_program_is_entered_and_the_packet_says_so(tmp_path: Path) -> None:
    outside = Outside()
    send = lost(outside)
    told: list[Any] = []

    def main(run: Any) -> Any:
        told.append((run.resume_packet, list(outside.sent)))
        return send("boss")

    assert live(tmp_path, main).reason == "in_doubt"

    @send.probe
    def find(call: CallContext) -> Any:
        from perdure import Probe

        return Probe.happened("found it", ref="m1")

    done = live(tmp_path, main, resume=True)
    assert done.result == "found it"
    packet, sent = told[1]
    assert sent == ["boss"]  # it was settled by then, and not sent again
    (line,) = packet.settled
    assert (line.tool_call_id, line.status, line.decided) == ("r1.1", "succeeded", "settled by probe: happened")
    assert "do not make them again" in packet.replay_note
    assert [item["tool_call_id"] for item in report(tmp_path)["settled"]["calls"]] == ["r1.1"]


def test_a_packet_does_not_grow_with_the_run(tmp_path: Path) -> None:
    sizes: list[int] = []

    def of(calls: int) -> Any:
        def main(run: Any) -> None:
            packet = run.resume_packet
            sizes.append(len(str(packet)))
            for number in range(calls):
                make(f"{number:04}.txt", "x")
            raise Crash

        return main

    for calls in (30, 300, 300):
        live(tmp_path, of(calls), resume=bool(sizes))
    assert sizes[2] < sizes[1] * 1.2
    assert sizes[2] < 20_000


@pytest.mark.parametrize(
    ("text", "shown"), [("a `b`\n# c", "``a `b` # c``"), ("`x`", "`` `x` ``"), (" \n", "`(empty)`")]
)
def test_a_text_with_marks_of_its_own_stays_code_on_one_line(text: str, shown: str) -> None:
    assert inline(text) == shown


# --- the completion report ------------------------------------------------------------------------------------------


def test_a_report_of_success_lists_effects_replayed_calls_files_and_lives(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])

    def main(run: Any) -> str:
        make("report.txt", "all is well")
        send("boss")
        if run.attempt == 1:
            raise Crash
        send("second")
        return "sent"

    live(tmp_path, main)
    assert report(tmp_path)["status"] == "failed"
    live(tmp_path, main, resume=True)
    found = report(tmp_path)
    assert (found["schema"], found["status"], found["result"]) == ("perdure.completion/v1", "succeeded", "sent")
    assert [(call["tool_call_id"], call["receipt"]) for call in found["effects"]["calls"]] == [
        ("r1.2", '"sent 1"'),
        ("r1.3", '"sent 2"'),
    ]
    assert [call["tool_call_id"] for call in found["replayed"]["calls"]] == ["r1.2"]
    assert found["calls"] == {"external": {"succeeded": 2}, "local": {"succeeded": 1}}
    assert [(file["path"], file["state"], file["tool_call_id"]) for file in found["artifacts"]] == [
        ("report.txt", "present", "r1.1")
    ]
    assert [life["how"] for life in found["lives"]] == ["failed", "succeeded"]
    assert found["final_artifact"] == "report.txt"
    assert ".test_run_files: succeeded\n" in (workspace(tmp_path) / PAGE).read_text("utf-8")


def test_a_report_of_failure_says_why_and_what_to_type(tmp_path: Path) -> None:
    def main(run: Any) -> None:
        raise ValueError("out of paper")

    live(tmp_path, main)
    found = report(tmp_path)
    assert found["status"] == "failed"
    assert found["error"]["code"] == "ValueError"
    assert "out of paper" in found["error"]["detail"]
    assert any(command.startswith("perdure runs show r1") for command in found["commands"].values())


def test_what_an_earlier_life_did_and_nobody_asked_for_again_is_in_the_report_and_can_be_written_anew(
    tmp_path: Path,
) -> None:
    send = mailer(Outside())

    def first(run: Any) -> None:
        send("boss")
        raise Crash

    live(tmp_path, first)
    assert live(tmp_path, lambda run: None, resume=True).unmet == 1
    assert [call["tool_call_id"] for call in report(tmp_path)["unmet"]["calls"]] == ["r1.1"]
    assert report(tmp_path)["replayed"]["in_all"] == 0
    before = (workspace(tmp_path) / REPORT).read_text("utf-8")
    with open_engine(tmp_path) as engine:
        engine.export("r1")
        assert engine.completion("r1") == json.loads(before)


def test_a_run_that_fails_again_is_reported_again_and_a_resumed_one_has_no_report_meanwhile(tmp_path: Path) -> None:
    there: list[bool] = []

    def main(run: Any) -> None:
        there.append((run.workspace / PAGE).exists())
        raise Crash(f"in life {run.attempt}")

    live(tmp_path, main)
    live(tmp_path, main, resume=True)
    assert there == [False, False]
    assert "in life 2" in report(tmp_path)["error"]["detail"]


def test_a_run_that_waits_has_no_report_and_asking_for_one_says_so(tmp_path: Path) -> None:
    send = lost(Outside())
    assert live(tmp_path, lambda run: send("boss")).status == "waiting"
    assert not (workspace(tmp_path) / REPORT).exists()
    with open_engine(tmp_path) as engine, pytest.raises(UsageError, match="has not ended: it is waiting"):
        engine.completion("r1")


# --- artifacts ------------------------------------------------------------------------------------------------------


def test_a_file_that_the_program_records_points_the_run_and_the_cursor_at_it(tmp_path: Path) -> None:
    def main(run: Any) -> Any:
        with run.step("write"):
            (run.work_products / "a.txt").write_text("first")
            found = run.artifact("work_products/a.txt")
            assert run.artifact(run.work_products / "a.txt") == found
        return found.size_bytes

    assert live(tmp_path, main).result == 5
    assert run_row(tmp_path, "final_artifact_ref") == "work_products/a.txt"
    with open_engine(tmp_path) as engine:
        rows = engine._ledger.read(lambda store: list(store.connection.rows(CHECKPOINTS, {})))
        assert len(engine.details("r1")["artifacts"]) == 1
    snapshot, cursor = map(json.loads, rows[-1])
    assert [ref.partition("@")[0] for ref in snapshot["artifact_refs"]] == ["work_products/a.txt"]
    assert cursor["last_artifact"] == "work_products/a.txt"


CHECKPOINTS = "SELECT state_snapshot_json, cursor_json FROM checkpoints ORDER BY checkpoint_no"


@pytest.mark.parametrize("path", ["../r2.txt", "gone.txt", "/etc/hostname"])
def test_only_a_file_of_the_workspace_can_be_recorded(tmp_path: Path, path: str) -> None:
    def main(run: Any) -> None:
        with pytest.raises(UsageError, match=r"is no file of the workspace"):
            run.artifact(path)

    assert live(tmp_path, main).status == "succeeded"


def test_a_file_that_changes_back_is_what_it_is_now(tmp_path: Path) -> None:
    def main(run: Any) -> None:
        for text in ("one", "two", "one"):
            (run.workspace / "a.txt").write_text(text)
            run.artifact("a.txt")

    live(tmp_path, main)
    (file,) = report(tmp_path)["artifacts"]
    assert file["state"] == "present"


async def _record(run: Any) -> None:
    (run.workspace / "a.txt").write_text("x")
    await run.artifact("a.txt")


def test_an_async_program_records_files_too(tmp_path: Path) -> None:
    live(tmp_path, _record)
    assert report(tmp_path)["final_artifact"] == "a.txt"
