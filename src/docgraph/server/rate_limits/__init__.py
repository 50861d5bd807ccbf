"""Rate limits for callers (throttling): by address before authentication, then by user and role.

A request that one limit rejects is not counted by the others that were checked together with it. A
batch counts as many times as it has entries, after they are read and before the first of them is
authorized. Places for concurrent requests are occupied until the service has answered: a stream, a
WebSocket or a takeover counts as a request when it begins, and has other limits while it lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

from docgraph.access.rule import AUTHENTICATED, UNAUTHENTICATED
from docgraph.exchange import Account, Exchange
from docgraph.exchange.errors import TooManyRequests
from docgraph.exchange.hosts import group_address
from docgraph.exchange.request import KEY_PREFIX
from docgraph.observe import emit
from docgraph.observe.engine_events import CallersLimited, RequestLimited
from docgraph.runtime import Buckets, Instance, Quota, RateRequest, RateResult
from docgraph.server.rate_limits.sections import CallerLimit, CallerLimits
from docgraph.server.routes import Route

_SILENCE: Final = 10.0  # seconds between two log lines about one limit


class Limiter:
    """The limits of an instance, in one of its processes."""

    def __init__(
        self, limits: Sequence[Limit], buckets: Buckets, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.for_everybody = [limit for limit in limits if limit.is_for_everybody]
        self.for_callers = [limit for limit in limits if not limit.is_for_everybody]
        self.buckets = buckets
        self.refusals = _Refusals(clock)

    @classmethod
    def open(cls, options: CallerLimits, instance: Instance, workers: int) -> Limiter:
        """Open the limits of the configuration, with the counts that all workers share."""
        limits = [Limit(number, limit) for number, limit in enumerate(options.limits)]
        return cls(limits, instance.open_buckets([limit.quota for limit in limits], workers))

    def close(self) -> None:
        self.buckets.close()

    def receive(self, exchange: Exchange, route: Route | None) -> None:
        """Count a request by its address, raising `TooManyRequests`; sets its `visit`.

        Health checks and preflights are not counted: a browser does not report why a preflight was
        rejected, and either costs little more than a rejection. Entries of a batch are counted
        together, by `count_entries`.
        """
        if exchange.is_entry or exchange.request.method == "OPTIONS":
            return
        if route is not None and route.is_probe:
            return
        client = exchange.request.connection.client
        exchange.visit = RequestRateLimit(self, group_address(client[0]) if client else "")
        exchange.visit.arrive()


class RequestRateLimit:
    """The counts of one request; call `end` in any case."""

    __slots__ = ("_address", "_answers", "_held", "_limiter")

    def __init__(self, limiter: Limiter, address: str) -> None:
        self._limiter = limiter
        self._address = address
        self._answers: dict[Limit, RateResult] = {}
        self._held: list[RateResult] = []

    def arrive(self) -> None:
        """Count the request by its address; raises `TooManyRequests`."""
        self._count(self._limiter.for_everybody, None)

    def identify(self, account: Account | None) -> None:
        """Count the request by user and roles; raise `TooManyRequests`."""
        self._count(self._limiter.for_callers, account)

    def count_entries(self, number: int, account: Account | None) -> None:
        """Count a batch as so many requests, itself included; raises `TooManyRequests`."""
        if number > 1:
            limits = (*self._limiter.for_everybody, *self._limiter.for_callers)
            rates = [limit for limit in limits if limit.quota.rate is not None]
            self._count(rates, account, number - 1)

    def _count(self, limits: Sequence[Limit], account: Account | None, further: int = 0) -> None:
        """Count the request by all of these limits that apply to the caller."""
        asked, claims = [], []
        for limit in limits:
            key = limit.find_key(account, self._address)
            if key is not None:
                asked.append(limit)
                claims.append(RateRequest(limit.number, key, further))
        if not claims:
            return
        shares = self._limiter.buckets.acquire(claims)
        answers = list(zip(asked, shares, strict=True))
        self._answers.update(answers)
        refused = [answer for answer in answers if answer[1].refused_by]
        if refused:
            raise self._reject(
                *max(refused, key=lambda answer: answer[1].seconds), account, further
            )
        if not further:
            self._held += [share for limit, share in answers if limit.quota.places is not None]

    def end(self, exchange: Exchange) -> None:
        """Release its places, and add the `RateLimit` headers to the response."""
        if self._held:
            self._limiter.buckets.give_back(self._held)
        if self._answers:
            # All policies, and the share of the decisive limit.
            answers = list(self._answers.items())
            limit, share = answers[0] if len(answers) == 1 else min(answers, key=_rank)
            exchange.headers.extend(
                [
                    ("RateLimit-Policy", ", ".join(limit.policy for limit, _ in answers)),
                    ("RateLimit", limit.render_share(share)),
                ]
            )

    def _reject(
        self, limit: Limit, share: RateResult, account: Account | None, further: int
    ) -> TooManyRequests:
        user = account.name if account else ""
        self._limiter.refusals.record(limit.name, share.refused_by, self._address, user)
        seconds, burst = round_up(share.seconds), limit.quota.burst
        hint = f"try again in {seconds} s"
        if further >= burst:  # with the batch itself it exceeds the maximum
            hint = f"send at most {burst} entries in a batch, the burst of '{limit.name}'"
        return TooManyRequests(
            "too many requests", hint=hint, headers=[("Retry-After", str(seconds))]
        )


class _Refusals:
    """Emits every rejection, but logs few of them: a flood must not flood the log."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._untold: dict[str, int] = {}
        self._due: dict[str, float] = {}

    def record(self, limit: str, reason: str, client: str, user: str) -> None:
        emit(RequestLimited(limit, reason))
        untold = self._untold.get(limit, 0) + 1
        now = self._clock()
        if now >= self._due.get(limit, now):
            emit(CallersLimited(limit, reason, untold, client, user))
            self._due[limit], untold = now + _SILENCE, 0
        self._untold[limit] = untold


