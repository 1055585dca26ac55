"""Three letters whose receiver knows keys, as its files beside the ledger show; the process may die in the last one."""

import os
from pathlib import Path
from typing import Any

from perdure import CallContext, tool

WORDS = "a long letter " * 400
LIST = ["first", "second", "third"]


@tool(side_effect_class="external", scope=["what"], key_ttl="24h")
def letter(what: str, text: str, *, call: CallContext) -> dict[str, str]:
    """A second letter with the same key is the first one; every other is one more file."""
    path = Path(os.environ["LETTERS_IN"], f"{what}.{call.idempotency_key[:16]}")
    assert text == WORDS, "a letter was changed on its way"
    path.write_text(text)
    if os.environ.get("DIES_IN") == what:
        os._exit(137)
    return {"copy": text[::-1], "what": what}


@tool(side_effect_class="read_only")
def look(what: str) -> str:
    """Something that has no effect."""
    return f"looked at {what}"


def three(run: Any) -> list[str]:
    """Write three letters, with a memo and a look before each."""
    done = []
    for what in LIST:
        text = run.memo(f"words of {what}", str, WORDS)
        look(what)
        done.append(letter(what, text)["what"])
    return done
