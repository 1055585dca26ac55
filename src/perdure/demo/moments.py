"""The worst moments of the job: something has happened outside, and nothing here knows it yet."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class Moment:
    """When a life is killed: a server has done what it was asked for and holds its reply back, so no receipt exists.

    Args:
        name: its word for ``--kill-at``.
        server: whose reply is held back.
        tool: whose call loses its outcome.
        replies_first: how many replies of that server are let through before.
        words: what has happened, for the person who watches.
    """

    name: str
    server: str
    tool: str
    replies_first: int
    words: str


MOMENTS = (
    Moment("crawl", "site", "fetch", 8, "in the middle of the crawl, a page served and its receipt not written"),
    Moment("upload", "s3", "upload", 0, "after the server stored the upload, before its receipt was written"),
    Moment("mail", "mail", "send_mail", 0, "after the server accepted the mail, before its receipt was written"),
)


@dataclass(frozen=True, slots=True)
class Kill:
    """One life's end: at a moment, or at the N-th numbered crash point of its process."""

    moment: Moment | None = None
    point: int | None = None


def kills_of(text: str | None) -> list[Kill]:
    """Return the kills that ``--kill-at`` asks for, one for each life that is to be killed.

    Args:
        text: ``crawl upload mail none``, several apart by commas, or the number of a crash point; all when left out.

    Raises:
        UsageError: it is none of these.
    """
    if text is None:
        return [Kill(moment) for moment in MOMENTS]
    if text == "none":
        return []
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return [Kill(point=int(text))]
    named = {moment.name: moment for moment in MOMENTS}
    names = text.split(",")
    if not set(names) <= named.keys():
        raise UsageError(
            f"--kill-at {text}: write {', '.join(named)}, several of them apart by commas, none, or a number from 1",
            next_command="perdure demo --help",
        )
    return [Kill(moment) for moment in MOMENTS if moment.name in names]
