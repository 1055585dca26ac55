"""How the provider's tests talk to it."""

from typing import Any

from perdure.testing.provider.client import Provider
from perdure.testing.provider.request import request


def keyed(provider: Provider, key: str, body: dict[str, Any], query: str = "") -> tuple[int, bool, Any]:
    """Post with an idempotency key; says too whether the answer is a repeated one."""
    status, headers, answer = request("POST", f"{provider.url}/keyed{query}", body, {"Idempotency-Key": key})
    return status, headers.get("idempotent-replayed") == "true", answer


def events(provider: Provider) -> list[str]:
    return [line["event"] for line in provider.log()]
