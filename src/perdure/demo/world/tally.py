"""What is counted: only lines of the servers' own logs (R014), each judged by words of this module alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

PRIVATE_PATH = "/private.html"
Lines = Sequence[Mapping[str, object]]


def is_upload(line: Mapping[str, object], status: int = 200) -> bool:
    """Say whether a line of the log is an upload that ended with this status."""
    return line["event"] in {"put_object", "complete_upload"} and line["status"] == status


def tally_s3(lines: Lines) -> dict[str, int]:
    """Count what the proxy logged: ``uploads`` (200), ``refused_uploads`` (412), ``lost_uploads`` (502).

    A lost upload is one the store did not answer: it may or may not have it.
    """
    return {
        name: sum(is_upload(line, status) for line in lines)
        for name, status in (("uploads", 200), ("refused_uploads", 412), ("lost_uploads", 502))
    }


def tally_mail(lines: Lines) -> dict[str, int]:
    """Count what the mail server logged: ``mails`` accepted."""
    return {"mails": sum(line["event"] == "mail" for line in lines)}


def tally_site(lines: Lines) -> dict[str, int]:
    """Count what the site logged: ``pages`` (different, answered 200), ``page_requests``, ``private``."""
    served = {line["path"] for line in lines if line["status"] == 200} - {"/", "/robots.txt"}
    asked = [line["path"] for line in lines if line["path"] != "/robots.txt"]
    return {"pages": len(served), "page_requests": len(asked), "private": asked.count(PRIVATE_PATH)}


def tally_webhook(lines: Lines) -> dict[str, int]:
    """Count what the receiver logged: ``notices`` accepted, ``repeated_notices``, ``refused_notices``."""
    events = [line["event"] for line in lines]
    return {
        "notices": events.count("notice"),
        "repeated_notices": events.count("repeat"),
        "refused_notices": events.count("refused") + events.count("in_flight"),
    }


TALLIES: dict[str, Callable[[Lines], dict[str, int]]] = {
    "s3": tally_s3,
    "mail": tally_mail,
    "site": tally_site,
    "webhook": tally_webhook,
}