def _rank(answer: tuple[Limit, RateResult]) -> tuple[bool, float, bool, int]:
    """Return the sort key: rejections first (longest wait first), then rates, then places.

    Within each, the smallest remainder comes first.
    """
    limit, share = answer
    has_rate = limit.quota.rate is not None
    left = share.left if has_rate else share.places_left
    return not share.refused_by, -share.seconds if share.refused_by else 0.0, not has_rate, left


_DUST = 1e-6  # seconds; rounding errors must not cause another second of waiting


class Limit:
    """One configured limit; `number` is its position, and that of its table of counts.

    The `RateLimit` headers follow draft-ietf-httpapi-ratelimit-headers (11): a policy is
    `"name";q=20;w=2`, so many requests in so many seconds; the rest of it is `"name";r=19;t=1`.
    """

    def __init__(self, number: int, options: CallerLimit) -> None:
        rate = options.requests_per_second
        burst = options.burst or max(1, ceil(rate or 0))
        self.number = number
        self.name = options.name
        self.quota = Quota(rate, burst, options.concurrent)
        policies = []
        if options.requests_per_second is not None:
            window = round_up(burst / options.requests_per_second)
            policies.append(f'"{options.name}";q={burst};w={window}')
        if options.concurrent is not None:
            policies.append(
                f'"{options.name_of_places}";q={options.concurrent};qu="concurrent-requests"'
            )
        self.policy = ", ".join(policies)
        self._name_of_places = options.name_of_places
        self._per = options.per
        self._role = options.role
        self._key = options.key

    @property
    def is_for_everybody(self) -> bool:
        """Whether it counts addresses for all callers: it is checked before authentication."""
        return self._per == "address" and self._role is None and self._key is None

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
        owner = None if account is None else account.owner
        key = None if account is None or owner is None else account.name.removeprefix(KEY_PREFIX)
        if self._key is not None and (key is None or self._key not in ("*", key)):
            return False
        if self._role is None:
            return True
        if account is None:
            return self._role == UNAUTHENTICATED
        # A key without a role of its owner does not escape the limit of that role.
        return self._role == AUTHENTICATED or self._role in (owner or account).roles


def round_up(seconds: float) -> int:
    """Round up to whole seconds, at least one."""
    return max(1, ceil(seconds - _DUST))
