"""Where things are: flag over environment over default (contract, "Where things are")."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure.model.errors import StoreError, UsageError

HOME_VARIABLE = "PERDURE_HOME"
STORE_VARIABLE = "PERDURE_STORE"
POLICIES_VARIABLE = "PERDURE_POLICIES_PATH"
DEFAULT_STATE_DIR = ".perdure"
DATABASE_NAME = "runtime_state.db"
_SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Settings:
    """Resolved settings.

    Args:
        state_dir: holds workspaces, and the database unless ``store_url`` says otherwise.
        store_url: ``sqlite:///FILE``.
        database: the file that ``store_url`` means.
        policies: overlays in the order of loading, those of flags last; a job's own come before all of them.
    """

    state_dir: Path
    store_url: str
    database: Path
    policies: tuple[Path, ...] = ()

    def policy_paths(self, of_job: Sequence[Path] = ()) -> tuple[Path, ...]:
        """Return all overlays in the order of loading: job file, environment, flags."""
        return (*of_job, *self.policies)


def resolve(
    *,
    state_dir: str | None = None,
    store: str | None = None,
    policies: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Resolve the settings of this process.

    Args:
        state_dir: the flag ``--state-dir``.
        store: the flag ``--store``.
        policies: every ``--policy``, in order.
        environ: the environment; ``os.environ`` when left out. An empty variable counts as unset.

    Raises:
        StoreError: the store is of a kind that this version does not have.
        UsageError: the store is no URL that means a file, or a path is empty.
    """
    env = os.environ if environ is None else environ
    folder = _path("--state-dir", state_dir if state_dir is not None else env.get(HOME_VARIABLE) or DEFAULT_STATE_DIR)
    url = store if store is not None else env.get(STORE_VARIABLE) or f"{_SQLITE}{folder / DATABASE_NAME}"
    listed = [entry for entry in env.get(POLICIES_VARIABLE, "").split(os.pathsep) if entry]
    return Settings(
        state_dir=folder,
        store_url=url,
        database=database_of(url),
        policies=tuple(_path("a policy", entry) for entry in (*listed, *policies)),
    )


def _path(what: str, text: str) -> Path:
    if not text or "\0" in text:
        raise UsageError(f"{what} is no usable path: {text!r}")
    return Path(text)


def database_of(url: str) -> Path:
    """Return the database file of a store URL.

    Args:
        url: ``sqlite:///relative.db`` or ``sqlite:////absolute.db``.

    Raises:
        StoreError: it names PostgreSQL, which this version does not have.
        UsageError: it is no such URL.
    """
    scheme, separator, _ = url.partition("://")
    if scheme in ("postgresql", "postgres") or scheme.startswith("postgresql+"):
        raise StoreError(
            "this version keeps its ledger in SQLite only; a PostgreSQL store cannot be opened",
            safe="Nothing was opened and nothing was started.",
            next_command=f"leave --store and {STORE_VARIABLE} out, or use {_SQLITE}FILE",
        )
    path = url.removeprefix(_SQLITE)
    if path == ":memory:":
        raise UsageError(f"{url} is forgotten when the process ends: write {_SQLITE}FILE")
    if not separator or not url.startswith(_SQLITE) or not path or any(char in path for char in "?#\0"):
        raise UsageError(f"{_hidden(url)!r} is no store: write {_SQLITE}FILE")
    return Path(path)


def _hidden(url: str) -> str:
    """Return a URL without what may be a password."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}…@{rest.rpartition('@')[2]}" if "@" in rest else url
