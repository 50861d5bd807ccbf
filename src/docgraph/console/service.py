"""Console service: `GET /console` and below: the page, and the files that it loads.

No authentication, as the page has no data: it requests its data as its user, from the same
endpoints as every other client.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, ClassVar, Final

from docgraph import __version__
from docgraph.config.section import Section
from docgraph.console.console_page import HEADERS, HINT_HEADERS, render_hint, render_index
from docgraph.console.sections import Console
from docgraph.console.site import STATIC, Manifest, Site, choose_coding
from docgraph.exchange import Answer, Body, Exchange, Resource, ResourceType
from docgraph.exchange.errors import NotFound
from docgraph.exchange.markup import MEDIA_TYPE
from docgraph.exchange.request import encode_path
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import Kind, Service
from docgraph.plugins.plugin_section import bound_path
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.etags import parse_tags
from docgraph.rest.sections import Mongo
from docgraph.runtime import Blocking, run_blocking
from docgraph.runtime.sections import Core
from docgraph.store.mounts import find_paths

_ASSETS: Final = "assets"
_FOR_EVER: Final = "max-age=31536000, immutable"  # another content has another name
_COOKIE_PLUGINS: Final = ("authCookieSetter", "authCookieHandler", "authCookieRemover")
_SECRETS: Final = "auth-token"  # prefix of the headers that contain the caller's token


class ConsoleService(Service):
    """Serves the console."""

    name: ClassVar[str] = "console"
    description: ClassVar[str] = "the page in which people see, ask and change what they may"
    uri: ClassVar[str] = "/console"
    secured: ClassVar[bool] = False
    Config = Console

    def __init__(  # noqa: PLR0913 - the providers and sections
        self,
        config: Console,
        *,
        registry: PluginRegistry,
        configuration: Mapping[str, Section],
        core: Core,
        graphql: Graphql,
        mongo: Mongo,
        blocking: Blocking,
    ) -> None:
        self.config = config
        self.site = Site(STATIC)
        self._registry = registry
        self._configuration = configuration
        self._title = core.name
        self._graphql = graphql
        self._mongo = mongo
        self._prefix = bound_path(self, config)
        self._lane = blocking.lane("console", concurrency=2)

    async def handle(self, exchange: Exchange) -> Answer:
        """Return a file of the build below `assets`; elsewhere the page, which reads the path."""
        below = exchange.request.segments[len(self._prefix) :]
        if below[:1] == (_ASSETS,):
            return await self._serve_file(exchange, "/".join(below[1:]))
        manifest = await run_blocking(self._lane, self.site.find_manifest)
        if manifest is None:
            return Body(404, render_hint(), MEDIA_TYPE, list(HINT_HEADERS))
        return self._serve_index(exchange, manifest)

    def _serve_index(self, exchange: Exchange, manifest: Manifest) -> Body:
        content = render_index(manifest, encode_path(self._prefix), self._render_settings())
        etag = blake2b(content, digest_size=12).hexdigest()
        headers = [*HEADERS, ("Cache-Control", "no-cache"), ("ETag", f'"{etag}"')]
        _forget_token(exchange)
        if _knows(exchange, etag):
            return Body(304, headers=headers)
        return Body(200, content, MEDIA_TYPE, headers)

    async def _serve_file(self, exchange: Exchange, name: str) -> Body:
        coding = choose_coding(exchange.request.headers.get("accept-encoding") or "")
        variant = await run_blocking(self._lane, self.site.read, name, coding)
        if variant is None:
            raise NotFound("the console has no such file", hint="load the page again")
        # A response to an authenticated user is not for shared caches.
        scope = "public" if exchange.account is None else "private"
        etag = f"{name}{coding and '-'}{coding}"
        headers = [("Cache-Control", f"{scope}, {_FOR_EVER}"), ("Vary", "Accept-Encoding")]
        headers.append(("ETag", f'"{etag}"'))
        _forget_token(exchange)
        if _knows(exchange, etag):
            return Body(304, headers=headers)
        if coding:
            headers.append(("Content-Encoding", coding))
        return Body(200, variant.content, variant.media_type, headers)

    def _render_settings(self) -> dict[str, Any]:
        """Return what the page needs to know of the server; nothing of it is secret."""
        services = self._registry.of_kind(Kind.SERVICE)
        paths = {
            one.name: encode_path(bound_path(one, self._configuration.get(one.name))) or "/"
            for one in services
        }
        return {
            "title": self._title,
            "version": __version__,
            "base": paths[self.name],
            "paths": paths,
            "definitions": self._find_definitions() if Mongo.section_name in paths else None,
            "passwords": self._registry.find("basicAuthMechanism") is not None,
            "cookies": all(self._registry.find(name) is not None for name in _COOKIE_PLUGINS),
        }

    def _find_definitions(self) -> str | None:
        """Return where the REST API serves the definitions of apps, if at all."""
        graphql, mongo = self._graphql, self._mongo
        resource = Resource(ResourceType.COLLECTION, graphql.db, graphql.collection)
        paths = find_paths(resource, mongo.mongo_mounts, mongo.uri)
        return next(map(encode_path, paths), None)


def _knows(exchange: Exchange, etag: str) -> bool:
    known = parse_tags(exchange.request.headers.get_list("if-none-match"))
    return known is not None and etag in known


def _forget_token(exchange: Exchange) -> None:
    """Remove the caller's token from a response that caches store."""
    kept = [one for one in exchange.headers if not one[0].lower().startswith(_SECRETS)]
    exchange.headers[:] = kept
