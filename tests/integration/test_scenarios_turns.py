"""Scenarios of a model-driven loop (docs/durability_test_matrix.md): what it may repeat, and what it may cite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import tool
from tests.integration.engine_support import Outside, live, mailer
from tests.integration.test_turns import by_turns, loop, mail, says


@pytest.mark.parametrize(("scope", "sent"), [(None, ["ann:x", "ann:y"]), (["to"], ["ann:x"])])
def test_two_different_mails_to_one_person_are_challenged_only_inside_a_declared_scope(
    tmp_path: Path, scope: list[str] | None, sent: list[str]
) -> None:
    outside = Outside()
    send = mailer(outside, scope=scope)
    model = by_turns(says("", mail("ann", "x")), says("", mail("ann", "y")))
    done = live(tmp_path, lambda run: [send, loop(run, model)][1])
    assert (done.status, outside.sent) == ("succeeded", sent)


def test_one_amount_may_be_paid_to_one_payee_for_two_invoices(tmp_path: Path) -> None:
    paid: list[str] = []

    @tool(side_effect_class="external", scope=["account", "invoice"])
    def pay(account: str, invoice: str, cents: int) -> str:
        paid.append(invoice)
        return f"paid {invoice}"

    def wish(number: int, invoice: str) -> dict[str, Any]:
        return {"id": str(number), "name": "pay", "args": {"account": "acme", "invoice": invoice, "cents": 500}}

    model = by_turns(says("", wish(1, "7")), says("", wish(2, "8")), says("", wish(3, "8")))
    told = live(tmp_path, lambda run: [pay, loop(run, model)][1]).result
    assert told[:2] == ["paid 7", "paid 8"] and "This was done before" in told[2]
    assert paid == ["7", "8"]


def test_a_challenge_lists_every_effect_and_only_the_newest_can_be_cited(tmp_path: Path) -> None:
    """The program was changed: its model remembers nothing, and is told of both mails at once."""
    outside = Outside()
    send = mailer(outside, scope=["to"])
    first = by_turns(
        says("", mail("ann", "x")), says("", mail("ann", "y")), says("", mail("ann", "y", repeat_of="r1.2"))
    )
    live(tmp_path, lambda run: [send, loop(run, first, crash_after=3)])
    assert outside.sent == ["ann:x", "ann:y"]

    def deployed(run: Any) -> list[str]:
        assert send is not None
        talk: list[Any] = [{"role": "user", "content": "another prompt"}]
        texts = []
        for number, cited in enumerate([None, "r1.2"]):
            wish = mail("ann", "z", repeat_of=cited) if cited else mail("ann", "z")
            turn = run.turn("agent", lambda _, wish=wish, number=number: says(f"{number}", wish), talk)
            texts.append(turn.call(turn.calls[0]).text)
            talk += [*turn.messages, *turn.result_messages([turn.call(turn.calls[0])])]
        return texts

    listed, refused = live(tmp_path, deployed, resume=True).result
    assert "r1.2" in listed and "r1.6" in listed
    assert "the newest is r1.6" in refused
    assert outside.sent == ["ann:x", "ann:y"]
