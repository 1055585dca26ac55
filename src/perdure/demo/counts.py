"""The judge: what the servers received, read from their own files and from nothing of the run's."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.policy import default
from pathlib import Path

from perdure.demo.story import READABLE_PAGES
from perdure.demo.world import World
from perdure.demo.world.tally import is_upload

# The site's own count leaves out the page it answers "/" with.
_STORIES = READABLE_PAGES - 1


@dataclass(frozen=True, slots=True)
class Counts:
    """What arrived; a report file is told from another by the SHA-256 of its bytes.

    Args:
        reports: SHA-256 of each different PDF that was stored or came attached to a mail.
        page_requests: all requests for pages, also those for what is missing or failed.
        refusals: how many of them were answered with each status from 400 up.
        private: requests for the page that robots.txt keeps for itself.
    """

    reports: frozenset[str]
    uploads: int
    mails: int
    notices: int
    pages: int
    page_requests: int
    refusals: tuple[tuple[int, int], ...]
    private: int


def count(world: World) -> Counts:
    """Read the servers' files."""
    told = world.counts()
    stored = {str(line["sha256"]) for line in world.events("s3") if is_upload(line)}
    statuses = [int(str(line["status"])) for line in world.events("site")]
    return Counts(
        reports=frozenset(stored | set(_attached(world))),
        uploads=told["uploads"],
        mails=told["mails"],
        notices=told["notices"],
        pages=told["pages"],
        page_requests=told["page_requests"],
        refusals=tuple(sorted(Counter(status for status in statuses if status >= 400).items())),
        private=told["private"],
    )


def _attached(world: World) -> Iterator[str]:
    for line in world.events("mail"):
        raw = (world.folder / "mail" / str(line["file"])).read_bytes()
        for part in message_from_bytes(raw, policy=default).iter_attachments():
            yield hashlib.sha256(part.get_content()).hexdigest()


def problems(counts: Counts, pdf: Path) -> list[str]:
    """Return what is not as it must be; an empty list means that everything happened once.

    Args:
        pdf: the report in the run's workspace, which must be the one that was sent.
    """
    once = {
        "report files": len(counts.reports),
        "uploads": counts.uploads,
        "mails": counts.mails,
        "notices": counts.notices,
    }
    found = [f"{what}: {number}, not 1" for what, number in once.items() if number != 1]
    if counts.pages != _STORIES:
        found.append(f"pages: {counts.pages} were served, not {_STORIES}")
    if counts.private:
        found.append(f"the page that robots.txt keeps was asked for {counts.private} times")
    if not pdf.is_file() or hashlib.sha256(pdf.read_bytes()).hexdigest() not in counts.reports:
        found.append("the PDF in the workspace is not the one that was sent")
    return found


def table(counts: Counts) -> list[str]:
    """Return the counts as lines of text."""
    shas = ", ".join(sorted(sha[:16] + "…" for sha in counts.reports)) or "none"
    refused = ", ".join(f"{number} answered {status}" for status, number in counts.refusals) or "none refused"
    rows = (
        ("report files", len(counts.reports), f"different PDFs stored or attached: sha256 {shas}"),
        ("uploads", counts.uploads, "objects the S3 server accepted"),
        ("mails", counts.mails, "mails the SMTP server accepted"),
        ("notices", counts.notices, "notices the webhook receiver accepted"),
        ("pages", counts.pages, f"different stories the web site served; {counts.page_requests} requests, {refused}"),
    )
    return [f"  {name:<13}{number:>3}   {words}" for name, number, words in rows]
