"""Arguments by which a caller may compare or sort by a hidden field are tried."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from docgraph.graphql.apps.compiled_app import build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.sections import Graphql
from docgraph_workbench.fuzz.argument_probes import ArgumentProbes
from docgraph_workbench.fuzz.fuzz_values import Guesses

SCHEMA = """
type Query { people(by: BsonDocument, least: Int): [Person] }
type Person { name: String salary: Int @visible(roles: ["hr"]) }
"""
PEOPLE = {"db": "d", "collection": "people"}
DOCUMENT = {"$group": {"_id": "$name", "doc": {"$first": "$$ROOT"}}}
ROOT = {"$replaceRoot": {"newRoot": "$doc"}}
LEAST = {"$gte": {"$arg": "least"}}


@pytest.mark.parametrize(
    ("mapping", "values"),
    [
        ({"sort": {"$arg": "by"}}, [{"salary": 77}, {"salary": 1}]),
        ({"find": {"$arg": "by"}}, [{"salary": 77}, {"salary": 1}]),
        ({"stages": [{"$sort": {"$arg": "by"}}]}, [{"salary": 77}, {"salary": 1}]),
        ({"stages": [DOCUMENT, {"$match": {"doc.salary": LEAST}}, ROOT]}, [77]),
        (
            {"stages": [{"$set": {"x": {"$objectToArray": "$$ROOT"}}}, {"$match": {"x.v": LEAST}}]},
            [77],
        ),
    ],
)
def test_arguments_are_tried_with_values_filters_and_orders(
    mapping: dict[str, Any], values: list[Any]
) -> None:
    mappings = {"Query": {"people": {**PEOPLE, **mapping}}}
    definition = decode_definition({"_id": "a", "schema": SCHEMA, "mappings": mappings})
    random = Random(1)
    probes = ArgumentProbes(build_app(definition, Graphql()), (), random, Guesses(random, {}), [])
    tried = [
        value for query in probes.probe({"salary": [77]}) for value in query.variables.values()
    ]
    shown = [value[1] if isinstance(value, tuple) else value for value in tried]
    assert [value for value in values if value not in shown] == [], shown
