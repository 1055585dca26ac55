"""Programs in which a naive rule would lose or repeat an effect (semantics §4: #3, #6, #7, #43)."""

import os
from typing import Any

from mails import asked_open, asked_scoped, keyed_open, keyed_scoped, probed_open, probed_scoped
from reference import answered, read

from perdure import CallContext, CallFailed, ToolFailed, tool
from perdure.testing.provider.request import post

SENDERS = (asked_open, asked_scoped, keyed_open, keyed_scoped, probed_open, probed_scoped)
TOOLS = {sender.name: sender for sender in SENDERS}


@tool(side_effect_class="external", scope=["card"], key_ttl="24h")
def charge(url: str, what: str, card: str, *, call: CallContext) -> dict[str, Any]:
    status, body = post(f"{url}/keyed", {"what": what, "card": card}, {"Idempotency-Key": call.idempotency_key})
    if status == 402:
        raise ToolFailed("the card is declined", retry=False)
    return answered((status, body), 201)


@tool(side_effect_class="external", scope=["what"], approval="always")
def signed(url: str, what: str) -> dict[str, Any]:
    """Sent only when a person has signed it."""
    return answered(post(f"{url}/plain", {"what": what}), 201)


@tool(side_effect_class="external", scope=["what"], key_ttl="24h", max_attempts=6)
def busy(url: str, what: str, *, call: CallContext) -> dict[str, Any]:
    """503 says that nothing was done."""
    status, body = post(f"{url}/keyed", {"what": what}, {"Idempotency-Key": call.idempotency_key})
    if status == 503:
        raise ToolFailed("busy")
    return answered((status, body), 201)


def memo_with_effects(run: Any) -> dict[str, Any]:
    """The calls inside a finished memo are never asked for again."""
    send, url, tag = TOOLS[run.inputs["tool"]], run.inputs["url"], run.inputs["tag"]

    def both() -> list[str]:
        return [send(url, f"{tag}:inner{k}", "x")["id"] for k in range(2)]

    first, second = run.memo("both", both, key="both")
    read(url, f"{tag}:between")  # so that some life dies with the memo stored and nothing asked for after it
    return {"inner0": first, "inner1": second, "outer": send(url, f"{tag}:outer", "x")["id"]}


def declined(run: Any) -> dict[str, Any]:
    """Card A is declined, so card B is charged; after that A must never be tried again."""
    url, tag = run.inputs["url"], run.inputs["tag"]
    try:
        paid = charge(url, f"{tag}:paid", "A")
    except CallFailed:
        paid = charge(url, f"{tag}:paid", "B")
    return {"paid": paid["id"]}


def retried(run: Any) -> dict[str, Any]:
    url, tag = run.inputs["url"], run.inputs["tag"]
    return {name: busy(url, f"{tag}:{name}")["id"] for name in ("first", "second")}


def lost_replies(run: Any) -> dict[str, Any]:
    """Every first reply is lost on its way, in a life that goes on."""
    url, tag = run.inputs["url"], run.inputs["tag"]
    names = ("keyed_scoped", "probed_scoped", "asked_scoped", "keyed_open")
    return {name: TOOLS[name](url, f"{tag}:{name}", "x")["id"] for name in names}


def changed(run: Any) -> dict[str, Any]:
    """After a crash the wording is another one, because nobody put it into a memo."""
    send, url, tag = TOOLS[run.inputs["tool"]], run.inputs["url"], run.inputs["tag"]
    return {"mail": send(url, f"{tag}:mail", f"draft {min(run.attempt, 2)}")["id"]}


def deduped(run: Any) -> dict[str, Any]:
    """The wording is another one in every life, but the program says itself that it is one effect."""
    send, url, tag = TOOLS[run.inputs["tool"]], run.inputs["url"], run.inputs["tag"]
    text = os.urandom(8).hex()
    return {"mail": run.call(send, url, f"{tag}:mail", text, dedupe_key=f"{tag}-mail")["id"]}


def two_minds(run: Any) -> dict[str, Any]:
    """The first life wants what has to be signed; before anybody signs, the operator has corrected the program."""
    url, tag = run.inputs["url"], run.inputs["tag"]
    if run.attempt == 1:
        signed(url, f"{tag}:wrong")
    return {"right": keyed_scoped(url, f"{tag}:right", "x")["id"]}
