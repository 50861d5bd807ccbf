"""`GET /openapi.json`: this instance described in OpenAPI 3.1; `GET /openapi`: the same for people.

Both are secured: only callers with the permission see what is mounted. What is described is what is
configured and what there is at that moment; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import ClassVar

from docgraph.codec import JsonMode, encode
from docgraph.config.section import Section
from docgraph.config.sections import AuthCookieSetter
from docgraph.exchange import Answer, Body, Deadline, Document, Exchange
from docgraph.exchange.path import encode_path
from docgraph.graphql.sections import Graphql
from docgraph.openapi.document import Facts, build_document
from docgraph.openapi.endpoints import read_mounts
from docgraph.openapi.page import HEADERS, render_page
from docgraph.openapi.sections import OpenApi, OpenApiPage
from docgraph.openapi.security import describe_security
from docgraph.openapi.services import Bound
from docgraph.openapi.survey import Survey, Surveyor
from docgraph.plugins.binding import bound_path, is_secured
from docgraph.plugins.kinds import Kind, Service
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.sections import Mongo
from docgraph.rest.writes.etags import parse_tags
from docgraph.runtime import Generations
from docgraph.runtime.sections import Core
from docgraph.store import Store
from docgraph.store.catalog import Catalog

__all__ = ["OpenApiPageService", "OpenApiService"]

_LONGEST_MS = 10_000


class OpenApiService(Service):
    """Describes the instance to programs."""

    name: ClassVar[str] = "openapi"
    description: ClassVar[str] = "describes what is served, in OpenAPI 3.1"
    uri: ClassVar[str] = "/openapi.json"
    exact: ClassVar[bool] = True
    Config = OpenApi

    def __init__(
        self,
        config: OpenApi,
        store: Store,
        registry: PluginRegistry,
        generations: Generations,
        configuration: Mapping[str, Section],
    ) -> None:
        self.config = config
        self._describer = _Describer(config, store, registry, generations, configuration)

    async def handle(self, exchange: Exchange) -> Answer:
        """The document, or 304 for a client that has it already."""
        content = encode(await self._describer.describe(), JsonMode.STANDARD)
        etag = blake2b(content, digest_size=12).hexdigest()
        headers = [("ETag", f'"{etag}"')]
        known = parse_tags(exchange.request.headers.get_list("if-none-match"))
        if known is not None and etag in known:
            return Body(304, headers=headers)
        return Body(200, content, "application/json", headers)


class OpenApiPageService(Service):
    """Describes the instance to people, within the bounds of `openapi`."""

    name: ClassVar[str] = "openapiPage"
    description: ClassVar[str] = "describes what is served, as a page for people"
    uri: ClassVar[str] = "/openapi"
    exact: ClassVar[bool] = True
    Config = OpenApiPage

    def __init__(
        self,
        config: OpenApiPage,
        store: Store,
        registry: PluginRegistry,
        generations: Generations,
        configuration: Mapping[str, Section],
        bounds: OpenApi,
    ) -> None:
        self.config = config
        self._describer = _Describer(bounds, store, registry, generations, configuration)

    async def handle(self, exchange: Exchange) -> Answer:
        """One page, without scripts and without anything from elsewhere."""
        page = render_page(await self._describer.describe())
        return Body(200, page, "text/html", list(HEADERS))


class _Describer:
    """Finds out the facts of a description."""

    def __init__(
        self,
        config: OpenApi,
        store: Store,
        registry: PluginRegistry,
        generations: Generations,
        configuration: Mapping[str, Section],
    ) -> None:
        self._registry = registry
        self._configuration = configuration
        mongo = configuration.get("mongo")
        self._mongo = mongo if isinstance(mongo, Mongo) else None
        self._mounts = (
            read_mounts(mongo.mongo_mounts, mongo.uri) if isinstance(mongo, Mongo) else ()
        )
        catalog = Catalog(store, generations, ttl=0.0)
        self._surveyor = Surveyor(
            store,
            catalog,
            self._mounts,
            most=config.max_collections,
            writers=lambda: registry.of_kind(Kind.DATA_INTERCEPTOR),
        )

    async def describe(self) -> Document:
        services = tuple(map(self._bind, self._registry.of_kind(Kind.SERVICE)))
        bound = {service.name for service in services}
        core = self._configuration["core"]
        core = core if isinstance(core, Core) else Core()
        return build_document(
            Facts(
                title=core.name,
                settings=self._mongo if "mongo" in bound else None,
                mounts=self._mounts,
                survey=await self._survey(bound),
                services=services,
                security=describe_security(
                    [one.name for one in self._registry.of_kind(Kind.AUTH_MECHANISM)],
                    self._find_cookie(),
                ),
                base_url=core.base_url,
            )
        )

    async def _survey(self, bound: set[str]) -> Survey:
        graphql = self._configuration.get("graphql")
        apps = graphql if isinstance(graphql, Graphql) and "graphql" in bound else None
        if "mongo" not in bound:
            return await self._surveyor.survey_apps(apps, Deadline.after_ms(_LONGEST_MS))
        return await self._surveyor.survey(apps, Deadline.after_ms(_LONGEST_MS))

    def _bind(self, service: Service) -> Bound:
        section = self._configuration.get(service.name)
        return Bound(
            name=service.name,
            path=encode_path(bound_path(service, section)),
            description=service.description,
            methods=tuple(service.methods),
            exact=service.exact,
            secured=is_secured(service, section),
        )

    def _find_cookie(self) -> str | None:
        """The name of the cookie, where one is read."""
        section = self._configuration.get("authCookieSetter")
        is_read = self._registry.find("authCookieHandler") is not None
        return section.name if is_read and isinstance(section, AuthCookieSetter) else None
