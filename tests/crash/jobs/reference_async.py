"""The reference job as an async agent: async tools, a sync tool in a thread, and two sends side by side."""

import asyncio
from typing import Any

from reference import answered, compose, create, read

from perdure import CallContext, Probe, tool
from perdure.testing.provider.request import get, post


@tool(side_effect_class="external", key_ttl="24h", scope=["what"])
async def keyed(url: str, what: str, text: str, *, call: CallContext) -> dict[str, Any]:
    reply = await asyncio.to_thread(
        post, f"{url}/keyed", {"what": what, "text": text}, {"Idempotency-Key": call.idempotency_key}
    )
    return answered(reply, 201)


@tool(side_effect_class="external", scope=["what"], probe_lag="0s")
async def probed(url: str, what: str, text: str, *, call: CallContext) -> dict[str, Any]:
    body = {"marker": call.idempotency_key, "what": what, "text": text}
    return answered(await asyncio.to_thread(post, f"{url}/searchable", body), 201)


@probed.probe
async def find_probed(call: CallContext) -> Probe:
    address = f"{call.args['url']}/search?marker={call.idempotency_key}"
    status, body = await asyncio.to_thread(get, address)
    if status != 200:
        return Probe.unknown(f"the search answered {status}")
    for item in body["items"]:
        return Probe.happened({"id": item["id"], "marker": item["marker"]}, ref=item["id"])
    return Probe.not_happened(complete=body["next_page"] is None)


@tool(side_effect_class="external", scope=["what"])
async def asked(url: str, what: str, text: str) -> dict[str, Any]:
    return answered(await asyncio.to_thread(post, f"{url}/plain", {"what": what, "text": text}), 201)


async def main(run: Any) -> dict[str, Any]:
    url, tag = run.inputs["url"], run.inputs["tag"]
    async with run.step("collect", phase="crawl"):
        page = await run.call(read, url, f"{tag}:read")
        text = await run.memo("draft", compose, page["value"])
        created = await run.call(create, url, f"{tag}:create", text)
    async with run.step("tell", phase="send"):
        sent, found = await asyncio.gather(keyed(url, f"{tag}:keyed", text), probed(url, f"{tag}:probed", text))
        told = await asked(url, f"{tag}:asked", text)
        last = await keyed(url, f"{tag}:last", text)
    return {
        "create": created["id"],
        "keyed": sent["id"],
        "probed": found["id"],
        "asked": told["id"],
        "last": last["id"],
    }
