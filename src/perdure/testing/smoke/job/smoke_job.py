"""A job with one tool for each guarantee, one of them called twice on purpose; its effects are at the provider."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from perdure import CallContext, Probe, Run, current_call, tool
from perdure.testing.provider.request import get, post


class NoAnswer(Exception):
    """The provider's answer does not say what happened."""


def _id_of(reply: tuple[int, Any], *good: int) -> str:
    status, body = reply
    if status not in good:
        raise NoAnswer(f"the provider answered {status}: {body}")
    return str(body["id"])


def _keyed(url: str, body: dict[str, Any]) -> str:
    return _id_of(post(f"{url}/keyed", body, {"Idempotency-Key": current_call().idempotency_key}), 201)


@tool(side_effect_class="local")
def write_report(name: str, text: str) -> str:
    """Write a file of the workspace, and return the SHA-256 of its bytes."""
    path = current_call().workspace / name
    path.write_text(text, "utf-8")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@tool(side_effect_class="external", scope=["name"], key_ttl="forever")
def store_report(url: str, name: str, text: str) -> str:
    """Create if absent: 412 says that the object is there."""
    return _id_of(post(f"{url}/create", {"what": "store_report", "name": name, "body": text}), 201, 412)


@tool(side_effect_class="external", scope=["invoice"], key_ttl="24h")
def pay(url: str, invoice: str, cents: int) -> str:
    """The provider repeats its answer to a key that it knows."""
    return _keyed(url, {"what": "pay", "invoice": invoice, "cents": cents})


@tool(side_effect_class="external", scope=["to"], probe_lag="0s")
def send_mail(url: str, to: str, text: str) -> str:
    """Knows no key; the provider can be searched for the marker."""
    body = {"what": "send_mail", "marker": current_call().idempotency_key, "to": to, "text": text}
    return _id_of(post(f"{url}/searchable", body), 201)


@send_mail.probe
def find_mail(call: CallContext) -> Probe:
    """Search the provider for the marker of this call."""
    status, body = get(f"{call.args['url']}/search?marker={call.idempotency_key}")
    if status != 200:
        return Probe.unknown(f"the search answered {status}")
    for item in body["items"]:
        return Probe.happened(str(item["id"]), ref=str(item["id"]))
    return Probe.not_happened(complete=body["next_page"] is None)


@tool(side_effect_class="external", scope=["channel"])
def post_notice(url: str, channel: str, text: str) -> str:
    """No probe and no key: of a lost outcome only a person can tell."""
    return _id_of(post(f"{url}/plain", {"what": "post_notice", "channel": channel, "text": text}), 201)


@tool(side_effect_class="external", scope=["to"], key_ttl="24h")
def remind(url: str, to: str) -> str:
    """Called twice with the same arguments, and meant so: both must arrive."""
    return _keyed(url, {"what": "remind", "to": to})


def compose(topic: str) -> str:
    """Return a text that no second call would return again, as a model's answer would be."""
    return f"All there is to say about {topic}: {os.urandom(16).hex()}\n"


def main(run: Run) -> dict[str, str]:
    """Do everything once, and the reminder twice."""
    url = str(run.inputs["url"])
    with run.step("write", phase="synthesize"):
        text = run.memo("draft", compose, "durability")
        write_report("report.txt", text)
    with run.step("deliver", phase="send"):
        done = {
            "stored": store_report(url, "report.txt", text),
            "paid": pay(url, "2026-47", 1250),
            "mailed": send_mail(url, "boss@example.org", text),
            "posted": post_notice(url, "team", "The report is out"),
        }
    with run.step("remind", phase="notify"):
        first, second = remind(url, "boss@example.org"), remind(url, "boss@example.org")
    return {**done, "reminded": f"{first} {second}"}
