"""Deliberate repeats over several lives, what a challenge tells to whom, and files that a receipt names and that are gone."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from perdure import CallFailed, ToolFailed, UsageError, VerdictRefused, tool
from tests.integration.engine_support import Crash, Outside, live, mailer, open_engine
from tests.integration.test_turns import mail, says


def test_a_deliberate_repeat_is_met_as_itself_in_the_next_life(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, repeat="challenge")

    def main(run: Any) -> Any:
        first = send("a")
        second = run.call(send, "a", repeat_of="r1.1")
        if run.attempt == 1:
            raise Crash
        return [first, second]

    live(tmp_path, main)
    done = live(tmp_path, main, resume=True)
    assert done.result == ["sent 1", "sent 2"], done
    assert outside.sent == ["a:", "a:"]


def test_who_cites_what_this_life_has_not_seen_does_not_get_its_receipt(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, repeat="challenge")

    def first(run: Any) -> Any:
        send("a")
        raise Crash

    live(tmp_path, first)
    waiting = live(tmp_path, lambda run: run.call(send, "a", repeat_of="r1.1"), resume=True)
    assert (waiting.status, waiting.reason) == ("waiting", "challenge")
    assert outside.sent == ["a:"]


def test_a_repeat_that_failed_has_not_used_its_citation_up(tmp_path: Path) -> None:
    outside = Outside()
    tries: list[str] = []

    @tool(name="send", side_effect_class="external", repeat="challenge")
    def send(to: str) -> str:
        tries.append(to)
        if len(tries) == 2:
            raise ToolFailed("declined", retry=False)
        outside.sent.append(to)
        return f"sent {len(outside.sent)}"

    def main(run: Any) -> Any:
        send("a")
        with pytest.raises(CallFailed):
            run.call(send, "a", repeat_of="r1.1")
        return run.call(send, "a", repeat_of="r1.1")

    assert live(tmp_path, main).result == "sent 2"
    assert outside.sent == ["a", "a"]


def test_a_receipt_allows_one_repeat(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, repeat="challenge")

    def main(run: Any) -> Any:
        send("a")
        run.call(send, "a", repeat_of="r1.1")
        with pytest.raises(UsageError, match=r"the newest is r1\.2"):
            run.call(send, "a", repeat_of="r1.1")
        return run.call(send, "a", repeat_of="r1.2")

    assert live(tmp_path, main).result == "sent 3"


def test_what_one_model_was_told_of_is_still_met_by_the_code_that_did_it(tmp_path: Path) -> None:
    """A challenge tells one reader; to everybody else the row is unmet, and whoever asks for it gets its receipt."""
    outside = Outside()
    send = mailer(outside)

    def first(run: Any) -> Any:
        send("b")
        raise Crash

    def second(run: Any) -> Any:
        turn = run.turn("agent", lambda _: says("", mail("a")), [])
        told = turn.call(turn.calls[0]).text
        return [told, send("b")]

    live(tmp_path, first)
    told, met = live(tmp_path, second, resume=True).result
    assert "r1.1" in told
    assert met == "sent 1"
    assert outside.sent == ["b:"]


def test_a_model_that_cites_what_it_was_told_to_cite_is_heard(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)

    def first(run: Any) -> Any:
        send("b")
        raise Crash

    def second(run: Any) -> Any:
        talk: list[Any] = []
        texts: list[str] = []
        for wish in (mail("a"), mail("a", repeat_of="r1.1"), mail("c", repeat_of="r1.1"), mail("c")):
            turn = run.turn("agent", lambda _, wish=wish: says("", wish), talk)
            result = turn.call(turn.calls[0])
            talk += [*turn.messages, *turn.result_messages([result])]
            texts.append(result.text)
        return texts

    live(tmp_path, first)
    challenged, done, spent, plain = live(tmp_path, second, resume=True, tools=[send]).result
    assert '"repeat_of": "r1.1"' in challenged
    assert done == "sent 2"
    assert "ask without it" in spent
    assert plain == "sent 3"
    assert outside.sent == ["b:", "a:", "c:"]


def test_a_file_that_a_receipt_names_and_that_is_gone_is_made_again(tmp_path: Path) -> None:
    made: list[str] = []

    @tool(side_effect_class="local")
    def render(path: str, call: Any) -> dict[str, Any]:
        made.append(path)
        (call.workspace / path).write_text("x", "utf-8")
        return {"path": path, "sha256": hashlib.sha256(b"x").hexdigest()}

    def main(run: Any) -> Any:
        found = [render("kept.txt"), render("lost.txt")]
        if run.attempt == 1:
            (run.workspace / "lost.txt").unlink()
            raise Crash
        return [(run.workspace / item["path"]).exists() for item in found]

    live(tmp_path, main, tools=[render])
    assert live(tmp_path, main, resume=True, tools=[render]).result == [True, True]
    assert made == ["kept.txt", "lost.txt", "lost.txt"]


def test_a_question_whose_call_was_replaced_says_so(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always", scope=["to"])

    live(tmp_path, lambda run: send("a", "x"))
    live(tmp_path, lambda run: send("a", "y"), resume=True)
    with open_engine(tmp_path) as engine:
        summaries = [item.summary for _, item in engine.inbox()]
    assert [text.endswith("(superseded by r1.2)") for text in summaries] == [True, False]


def test_a_list_is_known_from_the_next_turn_on(tmp_path: Path) -> None:
    """The second call of one answer was written before the first one's list was there to be read."""
    outside = Outside()
    send = mailer(outside)

    def first(run: Any) -> Any:
        send("b")
        raise Crash

    def second(run: Any) -> Any:
        talk: list[Any] = []
        turn = run.turn("agent", lambda _: says("", mail("a"), mail("a", "x")), talk)
        results = [turn.call(call) for call in turn.calls]
        talk += [*turn.messages, *turn.result_messages(results)]
        turn = run.turn("agent", lambda _: says("", mail("a", "y")), talk)
        return [result.text for result in (*results, turn.call(turn.calls[0]))]

    live(tmp_path, first)
    one, two, three = live(tmp_path, second, resume=True, tools=[send]).result
    assert "r1.1" in one
    assert "r1.1" in two
    assert three == "sent 2"
    assert outside.sent == ["b:", "a:y"]


