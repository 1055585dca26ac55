"""Store a file of the workspace in an S3-compatible bucket, never over another object, by obstore.

The write is conditional (``If-None-Match: *``, RFC 9110 §13.1.2): whoever comes second is told that the
object exists, and then the stored bytes are read and compared. So the put is its own probe. A separate one
would add nothing and could mislead: asking "is it there?" and putting are two steps, while create-if-absent
asks and acts in one, needs no waiting after a "no", and stays right if the first sender turns out to be
alive.
"""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from perdure.ports.tool import CallContext, ToolFailed, tool
from perdure.toolbox._provider import INJECTED, OutcomeUnknown, refused, required_setting, setting
from perdure.toolbox.files import load

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Store

MAX_UPLOAD_BYTES = 256 * 1024 * 1024
_OWNER = "perdure-call"
_STATUS = re.compile(r"Server returned non-2xx status code: (\d{3})")
_MAY_HAVE_ACTED = frozenset({408, 409, 425})


class Upload(TypedDict):
    """The stored object; ``already_existed`` says that its bytes were there before this attempt put them."""

    url: str
    sha256: str
    size_bytes: int
    already_existed: bool


@dataclass(frozen=True, slots=True)
class _Target:
    """Where an object goes; ``url`` is how people read it."""

    store: S3Store
    key: str
    url: str


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is at the target: the hash of its bytes, and the call that put them if it was one of ours."""

    sha256: str
    owner: str | None


def _split(key: str) -> tuple[str, str]:
    if key.startswith("s3://"):
        bucket, _, inner = key.removeprefix("s3://").partition("/")
    else:
        bucket, inner = required_setting("PERDURE_S3_BUCKET", "the bucket"), key
    if not bucket or not all(part not in ("", ".", "..") for part in inner.split("/")):
        raise ToolFailed(f"{key!r} is neither a key nor s3://bucket/key", retry=False)
    return bucket, inner


def _open(key: str, endpoint: str, timeout_seconds: float) -> _Target:
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    bucket, inner = _split(key)
    address = endpoint or setting("PERDURE_S3_ENDPOINT")
    config: S3Config = {"region": setting("PERDURE_S3_REGION", "us-east-1"), "conditional_put": "etag"}
    if address:
        config["endpoint"] = address
    if access_key := setting("PERDURE_S3_ACCESS_KEY_ID"):
        config["access_key_id"] = access_key
        secret = required_setting("PERDURE_S3_SECRET_ACCESS_KEY", "the secret of the access key")
        config["secret_access_key"] = secret
    try:
        store = S3Store(
            bucket,
            config=config,
            client_options={
                "allow_http": address.startswith("http://"),
                "timeout": timedelta(seconds=timeout_seconds),
            },
            # To send again is the engine's decision, and a recorded one; the client must not take it.
            retry_config={"max_retries": 0},
        )
    except (BaseError, ValueError) as problem:
        raise ToolFailed(f"the object store cannot be used: {_first_line(problem)}", retry=False) from problem
    return _Target(store, inner, f"s3://{bucket}/{inner}")


def _first_line(problem: Exception) -> str:
    return str(problem).partition("\n")[0].strip()


async def _exists(target: _Target, call: CallContext) -> bool:
    import obstore
    from obstore.exceptions import GenericError, PermissionDeniedError, UnauthenticatedError

    try:
        await obstore.head_async(target.store, target.key)
    except (FileNotFoundError, PermissionDeniedError, UnauthenticatedError):
        # Without the right to list, S3 answers 403 for an absent object too: the put will tell.
        return False
    except GenericError as problem:
        # Only a question was asked so far: an unreachable store is told apart from an unanswered put.
        raise refused(call, f"the object store does not answer: {_first_line(problem)}", retry=True) from problem
    return True


async def _stored(target: _Target, call: CallContext) -> _Stored:
    """Hash the bytes themselves: metadata is a claim, and an ETag need not be a hash of the content."""
    import obstore
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    digest = hashlib.sha256()
    try:
        found = await obstore.get_async(target.store, target.key)
        async for chunk in found.stream():
            digest.update(chunk)
    except (PermissionDeniedError, UnauthenticatedError) as problem:
        text = f"{target.url} exists and may not be read, so it cannot be compared"
        raise refused(call, text, retry=False) from problem
    except (BaseError, FileNotFoundError) as problem:
        # Also a 409: another request for this key was in progress, so "exists" may have been said too early.
        text = f"{target.url} was said to exist and cannot be read: {_first_line(problem)}"
        raise OutcomeUnknown(text) from problem
    return _Stored(digest.hexdigest(), found.attributes.get(_OWNER))


def _put_problem(problem: Exception, call: CallContext, url: str) -> Exception:
    """Return what a failed put means: refused, or an outcome that nobody knows."""
    line = _first_line(problem)
    found = _STATUS.search(line)
    status = int(found.group(1)) if found else 0
    if 400 <= status < 500 and status not in _MAY_HAVE_ACTED:
        return refused(call, f"the object store refused {url}: {line}", retry=status == 429, status=status)
    return OutcomeUnknown(f"no clear answer to the upload of {url}: {line}")


async def _create(target: _Target, data: bytes, content_type: str, call: CallContext) -> bool:
    """Put the bytes if nothing is there; return whether they were put."""
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError

    attributes = {"Content-Type": content_type, _OWNER: call.idempotency_key}
    try:
        await obstore.put_async(target.store, target.key, data, mode="create", attributes=attributes)
    except AlreadyExistsError:
        return False
    except (BaseError, FileNotFoundError) as problem:  # the latter: no such bucket
        raise _put_problem(problem, call, target.url) from problem
    return True


@tool(side_effect_class="external", scope=["key"], files=["path"], replay_policy="REPLAY_IDEMPOTENT", key_ttl="forever")
async def upload(
    path: str,
    key: str,
    content_type: str = "",
    endpoint: str = "",
    timeout_seconds: float = 60.0,
    *,
    call: CallContext = INJECTED,
) -> Upload:
    """Store a file of the workspace as a new object; equal bytes already there are a success, others a
    failure.

    Credentials come from the environment only (``PERDURE_S3_ACCESS_KEY_ID``,
    ``PERDURE_S3_SECRET_ACCESS_KEY``, or what AWS tools use), as do ``PERDURE_S3_REGION`` and the defaults
    named below.

    Args:
        path: relative to the workspace; at most 256 MiB.
        key: ``s3://bucket/key``, or a key in the bucket ``PERDURE_S3_BUCKET``.
        content_type: guessed from the path when left out.
        endpoint: the store's URL; ``PERDURE_S3_ENDPOINT`` when left out, and AWS without that.
        timeout_seconds: bound of each request.

    Raises:
        ToolFailed: nothing was stored: another object has that key (both hashes are named), the store refused
            or was not reached, or the file cannot be read.
        OutcomeUnknown: the put was sent and not clearly answered.
    """
    data = await asyncio.to_thread(load, call.workspace, path, max_bytes=MAX_UPLOAD_BYTES)
    digest = hashlib.sha256(data).hexdigest()
    target = _open(key, endpoint, timeout_seconds)
    guessed = content_type or mimetypes.guess_type(path)[0] or "application/octet-stream"
    # Looking first spares the body of a put that would be refused, and protects an object on a store that
    # ignores the condition; against a race the condition decides.
    created = not await _exists(target, call) and await _create(target, data, guessed, call)
    receipt: Upload = {
        "url": target.url,
        "sha256": digest,
        "size_bytes": len(data),
        "already_existed": not created,
    }
    if not created:
        await _must_be_the_same(target, path, digest, call)
    return receipt


async def _must_be_the_same(target: _Target, path: str, digest: str, call: CallContext) -> None:
    stored = await _stored(target, call)
    if stored.sha256 == digest:
        return
    clash = f"{target.url} already holds sha256 {stored.sha256}; {path!r} has sha256 {digest}"
    if stored.owner == call.idempotency_key:
        raise OutcomeUnknown(f"{clash}. An earlier attempt of this very call stored it: the file has changed since")
    raise ToolFailed(f"{clash}. Nothing was overwritten", retry=False)
