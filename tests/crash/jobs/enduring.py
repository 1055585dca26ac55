"""Agents that do what a tree says and go on whatever becomes of a call, with tools whose providers lag and forget.

The words of a tree are those of `trees`, and three more: `try` goes on after an error, `varied` changes its wording in the
first lives, `deduped` changes it in every life under one dedupe key. `main` is async; `plain` is a sync agent.
"""

import contextlib
import os
from typing import Any

import trees
from hard import busy, signed
from mails import TOOLS, answered, find_by_key

from perdure import CallContext, CallError, tool
from perdure.testing.provider.request import post

WORDINGS = 3
KEY_SECONDS = 0.15
PROBE_LAG_SECONDS = 0.3


@tool(side_effect_class="external", scope=["what"], key_ttl=KEY_SECONDS)
def keyed_briefly(url: str, what: str, text: str, *, call: CallContext) -> dict[str, Any]:
    """The provider remembers the key only for a moment."""
    return answered(post(f"{url}/keyed", {"what": what, "text": text}, {"Idempotency-Key": call.idempotency_key}), 201)


@tool(side_effect_class="external", scope=["what"], probe_lag=PROBE_LAG_SECONDS)
def probed_late(url: str, what: str, text: str, *, call: CallContext) -> dict[str, Any]:
    """The provider may land a request late, and shows it later still."""
    return answered(post(f"{url}/searchable", {"marker": call.idempotency_key, "what": what}), 201)


probed_late.probe(find_by_key)


SENDERS: dict[str, Any] = {**TOOLS, "keyed_briefly": keyed_briefly, "probed_late": probed_late}
WORDLESS: dict[str, Any] = {"busy": busy, "signed": signed}


def _arguments(run: Any, kind: str, tool: str, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a leaf of the tree sends: everything but the wording is the same in every life."""
    what = f"{run.inputs['tag']}:{name}"
    if tool in WORDLESS:
        return (WORDLESS[tool], run.inputs["url"], what), {}
    wording = {"varied": f"draft {min(run.attempt, WORDINGS)}", "deduped": os.urandom(8).hex()}.get(kind, "text")
    more = {"dedupe_key": what} if kind == "deduped" else {}
    return (SENDERS[tool], run.inputs["url"], what, wording), more


async def main(run: Any) -> None:
    await trees.node(run, run.inputs["tree"])


async def _leaf(run: Any, kind: str, tool: str, name: str) -> None:
    positional, named = _arguments(run, kind, tool, name)
    await run.call(*positional, **named)


async def _varied(run: Any, tool: str, name: str) -> None:
    await _leaf(run, "varied", tool, name)


async def _deduped(run: Any, tool: str, name: str) -> None:
    await _leaf(run, "deduped", tool, name)


async def _send(run: Any, tool: str, name: str) -> None:
    await _leaf(run, "send", tool, name)


async def _tried(run: Any, child: Any) -> None:
    with contextlib.suppress(CallError):
        await trees.node(run, child)


trees.KINDS.update({"varied": _varied, "deduped": _deduped, "send": _send, "try": _tried})


def plain(run: Any) -> None:
    """The same in sync code; branches become a sequence."""
    _plainly(run, run.inputs["tree"])


def _plainly(run: Any, node: Any) -> None:
    kind, *rest = node
    if kind in ("varied", "deduped", "send"):
        positional, named = _arguments(run, kind, *rest)
        run.call(*positional, **named)
    elif kind == "try":
        with contextlib.suppress(CallError):
            _plainly(run, rest[0])
    elif kind == "step":
        with run.step(rest[0]):
            _plainly(run, rest[1])
    elif kind == "memo":
        run.memo(rest[0], _plainly, run, rest[1], key=rest[0])
    else:
        for child in rest:
            _plainly(run, child)
