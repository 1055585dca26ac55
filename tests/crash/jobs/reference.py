"""The five-tool reference job: one tool for each kind of guarantee, two steps, one memo.

The draft is random, so a life that met no stored memo would ask for other effects than the life before it.
"""

import os
from typing import Any

from perdure import CallContext, Probe, tool
from perdure.testing.provider.request import get, post


class NoAnswer(Exception):
    """The provider's answer does not say what happened."""


def answered(reply: tuple[int, Any], *good: int) -> dict[str, Any]:
    """Return the body of a reply with one of the good statuses."""
    status, body = reply
    if status not in good:
        raise NoAnswer(f"{status}: {body}")
    return dict(body)


@tool(side_effect_class="read_only")
def read(url: str, x: str) -> dict[str, Any]:
    return answered(get(f"{url}/read?x={x}"), 200)


@tool(side_effect_class="external", replay_policy="REPLAY_IDEMPOTENT", key_ttl="forever", scope=["what"])
def create(url: str, what: str, text: str) -> dict[str, Any]:
    """Create if absent: 412 says that the object is there."""
    return answered(post(f"{url}/create", {"name": what, "what": what, "body": text}), 201, 412)


@tool(side_effect_class="external", key_ttl="24h", scope=["what"])
def keyed(url: str, what: str, text: str, *, call: CallContext) -> dict[str, Any]:
    """The provider repeats its answer to a key that it knows."""
    return answered(post(f"{url}/keyed", {"what": what, "text": text}, {"Idempotency-Key": call.idempotency_key}), 201)


@tool(side_effect_class="external", scope=["what"], probe_lag="0s")
def probed(url: str, what: str, text: str, *, call: CallContext) -> dict[str, Any]:
    """The provider can be asked by a marker."""
    return answered(post(f"{url}/searchable", {"marker": call.idempotency_key, "what": what, "text": text}), 201)


@probed.probe
def find_probed(call: CallContext) -> Probe:
    status, body = get(f"{call.args['url']}/search?marker={call.idempotency_key}")
    if status != 200:
        return Probe.unknown(f"the search answered {status}")
    for item in body["items"]:
        return Probe.happened({"id": item["id"], "marker": item["marker"]}, ref=item["id"])
    return Probe.not_happened(complete=body["next_page"] is None)


@tool(side_effect_class="external", scope=["what"])
def asked(url: str, what: str, text: str) -> dict[str, Any]:
    """No probe and no key: only a person can tell."""
    return answered(post(f"{url}/plain", {"what": what, "text": text}), 201)


def compose(page: str) -> str:
    return f"{page} {os.urandom(8).hex()}"


def main(run: Any) -> dict[str, Any]:
    url, tag = run.inputs["url"], run.inputs["tag"]
    with run.step("collect", phase="crawl"):
        page = read(url, f"{tag}:read")
        text = run.memo("draft", compose, page["value"])
        created = create(url, f"{tag}:create", text)
    with run.step("tell", phase="send"):
        ids = {
            "keyed": keyed(url, f"{tag}:keyed", text)["id"],
            "probed": probed(url, f"{tag}:probed", text)["id"],
            "asked": asked(url, f"{tag}:asked", text)["id"],
            "last": keyed(url, f"{tag}:last", text)["id"],
        }
    return {"create": created["id"], **ids}
