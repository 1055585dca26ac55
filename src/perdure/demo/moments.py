"""The worst moments of the job: something is happening outside, or has happened, and nothing here knows it yet."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class Moment:
    """When a life is killed: a call was started, and no receipt of it can exist.

    Args:
        name: its word for ``--kill-at``.
        tool: whose call loses its outcome.
        server: the server that has done what it was asked for and holds its reply back; None where it is enough that
            the call is under way.
        receipts_first: how many calls of the tool have their receipts before.
        words: what has happened, for the person who watches.
    """

    name: str
    tool: str
    server: str | None
    receipts_first: int
    words: str


MOMENTS = (
    Moment("crawl", "fetch", None, 8, "in the middle of the crawl, with pages on their way"),
    Moment("upload", "upload", "s3", 0, "after the server stored the upload, before its receipt was written"),
    Moment("mail", "send_mail", "mail", 0, "after the server accepted the mail, before its receipt was written"),
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
