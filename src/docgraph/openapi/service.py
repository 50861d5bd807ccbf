"""OpenAPI service: `GET /openapi.json` describes this instance; `GET /openapi` is the page.

Both are secured: only callers with the permission see what is mounted. They describe the
configuration and the current resources; nothing is cached. The page is one HTML text that needs no
script, no network and no other file. Everything from the database or the configuration is escaped.
In addition, the content security policy forbids scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, ClassVar, Final

from docgraph.auth.cookies.sections import AuthCookieSetter
from docgraph.auth.mechanisms.sections import ApiKeyMechanism
from docgraph.codec import JsonMode, encode
from docgraph.config.section import Section
from docgraph.exchange import Answer, Body, Connection, Deadline, Document, Exchange
from docgraph.exchange.markup import PageStyle
from docgraph.exchange.request import encode_path
from docgraph.graphql.sections import Graphql
from docgraph.openapi.components import SECURITY_SCHEMES
from docgraph.openapi.described_resources import Surveyor
from docgraph.openapi.document import DescribedServices, build_document
from docgraph.openapi.endpoints import read_mounts
from docgraph.openapi.sections import OpenApi, OpenApiPage
from docgraph.openapi.services import Bound
from docgraph.plugins.kinds import Kind, Service
from docgraph.plugins.registry import PluginRegistry, bound_path, is_secured
from docgraph.rest.etags import answer_unless_known, hash_content
from docgraph.rest.sections import Mongo
from docgraph.runtime import Generations
from docgraph.runtime.sections import Core
from docgraph.store import Store
from docgraph.store.catalog import Catalog

_STYLE: Final = PageStyle(
    """
body{max-width:60rem}h2{border-bottom:1px solid var(--line)}
nav a{margin-right:1rem;white-space:nowrap}
details{border:1px solid var(--line);border-radius:.4rem;margin:.4rem 0;padding:.3rem .7rem}
summary{cursor:pointer}summary b{display:inline-block;min-width:4.5rem}
table{border-collapse:collapse;width:100%;margin:.5rem 0}
th,td{text-align:left;vertical-align:top;padding:.25rem .6rem;border-bottom:1px solid var(--line)}
th{font-weight:600}
"""
)

HEADERS: Final = _STYLE.headers

_METHODS: Final = ("get", "post", "put", "patch", "delete")
_CODE: Final = re.compile(r"`([^`]+)`")

# Path, method, operation, parameters.
DescribedOperation = tuple[str, str, Document, list[Document]]


def render_page(document: Document) -> bytes:
    return _STYLE.render(str(document["info"]["title"]), "".join(_render(document)))


def _render(document: Document) -> Iterator[str]:
    title = escape(str(document["info"]["title"]))
    yield f"<h1>{title}</h1>"
    yield f"<p>{_text(document['info']['description'])}</p>"
    tags = [tag["name"] for tag in document["tags"]]
    yield "<nav>"
    yield from (f'<a href="#t{index}">{escape(tag)}</a> ' for index, tag in enumerate(tags))
    yield "</nav>"
    left_out = document.get("x-docgraph-collections-left-out")
    if left_out:
        yield f"<p>{left_out} more collections are not shown one by one.</p>"
    operations = list(_find_operations(document))
    for index, tag in enumerate(tags):
        yield f'<section><h2 id="t{index}">{escape(tag)}</h2>'
        for operation in operations:
            if tag in operation[2]["tags"]:
                yield from _render_operation(operation, document)
        yield "</section>"


def _find_operations(document: Document) -> Iterator[DescribedOperation]:
    for path, item in document["paths"].items():
        shared = item.get("parameters", [])
        for method in _METHODS:
            if method in item:
                operation = item[method]
                listed = [*shared, *operation.get("parameters", [])]
                yield (
                    path,
                    method,
                    operation,
                    [_resolve(parameter, document) for parameter in listed],
                )


def _render_operation(described: DescribedOperation, document: Document) -> Iterator[str]:
    path, method, operation, parameters = described
    yield f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> "
    yield f"– {_text(operation.get('summary', ''))}</summary>"
    if operation.get("description"):
        yield f"<p>{_text(operation['description'])}</p>"
    if parameters:
        rows = ([each["name"], each["in"], _describe_parameter(each)] for each in parameters)
        yield from _render_table(("parameter", "in", ""), rows)
    body = operation.get("requestBody")
    if body is not None:
        media = ", ".join(_resolve(body, document)["content"])
        yield f"<p>Body: <code>{escape(media)}</code></p>"
    rows = (
        [status, _resolve(response, document)["description"]]
        for status, response in operation["responses"].items()
    )
    yield from _render_table(("answer", ""), rows)
    yield "</details>"


def _render_table(heads: tuple[str, ...], rows: Any) -> Iterator[str]:
    yield f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>"
    for first, *others in rows:
        cells = "".join(f"<td>{_text(cell)}</td>" for cell in others)
        yield f"<tr><td><code>{escape(str(first))}</code></td>{cells}</tr>"
    yield "</table>"


def _describe_parameter(parameter: Mapping[str, Any]) -> str:
    needed = " (required)" if parameter.get("required") and parameter["in"] != "path" else ""
    schema = parameter.get("schema", {})
    choices = ", ".join(f"`{choice}`" for choice in schema.get("enum", ()))
    names = ""  # of the properties of a JSON parameter: the variables of an aggregation
    for media in parameter.get("content", {}).values():
        names = names or ", ".join(f"`{name}`" for name in media["schema"].get("properties", ()))
    parts = [parameter.get("description", "") + needed, choices, names]
    return "; ".join(part for part in parts if part)


def _resolve(part: Document, document: Document) -> Document:
    """Return the component that a reference leads to."""
    reference = part.get("$ref")
    if reference is None:
        return part
    kind, name = reference.removeprefix("#/components/").split("/")
    component: Document = document["components"][kind][name]
    return component


def _text(text: str) -> str:
    """Render prose with its `code`."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


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

    async def describe(self, connection: Connection) -> Document:
        """Describe what is currently served, as a client of this connection reaches it."""
        services = tuple(map(self._bind, self._registry.of_kind(Kind.SERVICE)))
        bound = {service.name for service in services}
        apps = self._graphql if "graphql" in bound else None
        survey_resources = self._surveyor.survey if "mongo" in bound else self._surveyor.survey_apps
        survey = await survey_resources(apps, Deadline.after_ms(_LONGEST_MS))
        return build_document(
            DescribedServices(
                title=self._core.name,
                settings=self._mongo if "mongo" in bound else None,
                mounts=self._mounts,
                survey=survey,
                services=services,
                security=describe_security(
                    [mechanism.name for mechanism in self._registry.of_kind(Kind.AUTH_MECHANISM)],
                    self._cookie.name if self._registry.find("authCookieHandler") else None,
                    getattr(self._registry.find("apiKeyMechanism"), "config", None),
                ),
                has_streams=self._registry.find("events") is not None,
                base_url=connection.find_base(self._core.base_url or "") or None,
            )
        )

    def _bind(self, service: Service) -> Bound:
        section = self._configuration.get(service.name)
        return Bound(
            name=service.name,
            path=encode_path(bound_path(service, section)),
            description=service.description,
            methods=tuple(service.methods),
            exact=service.exact,
            secured=is_secured(service, section),
            parts=getattr(service, "tools", None),
        )


