"""``perdure.doctor``: what is wrong with this machine or the ledger, without opening it for writing."""

from __future__ import annotations

import os
from pathlib import Path

from perdure.config.settings import resolve
from perdure.ports.clock import Clock, SystemClock
from perdure.runtime.doctor import Examined, examine


def doctor(url: str | None = None, *, state_dir: str | Path | None = None, clock: Clock | None = None) -> Examined:
    """Look at the machine and at a ledger, whether it is there, whole, older, newer or damaged; nothing is changed.

    Args:
        url: ``sqlite:///PATH``; from ``PERDURE_STORE``, ``PERDURE_HOME`` or ``./.perdure`` when left out.
        state_dir: where the ledger and the workspaces are.
        clock: whose time is looked at; the machine's own when left out.
    """
    settings = resolve(state_dir=None if state_dir is None else str(state_dir), store=url)
    return examine(settings.database, settings.state_dir, clock=clock or SystemClock(), environ=os.environ)
