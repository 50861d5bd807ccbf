"""One rate limit: the callers it counts, the key of a caller, and its `RateLimit` headers.

The headers follow draft-ietf-httpapi-ratelimit-headers (11): a policy is `"name";q=20;w=2`, so many
requests in so many seconds; the rest of it is `"name";r=19;t=1`.
"""

from __future__ import annotations

from math import ceil

from docgraph.access.rule import AUTHENTICATED, UNAUTHENTICATED
from docgraph.exchange import Account
from docgraph.runtime import Quota, RateResult
from docgraph.server.rate_limits.sections import CallerLimit

_DUST = 1e-6  # seconds; rounding errors must not cause another second of waiting


class Limit:
    """Built once; `number` is its position in the configuration, and that of its table."""

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
        """Whether it counts addresses for all callers: it is checked before authentication."""
        return self._per == "address" and self._role is None

    def find_key(self, account: Account | None, address: str) -> str | None:
        """Return the key by which the caller is counted; None for a caller it does not count."""
        if not self._fits(account):
            return None
        if self._per == "address":
            return address
        if self._per == "role":
            return ""
        # Two realms may have a user of the same name.
        return None if account is None else f"{account.kind} {account.name}"

    def render_share(self, share: RateResult) -> str:
        """Return the remaining share, for the header `RateLimit`."""
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
    """Round up to whole seconds, at least one."""
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
