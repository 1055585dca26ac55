"""Which sources a text cites: the URLs in it, in the one form in which they are compared (R035)."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any, cast

_URL = re.compile(r"https?://[^\s<>\"'`|\\^{}\[\]]+", re.IGNORECASE)
_AFTER_A_URL = ".,;:!?)*_"
PROSE_ENDINGS = frozenset({".md", ".markdown", ".txt", ".html", ".htm", ".rst", ".tex"})
_OWN_FILES = frozenset({"transcript.md", "run.log"})
"""What the engine itself writes of a run: it names every URL, and proves nothing."""


def is_prose(path: str) -> bool:
    """Return whether a file is one in which sources are looked for: a text, by its name, and not the engine's own."""
    name = path.rpartition("/")[2]
    stem, dot, ending = name.rpartition(".")
    return bool(stem) and (dot + ending).casefold() in PROSE_ENDINGS and name not in _OWN_FILES


def urls_in(text: str) -> set[str]:
    """Return the http and https URLs of a text as they are compared: no fragment, no last slash, host in lower case."""
    return {_comparable(match.group()) for match in _URL.finditer(html.unescape(text))}


def urls_fetched(receipt: Any) -> set[str]:
    """Return the URLs that a receipt says were fetched: what stands under ``url`` or ``final_url``, however deep.

    A page that was read is full of links to pages that were not; those stand elsewhere in it.
    """
    if isinstance(receipt, dict):
        given = cast("dict[str, Any]", receipt)
        named = (given[key] for key in ("url", "final_url") if isinstance(given.get(key), str))
        return {url for text in named for url in urls_in(text)}.union(*map(urls_fetched, given.values()))
    if isinstance(receipt, list):
        return set[str]().union(*map(urls_fetched, cast("Sequence[Any]", receipt)))
    return set()


def _comparable(text: str) -> str:
    whole, _, _ = text.rstrip(_AFTER_A_URL).partition("#")
    scheme, _, rest = whole.partition("://")
    place, question, query = rest.partition("?")
    host, slash, path = place.partition("/")
    return f"{scheme.casefold()}://{host.casefold()}{(slash + path).rstrip('/')}{question}{query}"
