"""Which subscriptions are the same, and which place in a stream a client names."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Final

from docgraph.codec import JsonMode, decode, encode
from docgraph.events.cursor import ResumeToken
from docgraph.exchange import Request, Subscription
from docgraph.exchange.errors import BodyError, RequestError

__all__ = ["find_resume_token", "identify"]

_HEADER: Final = "last-event-id"
_PARAMETER: Final = "resume-after"
_TOKEN: Final = re.compile(r"[0-9A-Fa-f]{2,4096}")
_EXAMPLE: Final = 'such as {"_data": "82…"}, the id of an event'


def identify(subscription: Subscription) -> bytes:
    """The same for subscriptions that are told the same; types of values count."""
    return encode(asdict(subscription), JsonMode.EXTENDED)


def find_resume_token(request: Request) -> ResumeToken | None:
    """The event after which a client wants to go on; the header wins over the parameter.

    A browser that connects again sends the header with the last event it got, to the same address:
    the parameter is older.
    """
    for name, text in (
        ("Last-Event-ID", request.headers.get(_HEADER)),
        (_PARAMETER, request.query.get(_PARAMETER)),
    ):
        if text:
            return _parse(name, text.strip())
    return None


def _parse(name: str, text: str) -> ResumeToken:
    if _TOKEN.fullmatch(text):
        return {"_data": text}
    try:
        value = decode(text)
    except BodyError:
        value = None
    match value:
        case {"_data": str(data), **rest} if not rest and _TOKEN.fullmatch(data):
            return {"_data": data}
    raise RequestError(f"{name} is not the id of an event", hint=_EXAMPLE)