class OpenApiService(_Describing):
    """Serves the description to programs."""

    name: ClassVar[str] = "openapi"
    description: ClassVar[str] = "describes what is served, in OpenAPI 3.1"
    uri: ClassVar[str] = "/openapi.json"
    Config = OpenApi

    async def handle(self, exchange: Exchange) -> Answer:
        """Return the document, or 304 for a client that has it already."""
        content = encode(await self.describe(exchange.request.connection), JsonMode.STANDARD)
        answer = Body(200, content, "application/json")
        return answer_unless_known(exchange.request, hash_content(content), answer)


class OpenApiPageService(_Describing):
    """Serves the description to people."""

    name: ClassVar[str] = "openapiPage"
    description: ClassVar[str] = "describes what is served, as a page for people"
    uri: ClassVar[str] = "/openapi"
    Config = OpenApiPage

    async def handle(self, exchange: Exchange) -> Answer:
        """Return one page, without scripts and without external resources."""
        page = render_page(await self.describe(exchange.request.connection))
        return Body(200, page, "text/html", list(HEADERS))


def describe_security(
    mechanisms: Iterable[str], cookie: str | None, keys: ApiKeyMechanism | None = None
) -> dict[str, Document]:
    """Return enabled mechanisms as security schemes; `cookie` is the name of one that is read."""
    enabled = (SECURITY_SCHEMES[name] for name in mechanisms if name in SECURITY_SCHEMES)
    schemes = {str(scheme["scheme"]): scheme for scheme in enabled}
    if cookie is not None:
        schemes["cookie"] = {"type": "apiKey", "in": "cookie", "name": cookie}
    if keys is not None and keys.header is not None:
        schemes["key"] = {"type": "apiKey", "in": "header", "name": keys.header}
    return schemes
