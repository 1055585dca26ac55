"""Marks of secrets: sealed by a key, comparable, and of no use once they are changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure.core.marks import MarkBroken, has_mark
from perdure.store.cipher import Cipher

KEY = Cipher(bytes(range(32)))


@pytest.mark.parametrize("secret", ["4711", "", "ümlaut \ud800", "a" * 5000, "\u2039redacted:x:00\u203a"])
def test_a_secret_comes_back_from_its_mark(secret: str) -> None:
    text = f"before {KEY.hide('named', secret)} behind"
    assert has_mark(text)
    assert KEY.reveal(text) == f"before {secret} behind"


def test_the_scheme_is_aes_siv_under_a_key_of_hkdf() -> None:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    derived = HKDF(SHA256(), 64, None, b"perdure marks").derive(bytes(range(32)))
    sealed = AESSIV(derived).encrypt(b"4711", [b"named"])
    assert KEY.hide("named", "4711").startswith(f"\u2039redacted:named:{sealed[:8].hex()}:")


def test_equal_secrets_have_equal_marks_and_others_have_others() -> None:
    assert KEY.hide("named", "4711") == KEY.hide("named", "4711")
    assert KEY.mark("named", "4711") == KEY.mark("named", "4711")
    assert KEY.mark("named", "4711") != KEY.mark("named", "4712")
    assert KEY.mark("named", "4711") != Cipher(bytes(32)).mark("named", "4711")
    assert "4711" not in KEY.hide("named", "4711")


def test_a_mark_that_was_changed_moved_or_made_with_another_key_does_not_open() -> None:
    mark = KEY.hide("named", "4711")
    tag = mark.split(":")[2]
    other = format(int(tag, 16) ^ 1, "016x")
    for wrong in (mark.replace("named", "jwt"), mark.replace(tag, other), Cipher(bytes(32)).hide("named", "4711")):
        with pytest.raises(MarkBroken):
            KEY.reveal(wrong)
    with pytest.raises(MarkBroken, match="was not kept"):
        KEY.reveal("\u2039redacted:named:0123456789abcdef\u203a")


def test_the_library_of_the_cipher_is_not_loaded_before_a_secret_is_met(tmp_path: Path) -> None:
    program = (
        "import sys, perdure\n"
        "engine = perdure.open(sys.argv[1])\n"
        "engine.run(lambda run: run.memo('x', lambda: 'words'), run_id='a')\n"
        "assert not any(name.startswith('cryptography') for name in sys.modules), 'too early'\n"
        "engine.run(lambda run: run.memo('x', lambda: {'password': 'hunter2'}), run_id='b')\n"
        "assert any(name.startswith('cryptography') for name in sys.modules), 'never'\n"
    )
    argv = [sys.executable, "-c", program, f"sqlite:///{tmp_path}/runtime_state.db"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
