"""The JSON Schema of definitions takes what works and points at what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson
import pytest

from docgraph.cli.apps.sources import find_definitions
from docgraph.codec import to_json
from docgraph.graphql.definition.definition_schema import DefinitionPart, build_json_schema

EXAMPLES = Path(__file__).parents[4] / "examples"
FOUND = find_definitions([EXAMPLES]).definitions


def is_valid(part: DefinitionPart, value: Any) -> bool:
    schema = orjson.loads(orjson.dumps(build_json_schema(part)))
    return jsonschema_rs.Draft7Validator(schema).is_valid(value)


@pytest.mark.parametrize("found", FOUND, ids=lambda found: Path(found.name).parent.name)
def test_the_examples_are_valid(found: Any) -> None:
    document = to_json(found.document)

    assert is_valid("definition", document)
    assert is_valid("mappings", document["mappings"])
    assert is_valid("app", {key: document[key] for key in ("_id", "descriptor")})


def query(**parts: Any) -> dict[str, Any]:
    return {"Query": {"a": {"db": "d", "collection": "c", **parts}}}


@pytest.mark.parametrize(
    "mappings",
    [
        query(find={"$ifarg": ["a", {"b": 1}, [{"c": 1}]]}, limit={"$arg": ["n", 5]}, skip=1),
        query(find={"$arg": "filter"}, sort={"a": 1, "b": {"$arg": "d"}, "c": {"$meta": "x"}}),
        query(stages=[{"$ifarg": [["a", "b"], [{"$match": {}}]]}], allowDiskUse=True),
        query(dataLoader={"batching": False, "maxBatchSize": 5}),
        query(find={"a": {"$fk": "b"}}, count=True, dataLoader={"batching": False}),
        query(group={"by": ["a", "b.c"], "sum": "d", "max": {"e": "f.g"}, "unwind": "b"}, limit=5),
        query(group={"avg": ["a"]}, find={}, sort={"count": -1}, skip=1, allowDiskUse=True),
        query(filter={"fields": {"a.b": ["eq", "range"], "c": ["has"]}, "indexed-only": True}),
        query(filter={"search": True}, orderBy={"fields": ["a", "b.c"], "indexed-only": False}),
        {"Status": {"ON": 1, "OFF": None, "NEVER": {"x": 1}, "SINCE": {"$date": 5}}},
        {"Hit": {"$typeResolver": {"A": "true"}}, "A": {"b": "c.0"}},
    ],
)
def test_mappings_that_work_are_valid(mappings: Any) -> None:
    assert is_valid("mappings", mappings)


@pytest.mark.parametrize(
    "mappings",
    [
        query(fnd={}),
        query(find=[]),
        query(limit=-1),
        query(limit="many"),
        query(filter={"fields": {"a": ["like"]}}),
        query(filter={"fields": ["a"]}),
        query(filter={"fields": {"a": []}}),
        query(filter={"field": {}}),
        query(orderBy={"fields": {"a": 1}}),
        query(orderBy={}),
        query(sort={"a": 2}),
        query(find={"$and": [{"$ifarg": ["x"]}]}),
        query(find={"$ifarg": [[], {}]}),
        query(stages=[{"$match": {}, "$limit": 1}]),
        query(stages={}),
        query(count=False),
        query(count=True, sort={"a": 1}),
        query(group={"by": []}),
        query(group={"by": [1]}),
        query(group={"total": "a"}),
        query(group={"unwind": {"a": "b"}}),
        {"Query": {"a": {"collection": "c"}}},
        {"Hit": {"$typeResolver": {"A": 1}}},
        {"A": []},
    ],
)
def test_mappings_that_cannot_work_are_not(mappings: Any) -> None:
    assert not is_valid("mappings", mappings)


@pytest.mark.parametrize(
    "app",
    [
        {"descriptor": {"json-mode": "fancy"}},
        {"descriptor": {"cache": {"max-age-s": 0}}},
        {"descriptor": {"cache": {"ttl": 1}}},
        {"descriptor": {"limits": {"depth": 0}}},
        {"descriptor": {"limits": {"dept": 3}}},
        {"descriptor": {"url": "/x"}},
        {"descriptor": {"operations": [{"name": "all"}]}},
        {"_id": ""},
    ],
)
def test_descriptors_that_cannot_work_are_not(app: Any) -> None:
    assert not is_valid("app", app)


def test_prepared_queries_are_valid() -> None:
    assert is_valid("app", {"descriptor": {"operations": [{"name": "all", "query": "{ a }"}]}})


def test_a_definition_needs_its_schema_and_its_mappings() -> None:
    assert not is_valid("definition", {"_id": "a", "schema": "type Query"})
    assert not is_valid("definition", {"_id": "a", "mappings": {}})
