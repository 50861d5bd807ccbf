"""The description as a pure function of facts: endpoints, operations, schemas, page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import ResourceType
from docgraph.openapi.components import OPERATIONS
from docgraph.openapi.described_resources import (
    DescribedApp,
    Survey,
    convert_schema,
    find_references,
    name_component,
)
from docgraph.openapi.document import DescribedServices, build_document
from docgraph.openapi.endpoints import CollectionPaths, Mounted, find_endpoints, read_mounts
from docgraph.openapi.service import describe_security, render_page
from docgraph.openapi.services import Bound
from docgraph.rest.sections import Mongo
from docgraph.rest.service import HANDLERS
from docgraph.store.sections import MongoMount
from tests.descriptions import check_description

HERE = Path(__file__).parent


def build(mounts: tuple[Mounted, ...] = (Mounted("", ("db",)),), **facts: Any) -> dict[str, Any]:
    document = build_document(DescribedServices("test", Mongo(), mounts, **facts))
    check_description(document)
    return document


def test_every_handler_is_described_and_nothing_else() -> None:
    described = {(type, method) for type, methods in OPERATIONS.items() for method in methods}

    assert described == HANDLERS.keys()


def test_the_rest_api_is_described_as_before() -> None:
    """`operations.txt` has a line for each operation; a change of it is a change of the API."""
    paths = build()["paths"].items()
    operations = [
        summarise(path, item, method)
        for path, item in paths
        for method in ("get", "post", "put", "patch", "delete")
        if method in item
    ]

    assert operations == (HERE / "operations.txt").read_text().splitlines()


def summarise(path: str, item: dict[str, Any], method: str) -> str:
    operation = item[method]
    parameters = [name_of(one) for one in (*item.get("parameters", ()), *operation["parameters"])]
    body = [name_of(operation["requestBody"])] if "requestBody" in operation else []
    answers = [f"{status}={name_of(one)}" for status, one in operation["responses"].items()]
    return f"{method} {path}: {' '.join((*parameters, *body))} -> {' '.join(answers)}"


def name_of(part: dict[str, str]) -> str:
    return part["$ref"].rsplit("/", 1)[1]


def test_every_operation_tells_of_refused_callers_and_of_faults() -> None:
    for operation in (
        operation for methods in OPERATIONS.values() for operation in methods.values()
    ):
        assert {400, 401, 403, 429, 500, 503} <= operation.statuses.keys()
        assert (413 in operation.statuses) == (operation.body is not None)


def test_too_many_requests_tells_of_limits_of_callers_and_their_fields() -> None:
    answer = build()["components"]["responses"]["Error429"]

    assert "failed logins" in answer["description"]
    assert "requests of a caller who is limited" in answer["description"]
    assert answer["headers"].keys() == {"Retry-After", "RateLimit", "RateLimit-Policy"}


def test_every_reference_leads_somewhere() -> None:
    document = build()
    names = {
        f"#/components/{kind}/{name}"
        for kind, parts in document["components"].items()
        for name in parts
    }

    assert set(references(document)) <= names


def test_the_schema_of_definitions_is_a_component_where_there_are_apps() -> None:
    graphql = Bound("graphql", "/graphql", "", ("POST",), exact=False, secured=True)
    schema = build(services=(graphql,))["components"]["schemas"]["AppDefinition"]

    own = "#/components/schemas/AppDefinition/definitions/"
    assert {one.removeprefix(own) for one in references(schema)} <= schema["definitions"].keys()
    assert "AppDefinition" not in build()["components"]["schemas"]


def references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [one for value in part.values() for one in references(value)]
    return [one for value in part for one in references(value)] if isinstance(part, list) else []


def test_operation_ids_are_unique() -> None:
    listed = (
        CollectionPaths("db", "a-b"),
        CollectionPaths("db", "a_b"),
        CollectionPaths("db", "a b"),
    )
    document = build(survey=Survey(collections=listed))

    ids = [
        operation["operationId"]
        for item in document["paths"].values()
        for operation in item.values()
        if isinstance(operation, dict)
    ]

    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("what", "where", "prefix", "expected"),
    [
        ("/db", "/", "/", Mounted("", ("db",))),
        ("/db", "/x", "/api", Mounted("/api/x", ("db",))),
        ("*", "/", "/", Mounted("", ())),
        ("/db/c/d", "/one", "/", Mounted("/one", ("db", "c", "d"))),
        ("/{t}", "/{t}/*", "/", Mounted("/{t}", ("{t}",), is_open=True)),
        ("/db", "/{t}/*", "/", Mounted("/{t}", ("db",))),
    ],
)
def test_mounts_become_path_templates(
    what: str, where: str, prefix: str, expected: Mounted
) -> None:
    assert read_mounts([MongoMount(what=what, where=where)], prefix) == (expected,)


def test_the_longest_mount_comes_first_and_keeps_its_path() -> None:
    mounts = read_mounts(
        [MongoMount(what="*", where="/"), MongoMount(what="/db", where="/{tenant}")], "/"
    )
    document = build(mounts)

    # `/{tenant}` and `/{db}` are one path: the mount that is found first has it.
    assert "/{tenant}" in document["paths"]
    assert "/{db}" not in document["paths"]


def test_a_document_can_be_mounted_alone() -> None:
    endpoints = list(find_endpoints(Mounted("/doc", ("db", "c", "d")), ()))

    assert [(one.path, one.type) for one in endpoints] == [("/doc", ResourceType.DOCUMENT)]


def test_the_page_size_is_the_one_of_the_configuration() -> None:
    settings = Mongo(default_pagesize=50, max_pagesize=20)
    document = build_document(DescribedServices("test", settings, (Mounted("", ("db",)),)))

    schema = document["components"]["parameters"]["pagesize"]["schema"]
    assert (schema["default"], schema["maximum"]) == (20, 20)


def test_a_plugin_is_described_by_path_and_methods() -> None:
    plugin = Bound("shop", "/shop", "sells things", ("GET", "POST"), exact=False, secured=True)

    item = build(services=(plugin,))["paths"]["/shop"]

    assert {"get", "post"} <= item.keys()
    assert item["get"]["summary"] == "sells things"
    assert list(item["get"]["responses"]) == ["default"]


def test_an_app_is_described_at_its_encoded_address() -> None:
    graphql = Bound("graphql", "/graphql", "", ("POST",), exact=False, secured=True)
    survey = Survey(apps=(DescribedApp(("v1", "my films"), "films"),))

    assert "/graphql/v1/my%20films" in build(services=(graphql,), survey=survey)["paths"]


def test_basic_is_one_scheme_whoever_reads_it() -> None:
    schemes = describe_security(["tokenBasicAuthMechanism", "basicAuthMechanism", "own"], None)

    assert schemes == {"basic": {"type": "http", "scheme": "basic"}}


# --- JSON schemas ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
        ({"exclusiveMinimum": 3}, {"exclusiveMinimum": 3}),
        (
            {"items": [{"type": "string"}], "additionalItems": False},
            {"prefixItems": [{"type": "string"}]},
        ),
        (
            {"dependencies": {"a": ["b"], "c": {"type": "object"}}},
            {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"type": "object"}}},
        ),
        ({"properties": {"id": {"type": "string"}}}, {"properties": {"id": {"type": "string"}}}),
        ({"enum": [{"$ref": "x"}]}, {"enum": [{"$ref": "x"}]}),
        ({"id": "http://x", "$schema": "y", "_etag": 1, "type": "object"}, {"type": "object"}),
        ({"$ref": "#/definitions/a"}, {"$ref": "#/components/schemas/own/definitions/a"}),
        ({"$ref": "#"}, {"$ref": "#/components/schemas/own"}),
        ({"$ref": "http://schema-store/db/o#/p"}, {"$ref": "#/components/schemas/other/p"}),
        ({"$ref": "http://schema-store/db/none"}, {}),
        ({"$ref": "http://elsewhere/x"}, {}),
        ({"$ref": "#anchor"}, {}),
        ({"$ref": 1}, {}),
    ],
)
def test_older_drafts_become_the_present_one(schema: Any, expected: Any) -> None:
    assert convert_schema(schema, "own", {("db", "o"): "other"}) == expected


def test_references_to_the_store_are_found_wherever_they_stand() -> None:
    hex = "5f0000000000000000000001"
    schema = {
        "properties": {"a": {"$ref": "http://schema-store/db/one#"}},
        "anyOf": [{"$ref": f"http://schema-store/other/{hex}#/x"}, {"$ref": "http://else/y"}],
    }

    assert list(find_references(schema)) == [("db", "one"), ("other", ObjectId(hex))]


def test_names_of_components_are_safe_and_different() -> None:
    first = name_component(("db", "a/b"), {})

    assert first == "db.a_b"
    assert name_component(("db", "a b"), {first: None}) == "db.a_b_2"


# --- the page -------------------------------------------------------------------------------------


def test_the_page_escapes_what_it_shows() -> None:
    survey = Survey(collections=(CollectionPaths("db", "<img src=x onerror=alert(1)>&"),))

    page = render_page(build(survey=survey)).decode()

    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;&amp;" in page


def test_the_page_shows_every_operation() -> None:
    document = build()
    page = render_page(document).decode()

    assert page.count("<details>") == sum(
        isinstance(one, dict) for item in document["paths"].values() for one in item.values()
    )
