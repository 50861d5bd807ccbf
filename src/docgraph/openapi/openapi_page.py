"""OpenAPI page: one HTML text that needs no script, no network and no other file.

Everything from the database or the configuration is escaped. In addition, the content security
policy forbids scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from docgraph.exchange import Document
from docgraph.exchange.markup import PageStyle

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

Found = tuple[str, str, Document, list[Document]]  # path, method, operation, parameters


def render_page(document: Document) -> bytes:
    """Render the page of an OpenAPI document."""
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
        for found in operations:
            if tag in found[2]["tags"]:
                yield from _render_operation(found, document)
        yield "</section>"


def _find_operations(document: Document) -> Iterator[Found]:
    for path, item in document["paths"].items():
        shared = item.get("parameters", [])
        for method in _METHODS:
            if method in item:
                operation = item[method]
                listed = [*shared, *operation.get("parameters", [])]
                yield path, method, operation, [_resolve(one, document) for one in listed]


def _render_operation(found: Found, document: Document) -> Iterator[str]:
    path, method, operation, parameters = found
    yield f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> "
    yield f"– {_text(operation.get('summary', ''))}</summary>"
    if operation.get("description"):
        yield f"<p>{_text(operation['description'])}</p>"
    if parameters:
        rows = ([one["name"], one["in"], _describe_parameter(one)] for one in parameters)
        yield from _render_table(("parameter", "in", ""), rows)
    body = operation.get("requestBody")
    if body is not None:
        media = ", ".join(_resolve(body, document)["content"])
        yield f"<p>Body: <code>{escape(media)}</code></p>"
    rows = (
        [status, _resolve(one, document)["description"]]
        for status, one in operation["responses"].items()
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
    choices = ", ".join(f"`{one}`" for one in schema.get("enum", ()))
    names = _names_of(parameter)
    parts = [parameter.get("description", "") + needed, choices, names]
    return "; ".join(part for part in parts if part)


def _names_of(parameter: Mapping[str, Any]) -> str:
    """Return the properties of a JSON parameter: the variables of an aggregation."""
    for media in parameter.get("content", {}).values():
        properties = media["schema"].get("properties", {})
        if properties:
            return ", ".join(f"`{name}`" for name in properties)
    return ""


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
