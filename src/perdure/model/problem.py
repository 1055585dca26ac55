"""One thing that is wrong with a file or an argument, and where it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SUGGESTED = re.compile(r"did you mean '([^']*)'\?")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong; prints as one line, ``file:line:col: text``.

    Args:
        file: where it stands; empty where it stands in no file.
        line, col: counted from 1; line 0 means the file as a whole.
        code: stable code of the kind of problem, where there is one.
    """

    file: str
    line: int
    col: int
    text: str
    code: str = ""

    def __str__(self) -> str:
        text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in self.text)
        said = f"{self.code} {text}" if self.code else text
        return f"{self.where}: {said}" if self.file else said

    @property
    def where(self) -> str:
        """The place as editors understand it: ``file:line:col``, or the file alone."""
        return f"{self.file}:{self.line}:{self.col}" if self.line else self.file

    def as_document(self, code: str) -> dict[str, str | int | None]:
        """Return it as one of the ``errors`` of a ``perdure.error/v1`` document.

        Args:
            code: of the error that it is part of, for a problem that has none of its own.
        """
        near = _SUGGESTED.search(self.text)
        return {
            "file": self.file or None,
            "line": self.line or None,
            "column": self.col or None,
            "code": self.code or code,
            "message": self.text,
            "suggestion": near[1] if near else None,
        }


def did_you_mean(word: str) -> str:
    """Return what is added to the text of a problem where a known word is near; its document gives it by itself."""
    return f"; did you mean {word!r}?"
