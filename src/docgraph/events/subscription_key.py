"""Identity of subscriptions, resume tokens (`Last-Event-ID`), and reauthorization of streams."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from docgraph.codec import decode
from docgraph.exchange import DocgraphError, Renew, Request, Subscription, WatchedIsGone
from docgraph.exchange.close_reason import (
    CHANGED,
    FAILED,
    GONE,
    NOT_ALLOWED,
    NOT_KNOWN,
    OTHER_RIGHTS,
    CloseReason,
)
from docgraph.exchange.errors import (
    BodyError,
    Forbidden,
    NotFound,
    Overloaded,
    RequestError,
    SecurityViolation,
    StoreError,
    StoreForbidden,
    StoreRejected,
    Unauthenticated,
)
from docgraph.runtime.open_streams import Session
from docgraph.store.change_stream import ResumeToken
from docgraph.store.exact import to_bytes
from docgraph.store.guard.event_stages import hides_ids

_PARAMETER: Final = "resume-after"
_TYPES: Final = "_typeBits"
# The token in hexadecimal digits; behind a point, the types of the numbers in it.
_TOKEN: Final = re.compile(r"([0-9A-Fa-f]{2,4096})(?:\.((?:[0-9A-Fa-f]{2}){1,512}))?")
_EXAMPLE: Final = 'such as {"_data": "82…"}, the id of an event'


def identify(subscription: Subscription) -> bytes:
    """Return the same key for subscriptions with the same events; types of values matter."""
    return to_bytes(asdict(subscription))


def find_resume_token(request: Request, subscription: Subscription) -> ResumeToken | None:
    """Return the event to resume after; the header takes precedence over the parameter.

    A browser that reconnects sends its last event in the header, to the same URL: the parameter is
    older. A caller that receives no event ids cannot resume: it could probe for ids by the events
    that follow an invented one.
    """
    for name, text in (
        ("Last-Event-ID", request.headers.get("last-event-id")),
        (_PARAMETER, request.query.get(_PARAMETER)),
    ):
        if text and hides_ids(subscription.shown):
            raise RequestError(
                f"{name}: who is not shown the _id of documents cannot go on after an event",
                hint="connect without it, and read everything again",
            )
        if text:
            return _parse(name, text.strip())
    return None


def _parse_text(text: str) -> dict[str, Any] | None:
    match = _TOKEN.fullmatch(text)
    if match is None:
        return None
    data, types = match.groups()
    return {"_data": data.upper()} | ({_TYPES: bytes.fromhex(types)} if types else {})


def _parse(name: str, text: str) -> ResumeToken:
    if token := _parse_text(text):
        return token
    try:
        value = decode(text)
    except BodyError:
        value = None
    match value:
        case {"_data": str(data), **rest} if token := _parse_text(data):
            types = rest.pop(_TYPES, None)  # as the database itself writes them
            if isinstance(types, bytes):
                token[_TYPES] = types
            if not rest and isinstance(types, bytes | None):
                return token
    raise RequestError(f"{name} is not the id of an event", hint=_EXAMPLE)


_REFUSING: Final = (SecurityViolation, StoreForbidden, StoreRejected)  # errors that end the session


@dataclass(eq=False)
class StreamSession(Session):
    """A client of a change stream, its subscription, and how to authorize it again.

    Reauthorization: a session is closed when its current permissions would give it other events or
    none. The current time in a row filter makes no difference: it is that of each decision.
    """

    subscription: Subscription
    renew: Renew
    gone_since: float | None = field(default=None, kw_only=True)  # its collection is missing

    async def find_ending(self, now: float, interval: float) -> CloseReason | None:
        """Return why the session must end; None if nothing changed or it cannot be decided now."""
        try:
            renewed = await self.renew()
        except Unauthenticated:
            return NOT_KNOWN
        except (Forbidden, SecurityViolation):
            return NOT_ALLOWED
        except WatchedIsGone:
            # The stream reports its own end, unless it was opened after that end.
            self.gone_since = now if self.gone_since is None else self.gone_since
            return GONE if now - self.gone_since >= interval else None
        except NotFound:
            return GONE
        except _REFUSING:
            return FAILED
        except (StoreError, Overloaded):
            return None  # the database is unavailable or overloaded; the next check tries again
        except DocgraphError:
            return CHANGED  # the stored stream cannot be opened any more
        self.gone_since = None
        return _compare(self.subscription, renewed)


def _compare(before: Subscription, now: Subscription) -> CloseReason | None:
    if identify(now) == identify(before):
        return None
    return CHANGED if (now.row, now.shown) == (before.row, before.shown) else OTHER_RIGHTS
