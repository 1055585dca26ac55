"""Tell a service by webhook, with an ``Idempotency-Key`` by which it recognises a repeated request.

Header and meaning of the answers: the IETF draft "The Idempotency-Key HTTP Header Field"
(draft-ietf-httpapi-idempotency-key-header) and RFC 9110. The key is sent bare, as the large payment providers
take it, not as the draft's quoted string.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypedDict

from perdure.ports.tool import CallContext, ToolFailed, tool
from perdure.toolbox._provider import INJECTED, OutcomeUnknown, refused, required_setting, setting

if TYPE_CHECKING:
    from httpx2 import Response

_KEPT_RESPONSE_BYTES = 16 * 1024
_NOT_NOW = frozenset({425, 429})
_NOT_HERE = frozenset({307, 308})


class Notice(TypedDict):
    """The receiver's answer; ``response`` is the beginning of its body as text."""

    status: int
    response: str


def body_bytes(event: str, data: Any) -> bytes:
    """Return the request body; equal arguments give equal bytes, as a receiver that compares payloads
    demands.

    Raises:
        ToolFailed: ``data`` is not JSON.
    """
    try:
        text = json.dumps(
            {"data": data, "event": event},
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
            sort_keys=True,
        )
        return text.encode("utf-8")
    except (TypeError, ValueError) as problem:
        raise ToolFailed(f"data is not JSON: {problem}", retry=False) from problem


def _judge(status: int, call: CallContext) -> None:
    """Return if the status says "done"; raise what it means otherwise."""
    if 200 <= status < 300:
        return
    if status == 409:
        # The draft: a request with this key is still being worked on. Its outcome is open; ask again with the
        # key.
        raise OutcomeUnknown("409: an earlier request with this key is still in progress")
    if status in _NOT_NOW:
        raise refused(call, f"the receiver answered {status}: not now", retry=True)
    if status == 422:
        # The draft: this key came with another payload before. In plain APIs: the payload is not valid. In
        # both cases this request did nothing, and sending it again unchanged would do no better.
        text = "422: the receiver rejects the payload, or knows this key with another one"
        raise refused(call, text, retry=False)
    if 400 <= status < 500 and status != 408:
        raise refused(call, f"the receiver refused with {status}", retry=False, status=status)
    if status in _NOT_HERE:
        # 307 and 308 ask for the same request elsewhere. A notice is not carried to an address nobody
        # declared.
        raise refused(call, f"the receiver redirects ({status}), which is not followed", retry=False)
    # 408, 5xx and the redirects that may follow a finished POST (303): it may have been done.
    raise OutcomeUnknown(f"the receiver answered {status}")


async def _beginning(response: Response) -> str:
    import httpx2

    kept = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            kept += chunk
            if len(kept) >= _KEPT_RESPONSE_BYTES:
                break
    except (httpx2.TransportError, httpx2.DecodingError):
        pass  # The status line said "done"; a body cut short does not take that back.
    return bytes(kept[:_KEPT_RESPONSE_BYTES]).decode("utf-8", "replace")


def _target(url: str) -> tuple[str, dict[str, str]]:
    if url:
        return url, {}
    token = setting("PERDURE_NOTIFY_TOKEN")
    address = required_setting("PERDURE_NOTIFY_URL", "the receiver of notices")
    # The token goes only where the same environment says, never to an address that came as an argument.
    return address, {"Authorization": f"Bearer {token}"} if token else {}


@tool(side_effect_class="external", scope=["url", "event"], key_ttl="24h")
async def notify(
    url: str, event: str, data: Any = None, timeout_seconds: float = 10.0, *, call: CallContext = INJECTED
) -> Notice:
    """POST ``{"event": …, "data": …}`` as JSON; a lost answer is settled by sending the same bytes and key
    again.

    The declared ``key_ttl`` is 24 hours, what most providers promise. Set another by policy for a receiver
    that forgets sooner, and ``replay_policy: ASK`` for one that ignores the key.

    Args:
        url: the receiver; an empty text stands for ``PERDURE_NOTIFY_URL``, to which ``PERDURE_NOTIFY_TOKEN``
            is sent.
        event: a name such as ``report.ready``; with ``url`` it says which effect this is.
        data: anything JSON.
        timeout_seconds: of each connect, read and write.

    Raises:
        ToolFailed: nothing happened: no connection was made, or the receiver refused.
        OutcomeUnknown: 409, 408, 5xx, or a refusal after an attempt whose answer was lost.
    """
    import httpx2

    from perdure.toolbox._web import USER_AGENT, tls_context

    address, headers = _target(url)
    headers |= {
        "Content-Type": "application/json",
        "Idempotency-Key": call.idempotency_key,
        "User-Agent": USER_AGENT,
    }
    body = body_bytes(event, data)
    try:
        async with (
            httpx2.AsyncClient(verify=tls_context(), timeout=timeout_seconds, follow_redirects=False) as client,
            client.stream("POST", address, content=body, headers=headers) as response,
        ):
            _judge(response.status_code, call)
            return {"status": response.status_code, "response": await _beginning(response)}
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as problem:
        raise refused(call, f"no connection to the receiver: {problem}", retry=True) from problem
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as problem:
        raise refused(call, f"not a URL to POST to: {problem}", retry=False) from problem
