"""A secret by its name: what a program hands to a tool instead of the value, which only the dispatch looks up."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from perdure.model.errors import UsageError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,99}\Z")


class Secret:
    """Stands for a secret wherever a call's arguments are written down; the tool itself gets the value.

    Identity is the name: a password that was changed does not make another call of it.

    Args:
        name: letters, digits, ``_ . -``; where the value comes from is declared elsewhere, and the environment variable
            of this name when it is not.

    Raises:
        ValueError: the name has another form.
    """

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str) -> None:
        if not _NAME.match(name):
            raise ValueError(f"{name!r} is no name of a secret: letters, digits, '_', '.' and '-', at most 100")
        object.__setattr__(self, "name", name)

    def __setattr__(self, _name: str, _value: object) -> None:
        raise AttributeError("a Secret does not change")

    def __repr__(self) -> str:
        return f"<secret {self.name}>"

    def __str__(self) -> str:
        """Refuse to be part of a text: what a provider would get is this name and not the value.

        Raises:
            UsageError: always; the value is known to the tool only, and a text with it is made there.
        """
        raise self._refused()

    def __add__(self, _other: Any) -> NoReturn:
        """Refuse as ``str`` does."""
        raise self._refused()

    __radd__ = __add__

    def _refused(self) -> UsageError:
        return UsageError(
            f"the secret {self.name} cannot be made part of a text: only the tool gets its value",
            safe="Nothing was sent.",
            next_command=f"hand run.secret({self.name!r}) to the tool as an argument of its own, and put the text "
            'together in the tool: f"Bearer {token}"; repr() of it says its name',
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.name == self.name

    def __hash__(self) -> int:
        return hash((Secret, self.name))

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self.name,)

    def __deepcopy__(self, _memo: object) -> Secret:
        return self
