"""Values in receipts, and what is refused before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import CallDenied, NoActiveRun, SpecMismatch, ToolConflict, tool, wrap
from tests.integration.engine_support import Crash, Outside, live, mailer, open_engine


def test_values_come_back_as_they_went_in(tmp_path: Path) -> None:
    from datetime import UTC, datetime
    from decimal import Decimal

    value = {"b": b"\x00", "d": Decimal("1.10"), "t": (1, 2), "s": {1}, "w": datetime(2026, 1, 2, tzinfo=UTC), "f": 1.0}

    @tool(side_effect_class="external")
    def give() -> object:
        return value

    def main(run: Any, fails: bool) -> Any:
        got = give()
        assert got == value
        assert isinstance(got["f"], float)
        if fails:
            raise Crash
        return True

    live(tmp_path, lambda run: main(run, True))
    assert live(tmp_path, lambda run: main(run, False), resume=True).result is True


@pytest.mark.parametrize("result", [None, "", {"error": None}, "error: but it worked", "x" * 200_000])
def test_a_receipt_is_judged_by_its_status_never_by_its_text(tmp_path: Path, result: Any) -> None:
    calls: list[int] = []

    @tool(side_effect_class="external")
    def give() -> Any:
        calls.append(1)
        return result

    def main(run: Any, fails: bool) -> Any:
        got = give()
        if fails:
            raise Crash
        return got

    live(tmp_path, lambda run: main(run, True))
    assert live(tmp_path, lambda run: main(run, False), resume=True).result == result
    assert len(calls) == 1


def test_outside_a_run_an_effectful_tool_refuses_and_a_read_just_runs() -> None:
    @tool(side_effect_class="read_only")
    def read(x: int) -> int:
        return x + 1

    @tool
    def mystery(x: int) -> int:
        return x

    assert read(1) == 2
    assert mystery.plain(1) == 1
    with pytest.raises(NoActiveRun):
        mystery(1)


def test_two_tools_of_one_name_are_an_error(tmp_path: Path) -> None:
    def one() -> int:
        return 1

    def two() -> int:
        return 2

    first, second = wrap(one, name="same"), wrap(two, name="same")
    with pytest.raises(ToolConflict, match="two tools are called 'same'"):
        live(tmp_path, lambda run: (first(), second()))


def test_the_same_id_with_another_specification_is_refused_with_the_difference(tmp_path: Path) -> None:
    def main(run: Any) -> Any:
        return run.inputs["x"]

    with open_engine(tmp_path) as engine:
        assert engine.run(main, {"x": 1}, run_id="r1").result == 1
        with pytest.raises(SpecMismatch, match=r'stored \{"x": 1\}, given \{"x": 2\}'):
            engine.run(main, {"x": 2}, run_id="r1")


def test_allow_args_denies_before_anything_is_sent(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\nrules:\n  - tool: send\n    allow_args: {to: ['*@example.org']}\n")

    def main(run: Any) -> Any:
        send("ok@example.org")
        with pytest.raises(CallDenied):
            send("bad@example.net")
        send("evil@example.com")

    done = live(tmp_path, main, policies=[policy])
    assert (done.status, done.error_code, done.exit_code) == ("failed", "denied", 9)
    assert outside.sent == ["ok@example.org:"]


def test_an_approval_is_asked_before_sending_and_used_once(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\nrules:\n  - tool: send\n    approval: always\n")

    def main(run: Any) -> Any:
        return send("a")

    waiting = live(tmp_path, main, policies=[policy])
    assert (waiting.reason, waiting.exit_code, outside.sent) == ("approval", 6, [])
    with open_engine(tmp_path) as engine:
        engine.approve(waiting.waiting_for[0].id)
    assert live(tmp_path, main, resume=True, policies=[policy]).result == "sent 1"
    assert outside.sent == ["a:"]


def test_dataclasses_come_back_as_themselves_by_the_annotation(tmp_path: Path) -> None:
    from tests.integration.shapes import Page, Report, fetch_page, make_report

    seen: list[Any] = []

    def main(run: Any, fails: bool) -> Any:
        page = fetch_page("u")
        report = run.memo("report", make_report, page, key=page.url)
        seen.append((page, report))
        if fails:
            raise Crash
        return None

    live(tmp_path, lambda run: main(run, True))
    live(tmp_path, lambda run: main(run, False), resume=True)
    assert seen[0] == seen[1] == (Page("u", 3), Report("R", [Page("u", 3)]))


def test_a_tool_that_main_reaches_through_another_object_settles_unattended(tmp_path: Path) -> None:
    import types

    keys: list[str] = []

    def make() -> Any:
        @tool(name="far_away", side_effect_class="external", key_ttl="24h")
        def send(x: int, *, call: Any) -> int:
            keys.append(call.idempotency_key)
            if len(keys) == 1:
                raise KeyboardInterrupt
            return x

        return types.SimpleNamespace(send=send)

    mails = make()
    with open_engine(tmp_path) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run(lambda run: mails.send(1), run_id="r1")
        done = engine.resume("r1", main=lambda run: mails.send(1))
    assert (done.status, done.result) == ("succeeded", 1)
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_a_failed_run_says_where_in_the_agent_it_failed(tmp_path: Path) -> None:
    def main(run: Any) -> Any:
        return {}["missing"]

    done = live(tmp_path, main)
    assert done.error_code == "KeyError"
    assert "test_values_and_refusals.py:" in (done.error_detail or "")


def test_a_default_that_a_deploy_changes_does_not_change_a_recorded_request(tmp_path: Path) -> None:
    sent: list[tuple[str, int]] = []

    def life(default: int, *, resume: bool) -> Any:
        @tool(name="pay", side_effect_class="external", scope=["to"], key_ttl="1h", max_attempts=1 + resume * 2)
        def pay(to: str, cents: int = default, *, call: Any) -> str:
            sent.append((call.idempotency_key, call.args["cents"]))
            if len(sent) == 1:
                raise ConnectionResetError
            return f"{cents}"

        return live(tmp_path, lambda run: pay("a"), resume=resume)

    assert life(100, resume=False).reason == "in_doubt"
    assert life(200, resume=True).result == "100"
    assert len(sent) == 2
    assert len(set(sent)) == 1


def test_an_overlay_that_a_run_was_started_under_stays_with_it(tmp_path: Path) -> None:
    from perdure import PolicyError

    outside = Outside()
    send = mailer(outside)
    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\nrules:\n  - tool: send\n    allow_args: {to: ['*@example.org']}\n")

    def first(run: Any) -> Any:
        send("ok@example.org")
        raise Crash

    def second(run: Any) -> Any:
        send("ok@example.org")
        send("evil@example.net")

    live(tmp_path, first, policies=[policy])
    assert live(tmp_path, second, resume=True).error_code == "denied"
    assert outside.sent == ["ok@example.org:"]
    policy.unlink()
    with pytest.raises(PolicyError, match=r"p\.yaml"):
        live(tmp_path, second, resume=True)


def test_a_memo_does_not_hide_an_effect_that_its_final_body_did_not_ask_for(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])

    def interrupted() -> None:
        send("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        live(tmp_path, lambda run: run.memo("m", interrupted))
    done = live(tmp_path, lambda run: run.memo("m", lambda: send("y")), resume=True)
    assert (done.status, done.unmet) == ("succeeded", 1)
    assert outside.sent == ["x:", "y:"]


def test_a_request_that_was_not_sent_yet_is_sent_as_it_was_recorded(tmp_path: Path) -> None:
    sent: list[int] = []

    def life(default: int, *, resume: bool) -> Any:
        @tool(name="pay", side_effect_class="external", scope=["to"])
        def pay(to: str, cents: int = default) -> int:
            if not resume:
                raise ConnectionResetError
            sent.append(cents)
            return cents

        return live(tmp_path, lambda run: pay("a"), resume=resume)

    assert life(100, resume=False).reason == "in_doubt"
    with open_engine(tmp_path) as engine:
        assert engine.resolve("r1.1", "did_not_happen").status == "prepared"
    assert life(200, resume=True).result == 100
    assert sent == [100]
