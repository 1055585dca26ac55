"""The kinds of provider (create-if-absent, keyed, searchable, plain, a read) over one log.

What they do follows what real providers publish: `If-None-Match: *` answers 412 when the object exists (S3);
an `Idempotency-Key` repeats the stored reply, gives 422 for another body and 409 while the first request is
in flight (draft-ietf-httpapi-idempotency-key-header), and is forgotten after its time to live.
"""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perdure.testing.provider.effect_log import BEGINNING, UNNAMED, EffectLog, Line
from perdure.testing.provider.wire import BadRequest, Reply, Request

DEFAULT_PAGE_SIZE = 100


@dataclass(slots=True)
class Settings:
    """What `POST /control/set` changes; times are seconds of the provider's own clock."""

    key_ttl_seconds: float | None = None
    search_lag_seconds: float = 0.0
    search_miss_next: int = 0
    search_page_size: int = DEFAULT_PAGE_SIZE
    clock_ahead_seconds: float = 0.0


def what_of(request: Request) -> str:
    """Name the logical effect: the field `what`, else the name, the marker or `x` of the request."""
    sources = (request.body.get("what"), request.query.get("what"), request.body.get("name"), request.rest,
               request.body.get("marker"), request.query.get("marker"), request.query.get("x"))  # fmt: skip
    return str(next((s for s in sources if s not in (None, "")), UNNAMED))


def digest(value: object) -> str:
    """Hash a JSON value; a text is hashed as its own bytes, so that a file's hash can be compared."""
    data = value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(data.encode()).hexdigest()


