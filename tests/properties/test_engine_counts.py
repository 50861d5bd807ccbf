"""Counts of many parents in one command agree with the database, whatever the keys are."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from graphql import parse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient

from docgraph.graphql.apps.compiled_app import build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.sections import Graphql
from tests.chance import examples
from tests.databases import drop
from tests.properties.engine_runner import Engine
from tests.properties.test_engine_join import values

SETTINGS = Graphql()
SCHEMA = """
type Query { parents: [Parent!]! parent(id: Int!): Parent }
type Parent { _id: Int! same: Int! any: Int! some: Int! }
"""


def build_mappings(db: str) -> dict[str, Any]:
    def count(find: dict[str, Any]) -> dict[str, Any]:
        return {"db": db, "collection": "children", "find": find, "count": True}

    parents = {"db": db, "collection": "parents", "sort": {"_id": 1}}
    return {
        "Query": {"parents": parents, "parent": {**parents, "find": {"_id": {"$arg": "id"}}}},
        "Parent": {
            "same": count({"a": {"$fk": "key"}}),
            "any": count({"a": {"$in": {"$fk": "key"}}}),
            "some": count({"a": {"$fk": "key"}, "odd": True}),
        },
    }


@given(
    stored=st.lists(values, min_size=1, max_size=12),
    keys=st.lists(values, min_size=2, max_size=6),
)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
def test_counts_agree_with_the_database(
    engine: Engine, mongo_client: MongoClient[dict[str, Any]], stored: list[Any], keys: list[Any]
) -> None:
    db = f"counts_{uuid4().hex}"
    children = mongo_client[db].children
    children.insert_many([{"a": one, "odd": bool(n % 2)} for n, one in enumerate(stored)])
    mongo_client[db].parents.insert_many([{"_id": n, "key": one} for n, one in enumerate(keys)])
    definition = {"_id": "counts", "schema": SCHEMA, "mappings": build_mappings(db)}
    app = build_app(decode_definition(definition), SETTINGS).visible_to(())
    try:
        found = engine.answer(app, parse("{ parents { _id same any some } }"), {})
        assert not found.problems
        for number, key in enumerate(keys):
            many = key if isinstance(key, list) else [key]
            many = [one for one in many if one is not None]
            own = {"a": {"$eq": key}}
            expected = {
                "_id": number,
                "same": 0 if key is None else children.count_documents(own),
                "any": children.count_documents({"a": {"$in": many}}),
                "some": 0 if key is None else children.count_documents({**own, "odd": True}),
            }
            assert found.data["parents"][number] == expected, key
            text = f"{{ parent(id: {number}) {{ _id same any some }} }}"
            assert engine.answer(app, parse(text), {}).data["parent"] == expected, key
    finally:
        drop(mongo_client, db)
