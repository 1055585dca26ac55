"""What tests of secrets share: a provider that remembers, and a ledger with its own environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perdure import Engine, tool
from tests.integration.engine_support import FAST


class Provider:
    """What left the process, as it left."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    @property
    def text(self) -> str:
        """All that was received, as one text."""
        return json.dumps(self.got, default=str)


def open_here(folder: Path, environ: dict[str, str] | None = None, **options: Any) -> Engine:
    return Engine(
        f"sqlite:///{folder}/runtime_state.db", state_dir=folder, tuning=FAST, environ=environ or {}, **options
    )


def tools_of(provider: Provider) -> Any:
    @tool(side_effect_class="external")
    def deliver(parcel: Any, note: str = "") -> Any:
        provider.got.append([parcel, note])
        return {"echo": parcel, "note": note}

    return deliver
