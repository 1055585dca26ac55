"""Ready tools for tests, one for each kind of guarantee; their effects are counted at the provider of the kit.

``what`` names the logical effect: it is the scope, and what ``assert_effects`` counts. The provider's address is read
from ``PERDURE_TEST_PROVIDER``, which the pytest plugin sets.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any
from urllib.parse import quote

from perdure.model.errors import UsageError
from perdure.ports.tool import CallContext, Probe, ToolFailed, tool
from perdure.testing.provider.client import ADDRESS_VARIABLE
from perdure.testing.provider.request import get, post

_REFUSED = {400: False, 401: False, 403: False, 404: False, 429: True, 503: True}  # and whether to try again


def address() -> str:
    """Return the provider's address.

    Raises:
        UsageError: no provider was started for this process.
    """
    found = os.environ.get(ADDRESS_VARIABLE, "")
    if not found:
        raise UsageError(
            f"{ADDRESS_VARIABLE} is not set: no provider is running",
            next_command="let the test ask for the fixture perdure_provider",
        )
    return found


@tool(side_effect_class="external", scope=["what"], key_ttl="forever", max_attempts=100)
def create_effect(what: str, body: str = "") -> dict[str, Any]:
    """Create an object that the provider creates only once (guarantee ``create-if-absent``)."""
    status, answer = post(f"{address()}/create", {"name": what, "what": what, "body": body})
    if status == 412 and answer["sha256"] == hashlib.sha256(body.encode()).hexdigest():
        return {"id": answer["id"], "what": what}
    if status == 412:
        raise ToolFailed(f"{what!r} exists, and is another one", retry=False)
    return _accepted(status, answer, what)


@tool(side_effect_class="external", scope=["what"], key_ttl="24h", max_attempts=100)
def keyed_effect(what: str, body: str = "", *, call: CallContext) -> dict[str, Any]:
    """Do something under the call's idempotency key, which the provider remembers (guarantee ``keyed 24h``)."""
    key = {"Idempotency-Key": call.idempotency_key}
    return _accepted(*post(f"{address()}/keyed", {"what": what, "body": body}, key), what)


@tool(side_effect_class="external", scope=["what"], probe_lag="0s", max_attempts=100)
def searchable_effect(what: str, body: str = "", *, call: CallContext) -> dict[str, Any]:
    """Do something that can be found again by a marker (guarantee ``probe``)."""
    marked = {"marker": call.idempotency_key, "what": what, "body": body}
    return _accepted(*post(f"{address()}/searchable", marked), what)


@searchable_effect.probe
def _find(call: CallContext) -> Probe:
    status, answer = get(f"{address()}/search?marker={call.idempotency_key}")
    if status != 200:
        return Probe.unknown(f"the search answered {status}")
    for item in answer["items"]:
        return Probe.happened({"id": item["id"], "what": item["what"]}, ref=item["id"])
    return Probe.not_happened(complete=answer["next_page"] is None)


@tool(side_effect_class="external", scope=["what"])
def plain_effect(what: str, body: str = "") -> dict[str, Any]:
    """Do something that is done again each time and cannot be found again (guarantee ``ask``)."""
    return _accepted(*post(f"{address()}/plain", {"what": what, "body": body}), what)


@tool(side_effect_class="read_only")
def read_value(what: str) -> str:
    """Read something; reads are no effects (guarantee ``rerun``)."""
    status, answer = get(f"{address()}/read?x={quote(what)}")
    if status != 200:
        raise ToolFailed(f"the provider answered {status}")
    return str(answer["value"])


def _accepted(status: int, answer: Any, what: str) -> dict[str, Any]:
    """Return the provider's word, or say what its refusal means."""
    if status == 201:
        return {"id": answer["id"], "what": what}
    if status in _REFUSED:
        raise ToolFailed(f"the provider answered {status}", retry=_REFUSED[status])
    raise ConnectionError(f"the provider answered {status}, which says nothing about the effect")
