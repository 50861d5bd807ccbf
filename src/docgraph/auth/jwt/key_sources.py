"""Read a key set from a file or a URL. Blocking; runs in its own lane."""

from __future__ import annotations

import time
from email.message import Message
from pathlib import Path
from typing import IO, Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

MAX_BYTES: Final = 256 << 10
SECONDS: Final = 5.0
_CHUNK: Final = 16 << 10


class _NoRedirects(HTTPRedirectHandler):
    """Rejects redirects: only the configuration decides where keys come from."""

    def redirect_request(
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> Request | None:
        raise URLError(f"the address answers {code}, a redirect, which is not followed")


_OPENER: Final = build_opener(_NoRedirects)


def is_address(source: str) -> bool:
    """Return whether this is a URL and not a path."""
    return urlsplit(source).scheme in {"http", "https"}


def is_plain_address(source: str) -> bool:
    """Return whether keys would be transferred unprotected over a network."""
    parts = urlsplit(source)
    return parts.scheme == "http" and parts.hostname not in {"localhost", "127.0.0.1", "::1"}


def read(path: Path) -> bytes:
    """Return the bytes of a file of limited size."""
    with path.open("rb") as file:
        return _check_size(file.read(MAX_BYTES + 1))


def fetch(address: str) -> bytes:
    """Return the body of a 200 response, within `SECONDS` and `MAX_BYTES` in total."""
    end = time.monotonic() + SECONDS
    request = Request(address, headers={"Accept": "application/json"})  # noqa: S310 - see is_address
    with _OPENER.open(request, timeout=SECONDS) as answer:
        return _drain(answer, end)


def _drain(answer: Any, end: float) -> bytes:
    body = b""
    while chunk := answer.read1(_CHUNK):
        body = _check_size(body + chunk)
        if time.monotonic() > end:
            raise TimeoutError(f"the key set did not come within {SECONDS:g} s")
    return body


def _check_size(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    return data
