"""Configuration section of the rate limits for callers: `caller-limits`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from docgraph.config.section import Name, Section, View
from docgraph.exchange.errors import Problem
from docgraph.server.sections import ConnectionOptions

_UNKNOWN_CALLER, _KNOWN_CALLER = "$unauthenticated", "$authenticated"


class CallerLimit(Section, frozen=True):
    """One limit, and who is counted by it."""

    name: Annotated[
        str,
        Meta(
            pattern=r"^[a-z][a-z0-9-]{0,39}\Z",
            extra={"form": "a name of small letters, digits and '-'"},
        ),
        "its name in `RateLimit` fields, metrics and the log",
    ]
    per: Annotated[
        Literal["address", "user", "role"],
        "what has a count of its own: each address, each user, or all callers of `role` together",
    ]
    role: Annotated[
        Name | None,
        "only callers with this role; `$unauthenticated` is who is unknown, `$authenticated` "
        "everybody else; null: all",
    ] = None
    key: Annotated[
        Name | None, "only callers with this API key, `<owner>/<name>`; `*`: with any key"
    ] = None
    requests_per_second: Annotated[
        Annotated[float, Meta(ge=0.001, le=100_000)] | None, "requests of one count; null: no limit"
    ] = None
    burst: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        "requests that may come together after a pause; null: those of a second",
    ] = None
    concurrent: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        "requests of one count in progress at the same time; null: no limit",
    ] = None

    @property
    def name_of_places(self) -> str:
        """The name of the part for concurrent requests."""
        return f"{self.name}-concurrent"

    def find_flaw(self) -> tuple[str, str, str] | None:
        """Return the invalid option, the reason, and a fix."""
        if self.requests_per_second is None and self.concurrent is None:
            return "", "it limits nothing", "set 'requests-per-second' or 'concurrent'"
        if self.burst is not None and self.requests_per_second is None:
            return (
                "/burst",
                "there is no rate to exceed",
                "set 'requests-per-second', or leave it out",
            )
        if self.per == "role" and self.role is None and self.key is None:
            return "/per", "it does not say which role", "set 'role'"
        if self.role is not None and self.role.startswith("$"):
            # A misspelt role would match no user, and the limit no caller.
            if self.role not in (_UNKNOWN_CALLER, _KNOWN_CALLER):
                hint = (
                    f"'{_UNKNOWN_CALLER}' and '{_KNOWN_CALLER}' are the roles that begin with '$'"
                )
                return "/role", "no caller can have this role", hint
            if self.per == "user" and self.role == _UNKNOWN_CALLER:
                return (
                    "/per",
                    "unauthenticated callers are no users",
                    "count them by address: 'per: address'",
                )
        return None


class CallerLimits(Section, frozen=True):
    """How many requests callers may send; more are answered with 429."""

    section_name: ClassVar[str] = "caller-limits"
    enabled: Annotated[bool, "whether callers are limited"] = False
    limits: Annotated[
        tuple[CallerLimit, ...],
        Meta(max_length=20),
        "all that fit a request have to admit it; for example `{name: user, per: user, "
        "requests-per-second: 10, burst: 20, concurrent: 5}`",
    ] = ()

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Report limits that limit nothing, or that have the same name."""
        if not self.enabled:
            return
        path = "/caller-limits/limits"
        if not self.limits:
            hint = "add a limit, or turn off caller-limits"
            yield view.blame(path, "callers are to be limited, and there is no limit", hint)
        names: set[str] = set()
        for number, limit in enumerate(self.limits, 1):
            flaw = limit.find_flaw()
            if flaw is not None:
                option, what, hint = flaw
                yield view.blame(f"{path}[{number}]{option}", what, hint)
            if names & {limit.name, limit.name_of_places}:
                hint = "give each limit a name of its own"
                yield view.blame(
                    f"{path}[{number}]/name", f"'{limit.name}' names another limit, too", hint
                )
            names |= {limit.name, limit.name_of_places}

    def give_advice(self, view: View) -> Iterator[Problem]:
        """Report limits that one caller reaches only when the instance is full."""
        options = view.get(ConnectionOptions)
        if not self.enabled or options is None:
            return
        for number, limit in enumerate(self.limits, 1):
            if limit.concurrent is not None and limit.concurrent >= options.max_requests_in_flight:
                yield view.blame(
                    f"/caller-limits/limits[{number}]/concurrent",
                    f"one caller may have all {options.max_requests_in_flight} requests in flight",
                    "lower it, or raise /connection-options/max-requests-in-flight",
                )
