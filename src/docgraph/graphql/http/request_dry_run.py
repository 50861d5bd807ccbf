"""Interface of dry runs: authorization of requests on behalf of a caller."""

from __future__ import annotations

from typing import Protocol

from docgraph.exchange import Account, Exchange
from docgraph.plugins.kinds import Decision


class DryRun(Protocol):
    """The provider `imagined-requests`: authorizes requests that no one has sent."""

    def check_post(
        self, outer: Exchange, path: str, body: bytes, account: Account | None
    ) -> Exchange:
        """Return the exchange of a JSON POST by `account` to the encoded path.

        It has the time that `outer` has left.
        """
        ...

    async def authorize(
        self, exchange: Exchange, outer: Exchange, *, quietly: bool = False
    ) -> Decision:
        """Return the decision about such a request; `quietly` leaves a denial out of the log."""
        ...
