"""One limit as a request meets it: whom it counts, under which key, and its `RateLimit` fields.

The fields are those of draft-ietf-httpapi-ratelimit-headers (11): a policy is `"name";q=20;w=2`, so
many requests in so many seconds, what is left of it `"name";r=19;t=1`.
"""

from __future__ import annotations

from math import ceil

from docgraph.access.rule import AUTHENTICATED, UNAUTHENTICATED
from docgraph.exchange import Account
from docgraph.runtime import Quota, Share
from docgraph.server.limits.sections import CallerLimit

__all__ = ["Limit", "round_up"]

_DUST = 1e-6  # seconds that are nobody's reason to wait for another second


class Limit:
    """Made once; `number` is its place in the configuration, and that of its table."""

    def __init__(self, number: int, options: CallerLimit) -> None:
        rate = options.requests_per_second
        burst = options.burst or max(1, ceil(rate or 0))
        self.number = number
        self.name = options.name
        self.quota = Quota(rate, burst, options.concurrent)
        self.policy = ", ".join(_render_policies(options, burst))
        self._name_of_places = options.name_of_places
        self._per = options.per
        self._role = options.role

    @property
    def is_for_everybody(self) -> bool:
        """Whether it counts addresses, whoever calls: then it is asked before authentication."""
        return self._per == "address" and self._role is None

    def find_key(self, account: Account | None, address: str) -> str | None:
        """What the caller is counted by; None for one whom it does not count."""
        if not self._fits(account):
            return None
        if self._per == "address":
            return address
        if self._per == "role":
            return ""
        # Two realms may have a user of the same name.
        return None if account is None else f"{account.kind} {account.name}"

    def render_share(self, share: Share) -> str:
        """What is left of it, for `RateLimit`."""
        if share.refused_by == "concurrent":
            return f'"{self._name_of_places}";r=0;t=1'
        if self.quota.rate is None:
            return f'"{self._name_of_places}";r={share.places_left}'
        return f'"{self.name}";r={share.left};t={round_up(share.seconds)}'

    def _fits(self, account: Account | None) -> bool:
        if self._role is None:
            return True
        if account is None:
            return self._role == UNAUTHENTICATED
        return self._role == AUTHENTICATED or self._role in account.roles


def round_up(seconds: float) -> int:
    """Whole seconds, at least one."""
    return max(1, ceil(seconds - _DUST))


def _render_policies(options: CallerLimit, burst: int) -> list[str]:
    policies = []
    if options.requests_per_second is not None:
        window = round_up(burst / options.requests_per_second)
        policies.append(f'"{options.name}";q={burst};w={window}')
    if options.concurrent is not None:
        policies.append(
            f'"{options.name_of_places}";q={options.concurrent};qu="concurrent-requests"'
        )
    return policies
