"""Tools whose provider can be asked, or knows keys, and what programs make of answers that are late, partial or wrong."""

import ctypes
import threading
import time
from contextvars import copy_context
from typing import Any

from reference import answered

from perdure import CallContext, CallFailed, Probe, ToolFailed, tool
from perdure.testing.provider.client import get, post


def look(call: CallContext, marker: str, *, newest: bool = True) -> Probe:
    """Ask by a marker, on the first page only; of several effects the newest is named, or the oldest."""
    status, body = get(f"{call.args['url']}/search?marker={marker}")
    if status != 200:
        raise ConnectionError(f"the search answered {status}")
    for item in reversed(body["items"]) if newest else body["items"]:
        if item["what"] == call.args["what"]:
            return Probe.happened({"id": item["id"]}, ref=item["id"])
    return Probe.not_happened(complete=body["next_page"] is None)


@tool(side_effect_class="external", scope=["what"], probe_lag="0s", max_attempts=3)
def searched(url: str, what: str, *, call: CallContext) -> dict[str, Any]:
    sent = answered(post(f"{url}/searchable", {"marker": call.idempotency_key, "what": what}), 201)
    call.record(sent["id"])
    return sent


@searched.probe
def find_searched(call: CallContext) -> Probe:
    return look(call, call.idempotency_key)


@tool(side_effect_class="external", scope=["what"], probe_lag="0s", max_attempts=3)
def searched_oldest(url: str, what: str, *, call: CallContext) -> dict[str, Any]:
    sent = answered(post(f"{url}/searchable", {"marker": call.idempotency_key, "what": what}), 201)
    call.record(sent["id"])
    return sent


@searched_oldest.probe
def find_oldest(call: CallContext) -> Probe:
    return look(call, call.idempotency_key, newest=False)


@tool(side_effect_class="external", scope=["what"], probe_lag="300ms", max_attempts=3)
def searched_late(url: str, what: str, *, call: CallContext) -> dict[str, Any]:
    """The provider's search is behind, by less than its lag."""
    return answered(post(f"{url}/searchable", {"marker": call.idempotency_key, "what": what}), 201)


searched_late.probe(find_searched)


@tool(side_effect_class="external", scope=["what"], probe_lag="0s", max_attempts=3)
def listed(url: str, what: str, marker: str) -> dict[str, Any]:
    """All that carry one marker stand in one list, which has pages."""
    return answered(post(f"{url}/searchable", {"marker": marker, "what": what}), 201)


@listed.probe
def find_listed(call: CallContext) -> Probe:
    return look(call, str(call.args["marker"]))


@tool(side_effect_class="external", scope=["what"], probe_lag="0s", max_attempts=3)
def paged(url: str, what: str, marker: str) -> dict[str, Any]:
    """The same list, and a probe that turns all its pages."""
    return answered(post(f"{url}/searchable", {"marker": marker, "what": what}), 201)


@paged.probe
def find_paged(call: CallContext) -> Probe:
    page: int | None = 1
    while page is not None:
        body = answered(get(f"{call.args['url']}/search?marker={call.args['marker']}&page={page}"), 200)
        for item in body["items"]:
            if item["what"] == call.args["what"]:
                return Probe.happened({"id": item["id"]}, ref=item["id"])
        page = body["next_page"]
    return Probe.not_happened(complete=True)


@tool(side_effect_class="external", scope=["what"], probe_lag="0s", timeout="50ms", max_attempts=3)
def overdue(url: str, what: str, *, call: CallContext) -> dict[str, Any]:
    """The tests let it land long after its timeout, in a thread of this process."""
    return answered(post(f"{url}/searchable", {"marker": call.idempotency_key, "what": what}), 201)


overdue.probe(find_searched)


@tool(side_effect_class="external", scope=["what"], key_ttl="1h", max_attempts=4)
def keyed(url: str, what: str, *, call: CallContext) -> dict[str, Any]:
    """Whatever is not a success raises: the outcome is unknown, and the same key is sent again."""
    return answered(post(f"{url}/keyed", {"what": what}, {"Idempotency-Key": call.idempotency_key}), 201)


@tool(side_effect_class="external", scope=["what"], key_ttl="1h", max_attempts=3)
def turned_away(url: str, what: str, *, call: CallContext) -> dict[str, Any]:
    """It says of a 503, rightly, that this request did nothing."""
    status, body = post(f"{url}/keyed", {"what": what}, {"Idempotency-Key": call.idempotency_key})
    if status == 503:
        raise ToolFailed("503: come again later")
    return answered((status, body), 201)


@tool(side_effect_class="external", scope=["what"], key_ttl="1h", max_attempts=3)
def reworded(url: str, what: str, *, call: CallContext) -> dict[str, Any]:
    """Its body is another one in each attempt, which a provider of keys refuses with 422."""
    body = {"what": what, "sent_at": time.time_ns()}
    return answered(post(f"{url}/keyed", body, {"Idempotency-Key": call.idempotency_key}), 201)


@tool(side_effect_class="external", scope=["what"])
def plain(url: str, what: str) -> dict[str, Any]:
    return answered(post(f"{url}/plain", {"what": what}), 201)


TOOLS: dict[str, Any] = {
    found.name: found for found in (searched, searched_oldest, searched_late, overdue, keyed, reworded, plain)
}


def one(run: Any) -> str:
    """One call of the tool that the inputs name."""
    url, tag = run.inputs["url"], run.inputs["tag"]
    return str(TOOLS[run.inputs["tool"]](url, f"{tag}:one")["id"])


def two(run: Any) -> list[str]:
    """Two calls of it, with different effects."""
    url, tag = run.inputs["url"], run.inputs["tag"]
    return [str(TOOLS[run.inputs["tool"]](url, f"{tag}:{what}")["id"]) for what in ("one", "two")]


def three_in_a_list(run: Any) -> list[str]:
    url, tag = run.inputs["url"], run.inputs["tag"]
    send = {"listed": listed, "paged": paged}[run.inputs["tool"]]
    return [str(send(url, f"{tag}:{what}", marker=tag)["id"]) for what in ("one", "two", "three")]


def falls_back(run: Any) -> str:
    """Card A, and card B if A was not charged for certain."""
    url, tag = run.inputs["url"], run.inputs["tag"]
    try:
        return str(turned_away(url, f"{tag}:A")["id"])
    except CallFailed:
        return str(turned_away(url, f"{tag}:B")["id"])


def one_and_then_waits(run: Any) -> str:
    """It ends when it is told to, so that there is time for something to land."""
    sent = one(run)
    while not (run.workspace / "go").exists():
        time.sleep(0.005)
    return sent


def first_thread_ends(run: Any) -> None:
    """A thread sends, and the first thread of the process is no more: the process looks like a zombie, and is none."""
    if run.attempt > 1:
        one(run)
        return
    context = copy_context()
    threading.Thread(target=lambda: context.run(one, run), daemon=True).start()
    while not (run.workspace / "go").exists():
        time.sleep(0.005)
    ctypes.CDLL(None).pthread_exit(None)
