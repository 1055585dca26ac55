"""What can go wrong with the demo itself."""

from __future__ import annotations

from perdure.model.errors import PerdureError


class DemoError(PerdureError):
    """The demo could not go on; that says nothing about a run of yours."""

    code = "PERDURE-602"
    exit_code = 1
    default_safe = "Every server that the demo started was stopped. No run of yours was touched."
    default_next = "perdure demo --folder DIR   # its files stay in DIR, to look at"


class DemoUnavailable(DemoError):
    """What the demo needs beyond the base package is not installed."""

    code = "PERDURE-603"
    exit_code = 4
    default_safe = "Nothing was started."
    default_next = "pip install 'perdure[demo]', or in a clone: python3 tasks.py demo"