def test_a_person_who_forgot_the_result_may_add_it(tmp_path: Path) -> None:
    @tool(side_effect_class="external")
    def order(what: str) -> str:
        raise ConnectionResetError

    def main(run: Any) -> Any:
        return order("it").upper()

    assert live(tmp_path, main).reason == "in_doubt"
    with open_engine(tmp_path) as engine:
        engine.resolve("r1.1", "happened")
    assert live(tmp_path, main, resume=True).reason == "question"  # it cannot do without the value
    with open_engine(tmp_path) as engine:
        engine.resolve("r1.1", "happened", result="done")
        with pytest.raises(VerdictRefused):
            engine.resolve("r1.1", "happened", result="something else")
    assert live(tmp_path, main, resume=True).result == "DONE"


def test_of_two_equal_calls_of_one_answer_only_one_gets_what_was_done(tmp_path: Path) -> None:
    """The other was asked for as well: it is told of the first, and not given the same receipt without a word."""
    outside = Outside()
    send = mailer(outside)

    def first(run: Any) -> Any:
        send("a")
        raise Crash

    def second(run: Any) -> Any:
        turn = run.turn("agent", lambda _: says("", mail("a"), {**mail("a"), "id": "twin"}), [])
        return [turn.call(call).text for call in turn.calls]

    live(tmp_path, first)
    met, twin = live(tmp_path, second, resume=True, tools=[send]).result
    assert met.startswith("[send was done at ")
    assert "Nothing was done by this call of send" in twin
    assert outside.sent == ["a:"]


def test_equal_calls_of_one_answer_stand_for_different_rows_in_whatever_order_they_are_made(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)

    def first(run: Any) -> Any:
        send("a")
        send("a")
        raise Crash

    def second(run: Any) -> Any:
        turn = run.turn("agent", lambda _: says("", mail("a"), {**mail("a"), "id": "twin"}), [])
        return [turn.call(call).value for call in reversed(turn.calls)]

    live(tmp_path, first)
    assert live(tmp_path, second, resume=True, tools=[send]).result == ["sent 2", "sent 1"]
