"""From the global flags to an open ledger."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.model.errors import NotFound

if TYPE_CHECKING:
    from perdure.config.settings import Settings
    from perdure.engine import Engine


class NoLedger(NotFound):
    """Nothing was ever run here."""


def settings_of(options: argparse.Namespace) -> Settings:
    """Return where things are.

    Raises:
        StoreError, UsageError: a flag or a variable names no ledger that can be opened.
    """
    from perdure.config.settings import resolve

    return resolve(state_dir=options.state_dir, store=options.store, policies=options.policy)


def flags_of(options: argparse.Namespace) -> str:
    """Return the global flags that a printed command needs to reach the same ledger under the same policy."""
    given = [("--state-dir", getattr(options, "state_dir", None)), ("--store", getattr(options, "store", None))]
    given += [("--policy", path) for path in getattr(options, "policy", [])]
    return " ".join(f"{flag} {shlex.quote(value)}" for flag, value in given if value is not None)


def ledger_of(options: argparse.Namespace) -> Path:
    """Return the ledger's file, which must be there.

    Raises:
        NotFound: there is no ledger yet.
    """
    database = settings_of(options).database
    if not database.exists():
        raise NoLedger(
            f"there is no ledger at {database.absolute()}",
            next_command="perdure run JOB   # or name the folder of your ledger: --state-dir DIR",
        )
    return database


@contextmanager
def engine_of(options: argparse.Namespace, *, create: bool = False) -> Generator[Engine]:
    """Open the ledger; only commands that start something make a new one.

    Raises:
        NotFound: there is no ledger yet.
        StoreError, PolicyError, UsageError: it cannot be used.
    """
    from perdure.engine import Engine

    settings = settings_of(options)
    if not create:
        ledger_of(options)
    with Engine(
        settings.store_url,
        policies=settings.policy_paths(),
        state_dir=settings.state_dir,
        command_flags=flags_of(options),
        entrypoint="cli",
    ) as engine:
        yield engine
