"""OpenAPI service: `GET /openapi.json` describes this instance; `GET /openapi` is the page.

Both are secured: only callers with the permission see what is mounted. They describe the
configuration and the current resources; nothing is cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import ClassVar

from docgraph.auth.cookies.sections import AuthCookieSetter
from docgraph.codec import JsonMode, encode
from docgraph.config.section import Section
from docgraph.exchange import Answer, Body, Deadline, Document, Exchange
from docgraph.exchange.request import encode_path
from docgraph.graphql.sections import Graphql
from docgraph.openapi.components import SECURITY_SCHEMES
from docgraph.openapi.described_resources import Survey, Surveyor
from docgraph.openapi.document import DescribedServices, build_document
from docgraph.openapi.endpoints import read_mounts
from docgraph.openapi.openapi_page import HEADERS, render_page
from docgraph.openapi.sections import OpenApi, OpenApiPage
from docgraph.openapi.services import Bound
from docgraph.plugins.kinds import Kind, Service
from docgraph.plugins.plugin_section import bound_path, is_secured
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.etags import parse_tags
from docgraph.rest.sections import Mongo
from docgraph.runtime import Generations
from docgraph.runtime.sections import Core
from docgraph.store import Store
from docgraph.store.catalog import Catalog

_LONGEST_MS = 10_000


class _Describing(Service):
    """Collects the input of a description, within the bounds of `openapi`."""

    exact: ClassVar[bool] = True

    def __init__(  # noqa: PLR0913 - the sections that are described, and where the rest is found
        self,
        config: OpenApi | OpenApiPage,
        *,
        store: Store,
        registry: PluginRegistry,
        generations: Generations,
        configuration: Mapping[str, Section],
        bounds: OpenApi,
        core: Core,
        mongo: Mongo,
        graphql: Graphql,
        cookie: AuthCookieSetter,
    ) -> None:
        self.config = config
        self._registry = registry
        self._configuration = configuration
        self._core = core
        self._mongo = mongo
        self._graphql = graphql
        self._cookie = cookie
        self._mounts = read_mounts(mongo.mongo_mounts, mongo.uri)
        self._surveyor = Surveyor(
            store,
            Catalog(store, generations, ttl=0.0),
            self._mounts,
            most=bounds.max_collections,
            writers=lambda: registry.of_kind(Kind.DATA_INTERCEPTOR),
        )

    async def describe(self) -> Document:
        """Describe what is currently served."""
        services = tuple(map(self._bind, self._registry.of_kind(Kind.SERVICE)))
        bound = {service.name for service in services}
        return build_document(
            DescribedServices(
                title=self._core.name,
                settings=self._mongo if "mongo" in bound else None,
                mounts=self._mounts,
                survey=await self._survey(bound),
                services=services,
                security=describe_security(
                    [one.name for one in self._registry.of_kind(Kind.AUTH_MECHANISM)],
                    self._cookie.name if self._registry.find("authCookieHandler") else None,
                ),
                has_streams=self._registry.find("events") is not None,
                base_url=self._core.base_url,
            )
        )

    async def _survey(self, bound: set[str]) -> Survey:
        apps = self._graphql if "graphql" in bound else None
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


class OpenApiService(_Describing):
    """Serves the description to programs."""

    name: ClassVar[str] = "openapi"
    description: ClassVar[str] = "describes what is served, in OpenAPI 3.1"
    uri: ClassVar[str] = "/openapi.json"
    Config = OpenApi

    async def handle(self, exchange: Exchange) -> Answer:
        """Return the document, or 304 for a client that has it already."""
        content = encode(await self.describe(), JsonMode.STANDARD)
        etag = blake2b(content, digest_size=12).hexdigest()
        headers = [("ETag", f'"{etag}"')]
        known = parse_tags(exchange.request.headers.get_list("if-none-match"))
        if known is not None and etag in known:
            return Body(304, headers=headers)
        return Body(200, content, "application/json", headers)


class OpenApiPageService(_Describing):
    """Serves the description to people."""

    name: ClassVar[str] = "openapiPage"
    description: ClassVar[str] = "describes what is served, as a page for people"
    uri: ClassVar[str] = "/openapi"
    Config = OpenApiPage

    async def handle(self, exchange: Exchange) -> Answer:
        """Return one page, without scripts and without external resources."""
        page = render_page(await self.describe())
        return Body(200, page, "text/html", list(HEADERS))


def describe_security(mechanisms: Iterable[str], cookie: str | None) -> dict[str, Document]:
    """Return enabled mechanisms as security schemes; `cookie` is the name of one that is read."""
    known = (SECURITY_SCHEMES[name] for name in mechanisms if name in SECURITY_SCHEMES)
    schemes = {str(scheme["scheme"]): scheme for scheme in known}
    if cookie is not None:
        schemes["cookie"] = {"type": "apiKey", "in": "cookie", "name": cookie}
    return schemes
