"""Large texts: kept once each in the same file and the same transaction, under their hash."""

from __future__ import annotations

import hashlib

from perdure.core.seals import PAYLOAD_MARK, PRUNED
from perdure.model.errors import BodyPruned, LedgerDamaged, StoreError
from perdure.store.statements import Statements

INLINE_BYTES = 16 * 1024
LARGEST_BYTES = 64 * 1024 * 1024
_TOLD_PRUNED = '{"pruned": true}'


class Payloads:
    """The ``payloads`` table behind the columns whose names end in ``_ref``."""

    def __init__(self, statements: Statements) -> None:
        self._do = statements

    def keep(self, text: str) -> str:
        """Return what stands in the row: the text itself, or its hash where it is over ``INLINE_BYTES``."""
        if len(text) <= INLINE_BYTES // 4:
            return text
        data = text.encode("utf-8")
        if len(data) <= INLINE_BYTES:
            return text
        data = self._do.vault.hide(text).encode("utf-8")
        if len(data) > LARGEST_BYTES:
            raise StoreError(
                f"a payload of {len(data)} bytes is over the {LARGEST_BYTES} bytes that a row may hold",
                next_command="write large results to a file in run.workspace and return its path",
            )
        digest = hashlib.sha256(data).hexdigest()
        self._do.write("add_payload", sha256=digest, bytes=data)
        return PAYLOAD_MARK + digest

    def load(self, kept: str | None, *, told: bool = False) -> str | None:
        """Return the text that a row stands for.

        Args:
            kept: what stands in the row.
            told: for people; marks stand where secrets were.

        Raises:
            LedgerDamaged: it is missing, or is not what was stored.
        """
        if kept is None or not kept.startswith(PAYLOAD_MARK):
            return kept
        digest = kept[len(PAYLOAD_MARK) :]
        if digest.endswith(PRUNED):
            if told:
                return _TOLD_PRUNED
            raise BodyPruned("what was stored of this call has been removed: its hash and outcome are left")
        row = self._do.one("get_payload", sha256=digest)
        if row is None or hashlib.sha256(row[0]).hexdigest() != digest:
            raise LedgerDamaged(f"the payload {digest[:12]}… is missing or damaged")
        text = bytes(row[0]).decode("utf-8")
        return self._do.vault.told(text) if told else self._do.vault.reveal(text)
