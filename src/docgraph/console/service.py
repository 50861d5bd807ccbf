"""Console service: `GET /console` and below: the page, and the files that it loads.

No authentication, as the page has no data: it requests its data as its user, from the same
endpoints as every other client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec
import orjson

from docgraph import __version__
from docgraph.config.section import Section
from docgraph.console.sections import Console
from docgraph.exchange import Answer, Body, Exchange, Resource, ResourceType
from docgraph.exchange.errors import NotFound
from docgraph.exchange.headers import parse_weight
from docgraph.exchange.markup import MEDIA_TYPE, PageStyle, code
from docgraph.exchange.request import encode_path
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import Kind, Service
from docgraph.plugins.registry import PluginRegistry, bound_path
from docgraph.rest.etags import answer_unless_known, hash_content
from docgraph.rest.sections import Mongo
from docgraph.runtime import Blocking, run_blocking
from docgraph.runtime.sections import Core
from docgraph.store.mounts import find_paths

STATIC: Final = Path(__file__).with_name("static")
_CODINGS: Final = {"br": ".br", "gzip": ".gz"}  # the smaller one first
_TYPES: Final = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}


class Manifest(msgspec.Struct, frozen=True):
    """The build's description of its files.

    Only files that the manifest of the build names are ever read: no path is built from caller
    input.
    """

    script: str
    style: str
    preload: tuple[str, ...]
    files: frozenset[str]


@dataclass(frozen=True, slots=True)
class Variant:
    """A file in one coding."""

    content: bytes
    media_type: str


@dataclass
class Site:
    """The files in a directory. Its methods read the disk: call them in a thread."""

    directory: Path
    _stamp: float = 0.0
    _manifest: Manifest | None = None
    _read: dict[tuple[str, str], Variant] = field(default_factory=dict)

    def find_manifest(self) -> Manifest | None:
        """Return the current build, also while the server runs; None if there is none."""
        path = self.directory / "manifest.json"
        try:
            stamp = path.stat().st_mtime
            if stamp != self._stamp:
                self._manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
                self._stamp = stamp
                self._read.clear()
        except FileNotFoundError:
            self._manifest, self._stamp = None, 0.0
        return self._manifest

    def read(self, name: str, coding: str) -> Variant | None:
        """Return a file in a coding; None if the build has no file of that name."""
        cached = self._read.get((name, coding))
        if cached is not None:
            return cached
        manifest = self._manifest or self.find_manifest()
        if manifest is None or name not in manifest.files:
            manifest = self.find_manifest()  # it may have been built again
        if manifest is None or name not in manifest.files:
            return None
        path = self.directory / f"{name}{_CODINGS.get(coding, '')}"
        media_type = _TYPES.get(Path(name).suffix, "application/octet-stream")
        try:
            variant = Variant(path.read_bytes(), media_type)
        except FileNotFoundError:  # replaced by a build at this moment
            return None
        self._read[name, coding] = variant
        return variant


@lru_cache(maxsize=256)
def choose_coding(accept_encoding: str) -> str:
    """Return the best of our codings by the caller's preference, then by size; empty for none."""
    weights: Mapping[str, float] = dict(map(parse_weight, accept_encoding.split(",")))
    others = weights.get("*", 0.0)
    best = max(_CODINGS, key=lambda coding: weights.get(coding, others))
    return best if weights.get(best, others) > 0 else ""


# Only our style sheet: those of the editors are objects of the browser, which need no exception.
# Style attributes need one: a browser writes them itself into a text that is edited.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
    "connect-src 'self'; img-src 'self' data:; font-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)

_STYLE: Final = PageStyle("body{max-width:42rem}")
HINT_HEADERS: Final = (*_STYLE.headers, ("Cache-Control", "no-store"))


