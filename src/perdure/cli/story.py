"""``calls explain``: what a call is, what became of it, who said so, and what to do now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from perdure.cli.output import Output, fields, shown, visible
from perdure.core.summary import coded

if TYPE_CHECKING:
    from perdure.model.run import Outcome

_STATES = {
    "prepared": "it was not started, or the last attempt provably did nothing",
    "awaiting_approval": "a person must answer before it is sent; nothing was sent",
    "running": "its request left or is about to leave, and no outcome is recorded yet",
    "in_doubt": "it was started and its outcome was lost: it may have happened or not",
    "succeeded": "it happened; its receipt is stored and is what every later life gets",
    "failed": "it failed for certain; the same error is raised in every life",
    "cancelled": "it was withdrawn: nobody asked for it any more, and nothing was sent",
    "abandoned": "a person decided to go on without knowing whether it happened",
}
_LOST = {
    "ask": "a person is asked",
    "probe": "the provider is asked by the tool's probe, then a person",
    "keyed": "the same key is sent again while the provider remembers it, then a person is asked",
    "create-if-absent": "the same request is sent again; the target refuses a second one",
    "rerun": "it is run again",
    "same": "effect and receipt are one transaction",
}
_LIVE = ("queued", "running", "waiting")


def explanation(call: Mapping[str, Any], run: Outcome) -> dict[str, Any]:
    """Return the part of the answer that is reasoning: why it is so, and what to type next."""
    state = _why(call)
    return {
        "why": state,
        "rule": call["policy_rule"] or "no policy rule: the tool's own declaration, or the default",
        "when_lost": _LOST.get(str(call["guarantee"]).split()[0], str(call["guarantee"])),
        "run_status": f"{run.status} ({run.reason})" if run.reason else str(run.status),
        "commands": _commands(call, run),
    }


def _why(call: Mapping[str, Any]) -> str:
    status = call["status"]
    if status == "cancelled" and call["same_as"]:
        return f"a person said it is the same as {call['same_as']}, whose receipt its caller gets"
    if call["inherited_from"]:
        return f"a fork has inherited it: it is {call['inherited_from']} of the run that was forked, {status} there"
    if status == "failed" and call["error_code"] == "denied":
        return f"it was refused before anything was sent: {call['error_detail']}"
    if status == "failed" and call["error_code"] == "challenged":
        return "it looked like an effect that was done already, and its caller was told so; nothing was sent"
    if call["simulated"] and status == "succeeded":
        return "it was simulated: this fork sends nothing, and its caller got what stands in for the result"
    error = f" ({coded(call['error_code'], call['error_detail'])})" if call["error_code"] else ""
    return _STATES[status] + error


def _commands(call: Mapping[str, Any], run: Outcome) -> list[str]:
    if call["commands"]:
        return list(call["commands"])
    final = call["status"] == "abandoned" or call["error_code"] == "denied"
    ended_it = run.status == "failed" and (bool(run.way.fork) if final else call["status"] == "failed")
    if ended_it or (run.status in _LIVE and call["status"] in ("prepared", "running", "in_doubt")):
        return [run.way.line] if run.way.line else []
    return []


def story(document: Mapping[str, Any], output: Output) -> str:
    """Return the whole story for a person to read."""
    said = document["explanation"]
    title = f"{document['tool_call_id']}  {document['tool_name']}"
    parts = [f"{visible(title)}: {output.paint(document['status'])}\n  {visible(said['why'])}\n"]
    parts.append("\nwhat it is\n" + _what_it_is(document))
    parts.append("\nhow it is treated\n" + _treatment(document))
    parts.append("\nwhat happened\n" + "".join(f"  {visible(line)}\n" for line in sorted_events(document)))
    if said["commands"]:
        parts.append("\nwhat you can do\n" + "".join(f"  {visible(line)}\n" for line in said["commands"]))
    return "".join(parts)


def _what_it_is(call: Mapping[str, Any]) -> str:
    pairs = [
        ("run", f"{call['run_id']}: {call['explanation']['run_status']}"),
        ("step", call["step_id"]),
        ("inside", call["parent_call_id"]),
        ("tool", f"{call['tool_name']} (namespace {call['tool_namespace']})"),
        *_arguments(call["request"]),
        *_edited(call),
        ("scope", call["effect_scope"]),
        ("occurrence", None if call["occurrence"] == 1 else f"number {call['occurrence']} of equal calls"),
        ("key", call["idempotency_key"]),
        ("receipt", shown(call["response"]) if call["status"] == "succeeded" else None),
        ("simulated", "yes: the tool was not entered and nothing was sent" if call["simulated"] else None),
        ("happened as", call["inherited_from"]),
        ("reference", call["external_correlation_id"]),
        ("handle", call["handle"]),
    ]
    return fields(pairs, indent="  ")


def _arguments(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in request.items():
        yield f"  {name}", shown(value)


def _edited(call: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield that a person has changed the request: the program asked for other arguments, which name the call still."""
    edited = call["edited"]
    if edited is not None:
        yield "edited", f"by {edited['by']} at {edited['at']}; the program asked for:"
        yield from _arguments(edited["asked_for"])


def _treatment(call: Mapping[str, Any]) -> str:
    said = call["explanation"]
    pairs = [
        ("class", call["side_effect_class"]),
        ("replay policy", call["replay_policy"]),
        ("guarantee", f"{call['guarantee']}: if its outcome is lost, {said['when_lost']}"),
        ("decided by", said["rule"]),
    ]
    return fields(pairs, indent="  ")


def sorted_events(call: Mapping[str, Any]) -> list[str]:
    """Return everything with a time, in the order in which it happened."""
    found = [(call["prepared_at"], 0, "prepared: this exact request is on stable storage")]
    if call["started_at"]:
        found.append((call["started_at"], 1, f"attempt {call['attempt']} started"))
    found += [(item["at"], 2, _evidence(item)) for item in call["evidence"]]
    for question in call["questions"]:
        found.append((question["created_at"], 3, f"asked ({question['kind']} {question['id']}): {question['summary']}"))
        if question["decided_at"]:
            found.append((question["decided_at"], 4, f"answered by {question['actor']}: {question['answer']}"))
    if call["finished_at"]:
        found.append((call["finished_at"], 5, str(call["status"])))
    return [f"{at}  {text}" for at, _, text in sorted(found)]


def _of_probe(item: Mapping[str, Any]) -> str:
    """Return what a probe has said beside its verdict, in words: its row keeps it as JSON."""
    told: dict[str, Any] = json.loads(item["detail"] or "{}")
    complete = "its listing was complete" if item["says"] == "not_happened" and told.get("complete") else ""
    return "; ".join(text for text in (told.get("reason"), complete) if text)


def _evidence(item: Mapping[str, Any]) -> str:
    subject = f"attempt {item['attempt']}:" if item["kind"] == "attempt" else f"{item['kind']} says"
    reference = f", ref {item['ref']}" if item["ref"] else ""
    told = _of_probe(item) if item["kind"] == "probe" else item["detail"]
    detail = f", {told}" if told else ""
    return f"{subject} {item['says']}{reference}{detail}  [{item['actor']}]"
