"""Ten mails to ten people, and three identical reminders on purpose, by tools of every kind."""

import asyncio
from typing import Any

from reference import answered

from perdure import CallContext, Probe, tool
from perdure.testing.provider.request import get, post


def _keyed(url: str, what: str, text: str, *, call: CallContext) -> dict[str, Any]:
    key = {"Idempotency-Key": call.idempotency_key}
    return answered(post(f"{url}/keyed", {"what": what, "text": text}, key), 201)


def _searchable(url: str, what: str, text: str, *, call: CallContext) -> dict[str, Any]:
    return answered(post(f"{url}/searchable", {"marker": call.idempotency_key, "what": what}), 201)


def _marked_by_name(url: str, what: str, text: str) -> dict[str, Any]:
    return answered(post(f"{url}/searchable", {"marker": what, "what": what}), 201)


def _plain(url: str, what: str, text: str) -> dict[str, Any]:
    return answered(post(f"{url}/plain", {"what": what, "text": text}), 201)


def _found(url: str, marker: str) -> Probe:
    status, body = get(f"{url}/search?marker={marker}")
    if status != 200:
        return Probe.unknown(f"the search answered {status}")
    for item in body["items"]:
        return Probe.happened({"id": item["id"], "marker": item["marker"]}, ref=item["id"])
    return Probe.not_happened(complete=body["next_page"] is None)


def find_by_key(call: CallContext) -> Probe:
    return _found(call.args["url"], call.idempotency_key)


def find_by_name(call: CallContext) -> Probe:
    """An honest but weak probe: it cannot tell one reminder from another."""
    return _found(call.args["url"], call.args["what"])


keyed_scoped = tool(name="keyed_scoped", side_effect_class="external", key_ttl="24h", scope=["what"])(_keyed)
keyed_open = tool(name="keyed_open", side_effect_class="external", key_ttl="24h")(_keyed)
probed_scoped = tool(name="probed_scoped", side_effect_class="external", scope=["what"], probe_lag="0s")(_searchable)
probed_open = tool(name="probed_open", side_effect_class="external", probe_lag="0s")(_searchable)
probed_by_name = tool(name="probed_by_name", side_effect_class="external", probe_lag="0s")(_marked_by_name)
asked_scoped = tool(name="asked_scoped", side_effect_class="external", scope=["what"])(_plain)
asked_open = tool(name="asked_open", side_effect_class="external")(_plain)
probed_scoped.probe(find_by_key)
probed_open.probe(find_by_key)
probed_by_name.probe(find_by_name)
TOOLS = {
    found.name: found
    for found in (keyed_scoped, keyed_open, probed_scoped, probed_open, probed_by_name, asked_scoped, asked_open)
}
TEN = [f"to{k}" for k in range(10)]


def ten(run: Any) -> dict[str, Any]:
    send, url, tag = TOOLS[run.inputs["tool"]], run.inputs["url"], run.inputs["tag"]
    return {name: send(url, f"{tag}:{name}", "dear reader")["id"] for name in TEN}


async def ten_side_by_side(run: Any) -> dict[str, Any]:
    send, url, tag = TOOLS[run.inputs["tool"]], run.inputs["url"], run.inputs["tag"]
    replies = await asyncio.gather(*(run.call(send, url, f"{tag}:{name}", "dear reader") for name in TEN))
    return {name: reply["id"] for name, reply in zip(TEN, replies, strict=True)}


def reminders(run: Any) -> list[str]:
    send, url, tag = TOOLS[run.inputs["tool"]], run.inputs["url"], run.inputs["tag"]
    return [send(url, f"{tag}:reminder", "please pay")["id"] for _ in range(3)]


async def twin_reminders(run: Any) -> list[str]:
    send, url, tag = TOOLS[run.inputs["tool"]], run.inputs["url"], run.inputs["tag"]
    replies = await asyncio.gather(*(run.call(send, url, f"{tag}:reminder", "please pay") for _ in range(3)))
    return [reply["id"] for reply in replies]
