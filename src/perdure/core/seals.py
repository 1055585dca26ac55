"""The chain of hashes over settled calls: what an entry covers, and which entry may follow another of the same call.

An entry covers hashes, never bodies, so that a receipt whose body was removed to save room still proves to be the one
that was stored.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from perdure.core.codec import sha256_hex

PAYLOAD_MARK = "sha256:"
PRUNED = " pruned"
"""Stands behind the hash of a body that was removed."""
_NOTHING = "null"


@dataclass(frozen=True, slots=True)
class Settled:
    """What is sealed of a settled call, in the order in which it is hashed."""

    tool_call_id: str
    run_id: str
    tool_namespace: str
    tool_name: str
    side_effect_class: str
    normalized_args_hash: str
    idempotency_key: str
    status: str
    attempt: int
    request_ref: str | None
    response_ref: str | None
    external_correlation_id: str | None
    same_as: str | None
    error_code: str | None
    started_at: str | None
    finished_at: str | None

    @property
    def receipt_sha256(self) -> str | None:
        """The hash of the stored receipt, wherever its body stands."""
        return content_sha256(self.response_ref)

    def sha256(self) -> str:
        """Return the hash of the row."""
        parts = (
            self.tool_call_id,
            self.run_id,
            self.tool_namespace,
            self.tool_name,
            self.side_effect_class,
            self.normalized_args_hash,
            self.idempotency_key,
            self.status,
            str(self.attempt),
            content_sha256(self.request_ref),
            self.receipt_sha256,
            self.external_correlation_id,
            self.same_as,
            self.error_code,
            self.started_at,
            self.finished_at,
        )
        return sha256_hex(*(b"-" if part is None else b"+" + _bytes(part) for part in parts))


def _bytes(part: object) -> bytes:
    # A row that somebody edited may hold anything; it must be found, not be a reason to stop.
    return str(part).encode("utf-8", "surrogatepass")


def content_sha256(kept: str | None) -> str | None:
    """Return the hash of what a ``…_ref`` column stands for: a text, or the mark of one that stands elsewhere."""
    if kept is None:
        return None
    text = str(kept)
    if text.startswith(PAYLOAD_MARK):
        return text[len(PAYLOAD_MARK) :].removesuffix(PRUNED)
    return hashlib.sha256(_bytes(text)).hexdigest()


def first_link(ledger_id: str) -> str:
    """Return what stands before the first entry of a ledger."""
    return sha256_hex(b"perdure seals", ledger_id.encode("utf-8"))


def link(before: str, tool_call_id: str, sealed_at: str, row_sha256: str) -> str:
    """Return the chain's hash after one more entry."""
    parts = (before, tool_call_id, sealed_at, row_sha256)
    return sha256_hex(*map(_bytes, parts))


def may_follow(status: str, receipt_sha256: str | None, next_status: str) -> bool:
    """Return whether a later entry of the same call tells of a legal move.

    A failure may be reopened by a resume, and then end in any way. A person who said that a call happened and left the
    value out may add it later. Nothing else settled moves.
    """
    if status == "failed":
        return True
    return status == next_status == "succeeded" and receipt_sha256 == content_sha256(_NOTHING)
