"""Whatever the documents are: what is inferred passes the check, also on top of itself."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.chance import examples

from docgraph.codec.bson_types import (
    Binary,
    Code,
    Decimal128,
    Int64,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from docgraph.config.config_node import Origin, to_plain
from docgraph.config.parse import parse_yaml
from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.sections import Graphql
from docgraph.store.catalog import Listed
from docgraph.store.collection_stats import Index
from docgraph_workbench.infer.candidates import find_keys, find_sources, score_name
from docgraph_workbench.infer.existing_definition import read_existing
from docgraph_workbench.infer.infer import Inferred, KnownNames, build_app, build_model
from docgraph_workbench.infer.merge import merge
from docgraph_workbench.infer.relations import InferredRelation
from docgraph_workbench.infer.survey import Surveyed

KEYS = st.one_of(
    st.sampled_from(
        "_id id Id name names title type types status a a_b a-b aB a.b a::b _$a $a __a 2nd "
        "2024 limit skip search where orderBy order and not sortByName user users userId user_id "
        "password token items "
        "children parent coordinates Query String nameMatches aMin aMax query mutation on".split()
    ),
    st.sampled_from(
        ["", " ", "a b", "名前", "a'b", 'a"b', "a[0]", "['x']", "\n", "#", "é", "_", "9"]
    ),
    st.text(max_size=6).filter(lambda text: "\0" not in text),
)
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1).map(Int64),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["open", "closed", "$2b$12$x", "2024-01-01", "a\nb", '"', "\\", '"""', "EUR"]),
    st.sampled_from([ObjectId(bytes([one]) * 12) for one in range(4)]),
    st.sampled_from(
        [
            datetime(2024, 5, 1),
            Decimal128("1.5"),
            Timestamp(1, 2),
            Regex("^a"),
            Binary(b"x", 0),
            Binary.from_uuid(UUID(int=7)),
            Code("x"),
            MinKey(),
            b"raw",
        ]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
DOCUMENTS = st.lists(st.dictionaries(KEYS, VALUES, max_size=6), min_size=1, max_size=5)
NAMES = st.sampled_from(
    [
        "users",
        "user",
        "Users",
        "orders",
        "2024-logs",
        "a.b",
        "-",
        "strings",
        "queries",
        "日本",
        "data",
    ]
)
COLLECTIONS = st.dictionaries(NAMES, DOCUMENTS, min_size=1, max_size=4)
SETTINGS = Graphql()


def survey(name: str, documents: list[dict[str, Any]], repeat: int) -> Surveyed:
    found = Surveyed("shop", Listed(name), documents=len(documents) * repeat)
    for _ in range(repeat):
        found.profile.add_all(documents)
    keys = [key for key in found.profile.shape.fields if key and "$" not in key]
    found.indexes = tuple(Index(((key, 1),), unique=True) for key in keys[:3])
    return found


def relate(collections: list[Surveyed]) -> list[InferredRelation]:
    """All relations that might be believed, so that what they lead to is built."""
    keys = [key for one in collections for key in find_keys(one)]
    return [
        InferredRelation(source, key, score_name(source, key), 1, 1)
        for one in collections
        for source in find_sources(one)
        for key in [key for key in keys if key.family == source.family][:1]
    ]


def check(schema: str, mappings: dict[str, Any]) -> list[str]:
    app = build_app("shop", "shop")
    document = {**app, "schema": schema, "mappings": mappings}
    return [str(one) for one in check_definition(document, settings=SETTINGS).errors]


@settings(max_examples=examples(25))
@given(COLLECTIONS, st.sampled_from([1, 60]))
def test_every_inferred_definition_passes_the_check(
    data: dict[str, list[dict[str, Any]]], repeat: int
) -> None:
    collections = [survey(name, documents, repeat) for name, documents in data.items()]

    found = Inferred(build_model(collections, relate(collections), KnownNames()))

    if not found.model.types["Query"].fields:
        return  # there is nothing to check
    assert check(found.schema, found.mappings) == []
    text = parse_yaml(found.render_mappings(), lambda line, column: Origin("", line, column))
    assert text.node is not None
    assert text.problems == ()
    assert to_plain(text.node) == found.mappings


@settings(max_examples=examples(12))
@given(COLLECTIONS, COLLECTIONS)
def test_what_is_inferred_again_is_added_and_then_nothing_is_new(
    first: dict[str, list[dict[str, Any]]], second: dict[str, list[dict[str, Any]]]
) -> None:
    begun = [survey(name, documents, 1) for name, documents in first.items()]
    before = Inferred(build_model(begun, relate(begun), KnownNames()))
    both = [
        survey(name, [*first.get(name, []), *documents], 1) for name, documents in second.items()
    ]
    if not before.model.types["Query"].fields:
        return  # there is nothing to add to
    existing = read_existing(before.schema, before.mappings)
    names = KnownNames(existing.name_collections("shop"), existing.name_nested())

    merged = merge(existing, build_model(both, relate(both), names))

    whole = {**before.mappings}
    for owner, entries in merged.mappings.items():
        whole[owner] = {**whole.get(owner, {}), **entries}
    assert check(merged.schema, whole) == []
    again = read_existing(merged.schema, whole)
    names = KnownNames(again.name_collections("shop"), again.name_nested())
    assert merge(again, build_model(both, relate(both), names)).added == []
