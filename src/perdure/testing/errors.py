"""What can go wrong with the proofs themselves; that says nothing about a run of the user's."""

from __future__ import annotations

from perdure.model.errors import PerdureError


class SmokeError(PerdureError):
    """The smoke test could not be carried out, which is no verdict about the build."""

    code = "PERDURE-604"
    default_safe = "What it started was stopped. No run of yours was touched."
    default_next = "perdure smoke --folder DIR   # its files stay in DIR, to look at"


class CrashTestError(PerdureError):
    """The crash test could not be carried out, so there is no verdict about the job."""

    code = "PERDURE-605"
    default_safe = "What it started was stopped. No run of yours was touched."
    default_next = "perdure crashtest JOB --folder DIR   # its files stay in DIR, to look at"