class World:
    """Everything the provider knows. It is a function of the log, so a restarted provider knows it again."""

    def __init__(self, log: EffectLog) -> None:
        self.settings = Settings()
        self._log = log
        self._effects = 0
        self._objects: dict[str, Line] = {}
        self._keys: dict[str, Line] = {}
        self._keys_in_flight: set[str] = set()
        self._searchable: list[Line] = []
        for line in log.lines:
            self._learn(line)

    def now(self) -> float:
        """Seconds since the epoch by the provider's clock, which tests may move ahead."""
        return time.time() + self.settings.clock_ahead_seconds

    def note(self, event: str, request: Request, **more: Any) -> Line:
        """Log something that is not an effect."""
        return self._log.append({"event": event, "at": self.now(), "path": request.path,
                                 "what": what_of(request), **more})  # fmt: skip

    def admit(self, request: Request) -> Reply | None:
        """Decide at arrival whether this request may act; a reply means that it may not (and did not)."""
        if request.path == "/create" and not isinstance(request.body.get("name"), str):
            raise BadRequest("/create needs a name")
        if request.path == "/searchable" and not isinstance(request.body.get("marker"), str):
            raise BadRequest("/searchable needs a marker")
        return self._admit_key(request) if request.path == "/keyed" else None

    def act(self, request: Request, *, late: bool = False, stored_status: int | None = None) -> Reply:
        """Do the effect: its line is on disk when this returns. An object that exists is left as it is."""
        if request.path == "/create" and (there := self._objects.get(request.body["name"])):
            self.note("exists", request, id=there["id"])
            return Reply(412, {"error": "exists", **_object(there)})
        line = self._effect_line(request, late, stored_status)
        self._keys_in_flight.discard(line.get("key", ""))
        self._learn(self._log.append(line))
        return Reply(line["reply"]["status"], line["reply"]["body"])

    def forget_keys(self, key: str | None) -> int:
        """Forget one idempotency key, or all, as a provider does after their time to live."""
        forgotten = [key] if key in self._keys else ([] if key else list(self._keys))
        for one in forgotten:
            del self._keys[one]
        return len(forgotten)

    def forget_everything(self) -> None:
        """Forget every object, key and marker; ids of effects go on, since the log does."""
        self._objects.clear()
        self._keys.clear()
        self._searchable.clear()

    def look(self, request: Request) -> Reply:
        """Answer a GET: an object by its name, a search by marker, or a plain read."""
        answers: dict[str, Callable[[Request], Reply]] = {
            "/create": self._look_up, "/search": self._search, "/read": self._read}  # fmt: skip
        return answers[request.path](request)

    def _learn(self, line: Line) -> None:
        if line["event"] == "forgot":
            self.forget_keys(line["key"])
        if line["event"] == BEGINNING:
            self.forget_everything()
        if line["event"] != "effect":
            return
        self._effects += 1
        if line["path"] == "/create":
            self._objects[line["name"]] = line
        elif line["path"] == "/keyed":
            self._keys[line["key"]] = line
        elif line["path"] == "/searchable":
            self._searchable.append(line)

    def _effect_line(self, request: Request, late: bool, stored_status: int | None) -> Line:
        effect_id = f"p{self._effects + 1}"
        body: dict[str, Any] = {"id": effect_id}
        more: dict[str, Any] = {}
        if request.path == "/create":
            content = request.body.get("body")
            more = {"name": request.body["name"], "sha256": digest(content)}
            body |= more
        elif request.path == "/searchable":
            more = {"marker": request.body["marker"]}
            body |= more
        elif request.path == "/keyed":
            more = {"key": request.headers["idempotency-key"], "fingerprint": digest(request.body),
                    "ttl_seconds": self._ttl_seconds(request)}  # fmt: skip
        reply = {"status": stored_status or 201, "body": body}
        return {
            "event": "effect",
            "at": self.now(),
            "id": effect_id,
            "path": request.path,
            "what": what_of(request),
            "late": late,
            "body": request.body,
            **more,
            "reply": reply,
        }

    def _ttl_seconds(self, request: Request) -> float | None:
        return request.number("ttl", 0) if "ttl" in request.query else self.settings.key_ttl_seconds

    def _admit_key(self, request: Request) -> Reply | None:
        key = request.headers.get("idempotency-key")
        if not key:
            raise BadRequest("/keyed needs an Idempotency-Key")
        if key in self._keys_in_flight:
            self.note("in_flight", request, key=key)
            return Reply(409, {"error": "a request with this key is in flight"})
        known = self._keys.get(key)
        if known and known["ttl_seconds"] is not None and self.now() >= known["at"] + known["ttl_seconds"]:
            del self._keys[key]
            known = None
        if known is None:
            self._keys_in_flight.add(key)
            return None
        if known["fingerprint"] != digest(request.body):
            self.note("key_mismatch", request, key=key, id=known["id"])
            return Reply(422, {"error": "this key was used with another body"})
        self.note("replayed", request, key=key, id=known["id"])
        return Reply(known["reply"]["status"], known["reply"]["body"], {"Idempotent-Replayed": "true"})

    def _look_up(self, request: Request) -> Reply:
        line = self._objects.get(request.rest)
        self.note("lookup", request, found=line is not None)
        if line is None:
            return Reply(404, {"error": "no such object"})
        return Reply(200, {**_object(line), "body": line["body"].get("body"), "what": line["what"]})

    def _search(self, request: Request) -> Reply:
        marker = request.query.get("marker")
        if marker is None:
            raise BadRequest("/search needs a marker")
        newest = self.now() - self.settings.search_lag_seconds
        found = [line for line in self._searchable if line["marker"] == marker and line["at"] <= newest]
        missed = self.settings.search_miss_next > 0
        if missed:
            self.settings.search_miss_next -= 1
            found = []
        size, page = self.settings.search_page_size, int(request.number("page", 1))
        part = found[(page - 1) * size : page * size]
        self.note("search", request, found=len(part), missed=missed)
        items = [{"id": line["id"], "marker": marker, "what": line["what"], "body": line["body"]} for line in part]
        more = len(found) > page * size
        return Reply(200, {"items": items, "page": page, "next_page": page + 1 if more else None})

    def _read(self, request: Request) -> Reply:
        x = request.query.get("x", "")
        self.note("read", request, x=x)
        return Reply(200, {"x": x, "value": f"value of {x}"})


def _object(line: Line) -> dict[str, Any]:
    return {"id": line["id"], "name": line["name"], "sha256": line["sha256"]}