def render_index(manifest: Manifest, base: str, settings: dict[str, Any]) -> bytes:
    """Render the page: only the URLs of its script, its style and the services."""
    at = f"{escape(base)}/assets"
    preload = "".join(
        f'<link rel="modulepreload" href="{at}/{escape(name)}">' for name in manifest.preload
    )
    embedded = escape(orjson.dumps(settings).decode())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<meta name="docgraph-settings" content="{embedded}">'
        f"<title>{escape(str(settings['title']))}</title>"
        '<link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="{at}/{escape(manifest.style)}">{preload}'
        f'<script type="module" src="{at}/{escape(manifest.script)}"></script></head>'
        '<body><div id="console"></div><noscript>The console needs JavaScript.</noscript>'
        "</body></html>\n"
    ).encode()


def render_hint() -> bytes:
    """Render the page that is shown before a build."""
    return _STYLE.render(
        "The console is not built",
        "<h1>The console is not built</h1>"
        "<p>The server works without it. In a checkout of docgraph, build it with</p>"
        f"<pre>make console</pre><p>which needs Node 20.19 or newer, or takes Node from PyPI. "
        "Then load this page again; the server need not be restarted. Packages of docgraph "
        f"contain it already. To switch this address off, set {code('console.enabled')} to "
        f"{code('false')}.</p>",
    )


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
        if below[:1] == ("assets",):
            return await self._serve_file(exchange, "/".join(below[1:]))
        manifest = await run_blocking(self._lane, self.site.find_manifest)
        if manifest is None:
            return Body(404, render_hint(), MEDIA_TYPE, list(HINT_HEADERS))
        settings = self._render_settings(exchange.request.connection.root_path)
        content = render_index(manifest, settings["base"], settings)
        headers = [*HEADERS, ("Cache-Control", "no-cache")]
        _forget_token(exchange)
        answer = Body(200, content, MEDIA_TYPE, headers)
        return answer_unless_known(exchange.request, hash_content(content), answer)

    async def _serve_file(self, exchange: Exchange, name: str) -> Body:
        coding = choose_coding(exchange.request.headers.get("accept-encoding") or "")
        variant = await run_blocking(self._lane, self.site.read, name, coding)
        if variant is None:
            raise NotFound("the console has no such file", hint="load the page again")
        # A response to an authenticated user is not for shared caches.
        scope = "public" if exchange.account is None else "private"
        etag = f"{name}{coding and '-'}{coding}"
        headers = [("Cache-Control", f"{scope}, {_FOR_EVER}"), ("Vary", "Accept-Encoding")]
        _forget_token(exchange)
        whole = Body(200, variant.content, variant.media_type, headers)
        answer = answer_unless_known(exchange.request, etag, whole)
        if coding and answer is whole:
            headers.append(("Content-Encoding", coding))
        return answer

    def _render_settings(self, root: str) -> dict[str, Any]:
        """Return the settings that the page needs; none is secret.

        The paths are those below `root`, as rules and descriptions have them.
        """
        services = self._registry.of_kind(Kind.SERVICE)
        paths = {
            service.name: encode_path(bound_path(service, self._configuration.get(service.name)))
            or "/"
            for service in services
        }
        return {
            "title": self._title,
            "version": __version__,
            "root": root,
            "base": root + paths[self.name].rstrip("/"),
            "paths": paths,
            "tools": self._list_tools(),
            "definitions": self._find_definitions() if Mongo.section_name in paths else None,
            "passwords": self._registry.find("basicAuthMechanism") is not None,
            "cookies": all(self._registry.find(name) is not None for name in _COOKIE_PLUGINS),
        }

    def _list_tools(self) -> list[str]:
        """Return the tools below `/_tools`, some of which packages add."""
        service: Any = self._registry.find("tools")
        return [] if service is None else [*service.tools]

    def _find_definitions(self) -> str | None:
        """Return where the REST API serves the definitions of apps, if at all."""
        graphql, mongo = self._graphql, self._mongo
        resource = Resource(ResourceType.COLLECTION, graphql.db, graphql.collection)
        paths = find_paths(resource, mongo.mongo_mounts, mongo.uri)
        return next(map(encode_path, paths), None)


def _forget_token(exchange: Exchange) -> None:
    """Remove the caller's token from a response that caches store."""
    kept = [header for header in exchange.headers if not header[0].lower().startswith(_SECRETS)]
    exchange.headers[:] = kept
