"""Where declared secrets come from, and what every way out of this process must not show.

A declared secret is a name with a source: ``env:NAME``, ``file:PATH`` or ``cmd:COMMAND``. A command is run when a
request is about to leave and not before; what was looked up is known to the redactor from then on.
"""

from __future__ import annotations

import logging
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard, cast

from perdure.core.marks import blind_mark, shortened
from perdure.core.redact import Redactor, tells_of_secret
from perdure.model.errors import SecretUnavailable, UsageError
from perdure.model.secret import Secret
from perdure.store.vault import Vault

SOURCES = ("env", "file", "cmd")
COMMAND_SECONDS = 30.0
SHORTEST_FROM_ENVIRONMENT = 8
REDACTION_VARIABLE = "PERDURE_REDACTION"
KEY_VARIABLE = "PERDURE_KEY_FILE"

PROCESS_REDACTOR = Redactor()
"""What is looked for on the ways out of this process that belong to no ledger: stderr, and the log."""


def ledger_redactor(environ: Mapping[str, str], setting: str | None) -> Redactor:
    """Return what is looked for in the texts of one ledger.

    Args:
        environ: values of variables with telling names are looked for too.
        setting: ``strict`` or ``off``; from ``PERDURE_REDACTION`` when left out.

    Raises:
        UsageError: the setting is neither.
    """
    chosen = setting or environ.get(REDACTION_VARIABLE) or "strict"
    if chosen not in ("strict", "off"):
        raise UsageError(f"redaction is {chosen!r}; it is strict or off", next_command=f"unset {REDACTION_VARIABLE}")
    redactor = Redactor() if chosen == "strict" else Redactor(())
    for name, value in telling_variables(environ):
        redactor.know(f"env.{name}", value)
        PROCESS_REDACTOR.know(f"env.{name}", value)
    _watch_log()
    return redactor


def key_path(environ: Mapping[str, str]) -> Path | None:
    """Return where the key of a ledger's secrets is kept, where it is not beside the ledger."""
    chosen = environ.get(KEY_VARIABLE)
    return Path(chosen) if chosen else None


def tell_of_lost_key(vault: Vault) -> None:
    """Log it once, when a ledger is opened, that the key by which its secrets were hidden is gone."""
    if vault.is_gone():
        logging.getLogger("perdure").warning(
            "the key of this ledger's secrets is gone: there is no %s, and no run goes on. Put it back, and look: "
            "perdure doctor",
            vault.path,
        )


def telling_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables whose names tell of a secret and whose values are long enough to be looked for."""
    for name, value in environ.items():
        if tells_of_secret(name) and len(value) >= SHORTEST_FROM_ENVIRONMENT and not _is_place(value):
            yield name, value


def _is_place(value: str) -> bool:
    return value.startswith(("/", "./", "~/")) or value.isdecimal()


def said(text: str) -> str:
    """Return a text as it may be shown on a way out that belongs to no ledger."""
    return PROCESS_REDACTOR.redact(shortened(text), blind_mark, by_line=True)


class Sources:
    """Looks declared secrets up.

    Args:
        declared: the source of each name.
        environ: where ``env:`` sources are read.
        redactor: is told each value that was looked up.
        folder: what relative paths of ``file:`` sources are relative to.
    """

    def __init__(
        self, declared: Mapping[str, str], environ: Mapping[str, str], redactor: Redactor, folder: Path | None = None
    ) -> None:
        self._declared = dict(declared)
        self._environ = environ
        self._redactor = redactor
        self._folder = folder or Path()
        for source in declared.values():
            check_source(source)

    def with_declared(self, declared: Mapping[str, str], folder: Path | None) -> Sources:
        """Return sources with those of a job before these; what can be looked up without a command is known at once."""
        both = Sources({**self._declared, **declared}, self._environ, self._redactor, folder)
        both.know_at_once()
        return both

    def know_at_once(self) -> None:
        """Tell the redactor each value that can be had without running a command."""
        for name, source in self._declared.items():
            if not source.startswith("cmd:"):
                value = self._read(source)
                if value:
                    self._know(name, value)

    def value(self, name: str) -> str:
        """Return the value of a secret.

        Raises:
            SecretUnavailable: its source has none.
        """
        source = self._declared.get(name, f"env:{name}")
        value = self._read(source)
        if not value:
            raise SecretUnavailable(
                f"the secret {name} is not there: {source} gives nothing",
                next_command=f"set it ({source}), then: perdure resume @last",
            )
        self._know(name, value)
        return value

    def _know(self, name: str, value: str) -> None:
        self._redactor.know(f"secret.{name}", value)
        PROCESS_REDACTOR.know(f"secret.{name}", value)

    def _read(self, source: str) -> str | None:
        kind, _, rest = source.partition(":")
        if kind == "env":
            return self._environ.get(rest)
        try:
            if kind == "file":
                return (self._folder / Path(rest).expanduser()).read_text(encoding="utf-8").rstrip("\r\n")
            done = subprocess.run(
                shlex.split(rest), capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True
            )
        except (OSError, UnicodeDecodeError, subprocess.SubprocessError):
            return None
        return done.stdout.rstrip("\r\n")

    def fill(self, value: Any) -> Any:
        """Return a value with the secrets in place of their names.

        Raises:
            SecretUnavailable: the source of one has none.
        """
        if isinstance(value, Secret):
            return self.value(value.name)
        if not has_secret(value):
            return value
        if _is_mapping(value):
            return {key: self.fill(item) for key, item in value.items()}
        filled = [self.fill(item) for item in value]
        return tuple(filled) if isinstance(value, tuple) else filled


def has_secret(value: Any) -> bool:
    """Return whether a secret stands in a value by its name."""
    if isinstance(value, Secret):
        return True
    if _is_mapping(value):
        return any(map(has_secret, value.values()))
    return isinstance(value, list | tuple) and any(map(has_secret, cast("list[Any]", value)))


def _is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def check_source(source: str) -> None:
    """Refuse a source of another form.

    Raises:
        UsageError: it is none of ``env:NAME``, ``file:PATH``, ``cmd:COMMAND``.
    """
    kind, colon, rest = source.partition(":")
    if kind not in SOURCES or not colon or not rest:
        raise UsageError(f"{said(source)!r} is no source of a secret; write env:NAME, file:PATH or cmd:COMMAND")


class _LogFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Put marks in place of secrets, in the message and in the traceback, before any handler sees them."""
        told = said(record.getMessage())
        record.msg, record.args = told, ()
        if record.exc_info:
            record.exc_text = said(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return True


_FILTER = _LogFilter()


def _watch_log() -> None:
    logger = logging.getLogger("perdure")
    if _FILTER not in logger.filters:
        logger.addFilter(_FILTER)
