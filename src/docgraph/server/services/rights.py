"""`GET /_tools/rights` and `GET /_tools/apps`: what the caller may use, methods and GraphQL apps.

They need no allower, because they show only what the caller could find out by trying. The same
vetoers, allowers and rules decide as for the requests themselves: an app is listed if a query to it
would be permitted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, ClassVar, Final

from docgraph.access.dry_run import RequestDryRun
from docgraph.access.rule import find_flag, roles_of
from docgraph.access.rulebook import RuleBook
from docgraph.exchange import Answer, Body, Exchange
from docgraph.exchange.errors import RequestError
from docgraph.exchange.request import encode_path
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.stored_definitions import StoredDefinition
from docgraph.graphql.http.app_access import AppAccess
from docgraph.mcp.service import build_access
from docgraph.plugins.kinds import Service
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import allocations
from docgraph.server.services.sections import OwnRights as OwnRightsConfig
from docgraph.server.services.sections import VisibleApps as VisibleAppsConfig

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
MAX_PATHS: Final = 40  # each evaluates the rules for every method, also for anonymous callers
_LONGEST_MS: Final = 10_000
# Conditions on the body or the query parameters, which a request without them cannot meet.
_ON_CONTENT: Final = re.compile(
    r"(?:not )?(?:bson-request-|qparams-|request-(?:larg|small)er-than|(?:min|max)-content-size)"
    r"|.*@(?:request\.(?:body|queryString)|qparams|filter)\b",
    re.DOTALL,
)


class OwnRights(Service):
    """Lists the methods that the caller may use."""

    name: ClassVar[str] = "ownRights"
    description: ClassVar[str] = "lists the methods that the caller may use at given paths"
    uri: ClassVar[str] = "/_tools/rights"
    exact: ClassVar[bool] = True
    secured: ClassVar[bool] = False
    Config = OwnRightsConfig

    def __init__(
        self, config: OwnRightsConfig, imagined_requests: RequestDryRun, acl_rules: RuleBook
    ) -> None:
        self.config = config
        self._dry_run = imagined_requests
        self._book = acl_rules

    def time_limit_ms(self, exchange: Exchange) -> int:
        """Return a short limit: a slow list is useless."""
        return _LONGEST_MS

    async def handle(self, exchange: Exchange) -> Answer:
        """Return the caller, and the permitted methods for each `path`."""
        paths = list(dict.fromkeys(exchange.request.query.get_list("path")))
        if len(paths) > MAX_PATHS:
            raise RequestError(
                f"{len(paths)} paths are too many", hint=f"send at most {MAX_PATHS} in a request"
            )
        for path in paths:
            if not path.startswith("/"):
                raise RequestError(f"{path!r} is no path", hint="a path begins with a slash")
        account = exchange.account
        # Services that permit a GET, or that a rule for the caller can lead to.
        services = set()
        for prefix, service in self._dry_run.services:
            _, decision = await self._dry_run.decide_get(exchange, encode_path(prefix) or "/")
            if decision is not None:
                services.add(service.name)
        index = await self._book.find_rules(roles_of(exchange.account))
        reached = {prefix for rule in index.rules for prefix in rule.predicate.reach.prefixes}
        for prefix in reached:
            if (service_at := self._dry_run.find_service(prefix)) is not None:
                services.add(service_at.name)
            below = (
                service for at, service in self._dry_run.services if at[: len(prefix)] == prefix
            )
            services |= {service.name for service in below}
        content = {
            "user": account.name if account else None,
            "roles": list(account.roles) if account else [],
            "services": sorted(services),
            "rights": [await self._find_rights(exchange, path) for path in paths],
        }
        return _build_answer(content)

    async def _find_rights(self, outer: Exchange, path: str) -> dict[str, Any]:
        allowed: list[str] = []
        conditional: list[str] = []
        partial: list[str] = []
        for method in METHODS:
            exchange = self._dry_run.build_get(outer, path, method)
            if not exchange.service:
                continue
            veto, decision = await self._dry_run.decide(exchange)
            if decision.allowed:
                allowed.append(method)
                permission = decision.permission
                if permission is not None and permission.project_response is not None:
                    partial.append(method)
            elif veto is None and await self._depends_on_content(exchange):
                conditional.append(method)
        return {"path": path, "allowed": allowed, "conditional": conditional, "partial": partial}

    async def _depends_on_content(self, exchange: Exchange) -> bool:
        """Return whether a rule would match with another body or other parameters."""
        index = await self._book.find_rules(roles_of(exchange.account))
        view = self._book.view(exchange)
        flag = find_flag(view)
        for _, rule in index.select(view.request.method, view.segments):
            if flag is not None and flag not in rule.conditions.flags:
                continue
            failed = await self._book.find_failures(rule, view)
            if failed and all(_ON_CONTENT.match(failure.condition) for failure in failed):
                return True
        return False


_MAX_APPS: Final = 100  # maximum number in a response
_MAX_CHECKED: Final = 300  # each evaluates the rules, also for anonymous callers
_MAX_CHECKED_FOR_USERS: Final = 3000


class VisibleApps(Service):
    """Lists the apps that the caller may query."""

    name: ClassVar[str] = "visibleApps"
    description: ClassVar[str] = "names the apps that the caller may ask"
    part_of: ClassVar[str] = "graphql"
    uri: ClassVar[str] = "/_tools/apps"
    exact: ClassVar[bool] = True
    secured: ClassVar[bool] = False
    Config = VisibleAppsConfig

    def __init__(
        self,
        config: VisibleAppsConfig,
        registry: PluginRegistry,
        gql_app_definition_cache: Apps,
        imagined_requests: RequestDryRun,
    ) -> None:
        self.config = config
        self._registry = registry
        self._apps = gql_app_definition_cache
        self._dry_run = imagined_requests

    async def provision(self) -> None:
        self._access = build_access(self._registry, self._apps, self._dry_run)

    def time_limit_ms(self, exchange: Exchange) -> int:
        """Return a short limit: a slow list is useless."""
        return _LONGEST_MS

    async def handle(self, exchange: Exchange) -> Answer:
        """Return a hundred apps by uri, after the given one, and where to continue."""
        after = exchange.request.query.get("after") or ""
        visible, has_more = await find_visible_apps(self._access, exchange, after=after)
        content: dict[str, Any] = {"apps": [self._describe(entry) for entry in visible]}
        if has_more:
            content["next"] = visible[-1].uri
        return _build_answer(content)

    def _describe(self, entry: StoredDefinition) -> dict[str, Any]:
        path = self._access.graphql.find_path(entry.uri)
        description = find_description(entry)
        about = {} if description is None else {"description": description}
        return {"app": entry.uri, "path": path, **about}


async def find_visible_apps(
    access: AppAccess, exchange: Exchange, *, after: str = ""
) -> tuple[Sequence[StoredDefinition], bool]:
    """Return the first apps that the caller can query, and whether there are more."""
    checked = count(1)
    most = _MAX_CHECKED if exchange.account is None else _MAX_CHECKED_FOR_USERS
    visible: list[StoredDefinition] = []
    async for entry in access.find_apps(
        exchange, after=after, wanted=lambda _: next(checked) <= most
    ):
        if len(visible) == _MAX_APPS:
            return visible, True
        visible.append(entry)
    return visible, False


def find_description(entry: StoredDefinition) -> str | None:
    """Return the author's description of an app; a stored definition may be anything."""
    descriptor = entry.document.get("descriptor")
    description = descriptor.get("description") if isinstance(descriptor, Mapping) else None
    return description if isinstance(description, str) else None


def _build_answer(content: dict[str, Any]) -> Body:
    headers = [("Cache-Control", "no-store")]
    return Body(200, allocations.dumps(content), "application/json", headers)
