"""What a mark encloses: AES-SIV (RFC 5297) of the package ``cryptography``, loaded when the first secret is met.

It is deterministic and authenticated. Equal secrets of one kind are sealed to equal bytes, which is wanted here, and
bytes that were changed, moved to another kind or sealed with another key do not open.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import cached_property
from typing import TYPE_CHECKING

from perdure.core.marks import MarkBroken, opened, shortened, written

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

KEY_BYTES = 32
_SIV_KEY_BYTES = 64
_DIGEST_KEY_BYTES = 32


class Cipher:
    """Hides secrets under one key and gives them back.

    Args:
        secret: ``KEY_BYTES`` random bytes, of which every key in use is derived.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @cached_property
    def name(self) -> str:
        """Tell this key from others, without giving it away."""
        return hashlib.sha256(b"perdure key name" + self._secret).hexdigest()[:32]

    def hide(self, kind: str, secret: str) -> str:
        """Return the mark that stands for a secret and carries it enciphered."""
        data = secret.encode("utf-8", "surrogatepass")
        return written(kind, self._siv.encrypt(data, [kind.encode("ascii")]))

    def mark(self, kind: str, secret: str) -> str:
        """Return the short mark of a secret, as people see it."""
        return shortened(self.hide(kind, secret))

    def reveal(self, text: str) -> str:
        """Return a text with the secrets in place of their marks.

        Raises:
            MarkBroken: a mark was not made with this key, or carries nothing.
        """
        return opened(text, self._open)

    def digest(self, data: bytes) -> str:
        """Return a keyed hash in hex."""
        return hmac.new(self._digest_key, data, hashlib.sha256).hexdigest()

    def _open(self, kind: str, sealed: bytes) -> str:
        from cryptography.exceptions import InvalidTag

        try:
            data = self._siv.decrypt(sealed, [kind.encode("ascii")])
        except InvalidTag:
            raise MarkBroken(f"the mark of {kind} was made with another key, or is damaged") from None
        return data.decode("utf-8", "surrogatepass")

    @cached_property
    def _siv(self) -> AESSIV:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        return AESSIV(self._derived(b"perdure marks", _SIV_KEY_BYTES))

    @cached_property
    def _digest_key(self) -> bytes:
        return self._derived(b"perdure digests", _DIGEST_KEY_BYTES)

    def _derived(self, use: bytes, length_bytes: int) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(algorithm=SHA256(), length=length_bytes, salt=None, info=use).derive(self._secret)
