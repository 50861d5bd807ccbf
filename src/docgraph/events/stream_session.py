"""Reauthorization of change streams: what a client would get if its request came now.

A session is closed when its current permissions would give it other events or none. The current
time in a row filter makes no difference: it is that of each decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from docgraph.events.subscription_key import identify
from docgraph.exchange import DocgraphError, Renew, Subscription, WatchedIsGone
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
    Forbidden,
    NotFound,
    Overloaded,
    SecurityViolation,
    StoreError,
    StoreForbidden,
    StoreRejected,
    Unauthenticated,
)
from docgraph.runtime.reauthorize import Session

_REFUSING: Final = (SecurityViolation, StoreForbidden, StoreRejected)  # errors that end the session


@dataclass(eq=False)
class StreamSession(Session):
    """A client of a change stream, its subscription, and how to authorize it again."""

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
            return self._await_end(now, interval)
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

    def _await_end(self, now: float, interval: float) -> CloseReason | None:
        """Let the stream report its own end, unless it was opened after that end."""
        if self.gone_since is None:
            self.gone_since = now
        return GONE if now - self.gone_since >= interval else None


def _compare(before: Subscription, now: Subscription) -> CloseReason | None:
    if identify(now) == identify(before):
        return None
    return CHANGED if (now.row, now.shown) == (before.row, before.shown) else OTHER_RIGHTS
