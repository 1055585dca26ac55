"""What stands between a text and the rows: secrets leave it before it is stored, and come back only when it is sent.

The key lies beside the database in a file of its own, made when the first secret is hidden: a copy of the database, a
backup or a dump gives nothing away. The rows keep marks (``core.marks``).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from perdure.core.json_places import is_json
from perdure.core.marks import MarkBroken, blind_mark, has_mark, shortened
from perdure.core.redact import Redactor, has_telling_name
from perdure.model.errors import SecretUnavailable, StoreError, UsageError
from perdure.store.cipher import KEY_BYTES, Cipher
from perdure.store.modes import KEY_NAME, make_private, open_private, sync_folder

_LAST = {"{": "}", "[": "]", '"': '"'}
_JSON: dict[str, Callable[[str], str]] = {
    "{": lambda text: json.dumps({"unreadable": text}, ensure_ascii=False),
    "[": lambda text: json.dumps([text], ensure_ascii=False),
    '"': lambda text: json.dumps(text, ensure_ascii=False),
}
"""By what a JSON text begins with, what stands for one that cannot be read because its key is gone."""


class Vault:
    """Seals what is written to a ledger and opens what is read from it.

    Args:
        path: the file of the key; ``None`` keeps one in memory only.
        redactor: what is looked for.
        new_key: where a key comes from.
    """

    def __init__(
        self, path: Path | None, redactor: Redactor, new_key: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        self.path = path
        self.redactor = redactor
        self._new_key = new_key
        self._key: Cipher | None = None
        self.expected: str | None = None
        """The name of the key by which the ledger's secrets were hidden, as the ledger knows it."""
        self.unwitnessed: str | None = None
        """The name of a key that is in use and that the ledger does not know yet."""

    def hide(self, text: str) -> str:
        """Return a text as it may be stored."""
        return self.redactor.redact(text, lambda kind, secret: self._made().hide(kind, secret))

    def reveal(self, text: str) -> str:
        """Return a stored text as it was.

        Raises:
            SecretUnavailable: the key is gone, or is not the one it was hidden with.
        """
        if not has_mark(text):
            return text
        key = self._key or self._read()
        if key is None:
            raise self._gone()
        try:
            return key.reveal(text)
        except MarkBroken as problem:
            raise SecretUnavailable(
                f"a stored secret cannot be read: {problem}; {self.path} is another", **self._advice()
            ) from None

    def shown(self, text: str, *, page: bool = False) -> str:
        """Return a text for people: secrets that still stand in it become marks, and marks carry nothing.

        Args:
            page: it has been put together of texts of which each was looked at; a name tells of its own line only.
        """
        return self.redactor.redact(shortened(text), self._mark, by_line=page)

    def told(self, text: str) -> str:
        """Return a stored text for people; what was JSON is JSON, whatever an older version has made of it."""
        short = shortened(text)
        if short is text or text[:1] not in _JSON or is_json(short):
            return short
        try:
            return self.shown(self.reveal(text))
        except SecretUnavailable:
            wrap = _JSON[text[0]] if text[-1:] == _LAST[text[0]] else str
            return wrap(short)

    def is_gone(self) -> bool:
        """Return whether secrets were hidden with a key that is not there any more."""
        return self.expected is not None and self._key is None and self._read() is None

    def is_another(self) -> bool:
        """Return whether the key that is there is not the one by which the ledger's first secret was hidden."""
        found = self._key or self._read()
        return None not in (found, self.expected) and found is not None and found.name != self.expected

    def ready(self) -> None:
        """Have the key at hand before a run goes on: what comes back from a call must be stored.

        Raises:
            SecretUnavailable: it is gone. A new one is never made in its place.
        """
        if self.expected is not None:
            self._made()

    def witness(self) -> None:
        """Take it that the ledger knows from now on which key is in use."""
        self.expected, self.unwitnessed = self.expected or self.unwitnessed, None

    def look_for_witness(self, known: str | None) -> None:
        """Hear which key the ledger knows; where it knows none, and one lies there, that one is to be told to it."""
        self.expected = known
        if known is None and self.path is not None and self.path.exists():
            with suppress(StoreError):
                found = self._found()
                self.unwitnessed = found.name if found is not None else None

    def digest(self, data: bytes) -> str:
        """Return the SHA-256 of a JSON text in hex, keyed where a name tells of a secret that could be guessed."""
        if has_telling_name(data):
            return self._made().digest(data)
        return hashlib.sha256(len(data).to_bytes(8, "big") + data).hexdigest()

    def hashed_scope(self, scope: str | None) -> str | None:
        """Return what of an effect scope goes into an idempotency key: a keyed hash where a secret could be guessed."""
        return (
            self.digest(scope.encode("utf-8"))
            if scope is not None and has_telling_name(scope.encode("utf-8"))
            else scope
        )

    def refuse_in_name(self, what: str, text: str) -> None:
        """Refuse a secret in a name: names are looked up, so that they are stored as they are.

        Raises:
            UsageError: one stands in it.
        """
        found = [span.kind for span in self.redactor.spans(text) if not span.kind.startswith("env.")]
        if found:
            raise UsageError(
                f"the {what} has what looks like a secret in it ({found[0]}), and names are stored as they are",
                next_command="take it out of the name, and hand it over as an argument",
            )

    def _made(self) -> Cipher:
        if self._key is None:
            found = self._found()
            if found is None and self.expected is not None:
                raise self._gone()
            self._key = found or self._make()
            if self.expected is None and self.path is not None:
                self.unwitnessed = self._key.name
        return self._key

    def _mark(self, kind: str, secret: str) -> str:
        try:
            return self._made().mark(kind, secret)
        except SecretUnavailable:
            return blind_mark(kind, secret)

    def _gone(self) -> SecretUnavailable:
        return SecretUnavailable(f"the key of this ledger's secrets is gone: {self._where()}", **self._advice())

    def _where(self) -> str:
        return "it was kept in memory" if self.path is None else f"there is no {self.path}"

    def _advice(self) -> dict[str, str]:
        return {"next_command": f"put {self.path} back, as it was when the run began"}

    def _read(self) -> Cipher | None:
        if self.path is None:
            return None
        try:
            with open_private(self.path, os.O_RDONLY) as file:
                found = file.read(KEY_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise StoreError(f"the key {self.path} cannot be read: {problem}") from problem
        if len(found) != KEY_BYTES:
            raise StoreError(f"{self.path} is no key: it has {len(found)} bytes, not {KEY_BYTES}")
        return Cipher(found)

    def _found(self) -> Cipher | None:
        """Return the key that is there, once its name is on the disk.

        Who made it may have been killed before that, or may be about to do it: no row may be hidden with a key that a
        loss of power could still take away.
        """
        found = self._read()
        if found is not None and self.path is not None:
            sync_folder(self.path.parent)
        return found

    def _make(self) -> Cipher:
        """Make a key; of two processes that make one at the same time the first wins, and both use its key."""
        fresh = self._new_key(KEY_BYTES)
        if self.path is None:
            return Cipher(fresh)
        draft = self.path.with_name(f"{KEY_NAME}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            make_private(draft, fresh)
            with suppress(FileExistsError):
                os.link(draft, self.path)
            draft.unlink()
            sync_folder(self.path.parent)
        except OSError as problem:
            raise StoreError(f"the key {self.path} cannot be made: {problem}") from problem
        found = self._read()
        if found is None:
            raise StoreError(f"the key {self.path} was removed while it was made")
        return found
