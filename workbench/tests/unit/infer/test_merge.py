"""Inferring again adds what is new; what people wrote, renamed or took out stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.exchange.errors import DefinitionError
from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.sections import Graphql
from docgraph.store.catalog import Listed
from docgraph_workbench.infer.existing_definition import read_existing
from docgraph_workbench.infer.infer import KnownNames, build_app, build_model
from docgraph_workbench.infer.merge import Merged, merge
from docgraph_workbench.infer.survey import Surveyed

SCHEMA = """# by hand
type Query {
  "The best ones"
  articles(limit: Int = 5): [Article!]!
}

# people call them so
type Article { key: Int! headline: String! # as in print
  # draft: Boolean
  shout: String
}
"""
LIST = {"db": "shop", "collection": "posts", "find": {"live": True}, "limit": {"$arg": "limit"}}
MAPPINGS: dict[str, Any] = {
    "Query": {"articles": LIST},
    "Article": {"key": "_id", "headline": "title"},
}


def add(*documents: dict[str, Any], schema: str = SCHEMA, mappings: Any = MAPPINGS) -> Merged:
    collection = Surveyed("shop", Listed("posts"))
    collection.profile.add_all(documents)
    collection.documents = len(documents)
    existing = read_existing(schema, mappings)
    names = KnownNames(existing.name_collections("shop"), existing.name_nested())
    merged = merge(existing, build_model([collection], [], names))
    whole = {**mappings}
    for owner, entries in merged.mappings.items():
        whole[owner] = {**whole.get(owner, {}), **entries}
    document = {**build_app("a", "shop"), "schema": merged.schema, "mappings": whole}
    assert check_definition(document, settings=Graphql()).errors == ()
    return merged


def test_fields_are_added_to_the_type_that_a_collection_has_under_its_name() -> None:
    merged = add({"_id": 1, "title": "a", "year": 2024, "seo": {"robots": "none"}})

    assert merged.added == ["Query.post", "Article.year", "Article.seo", "ArticleSeo"]
    assert "  year: Int" in merged.schema
    assert "type Post" not in merged.schema


@pytest.mark.parametrize("comment", ["", " # later"])
def test_a_type_without_a_block_gets_one(comment: str) -> None:
    rest = "extend type Query { one: Int } type Article { key: Int! headline: String! }"
    mappings = {"Article": MAPPINGS["Article"]}

    merged = add({"_id": 1, "title": "a"}, schema=f"type Query{comment}\n{rest}", mappings=mappings)

    assert "Query.posts" in merged.added
    assert merged.schema.startswith("type Query {\n")
    assert f"\n}}{comment}\n{rest}" in merged.schema


def test_every_line_that_was_there_stays() -> None:
    merged = add({"_id": 1, "title": "a", "year": 2024})

    lines = merged.schema.splitlines()
    for line in SCHEMA.splitlines():
        assert line in lines
    assert merged.mappings.get("Article") is None  # `year` reads the property of its own name


def test_what_was_commented_out_stays_out() -> None:
    merged = add({"_id": 1, "title": "a", "draft": True})

    assert not [name for name in merged.added if name.endswith(".draft")]
    typed = SCHEMA + "# type ArticleSeo was of no use\n"
    merged = add({"_id": 1, "title": "a", "seo": {"robots": "x"}}, schema=typed)
    assert not [name for name in merged.added if "seo" in name.lower()]


def test_what_the_sample_shows_otherwise_is_told_and_kept() -> None:
    merged = add({"_id": 1, "title": "a", "shout": 5})

    assert "Article.shout: kept as String; the sample shows Int" in merged.notes
    merged = add({"_id": 1, "title": 7})
    assert "Article.headline: kept as String!; the sample shows Int" in merged.notes
    merged = add({"_id": 1, "title": "a"})
    assert not [note for note in merged.notes if "headline" in note]
    assert "Article.shout: kept; the sample has no property 'shout'" in merged.notes


def test_a_field_that_looks_like_a_secret_is_kept_with_the_reason() -> None:
    schema = SCHEMA.replace("shout: String", "shout: String pin: String old: String")
    mappings = {**MAPPINGS, "Article": {**MAPPINGS["Article"], "old": "reset-code"}}
    document = {"_id": 1, "title": "a", "shout": None, "pin": "1", "reset-code": "2"}
    notes = add(document, schema=schema, mappings=mappings).notes

    assert "Article.pin: kept; it looks like a secret" in notes
    assert "Article.old: kept; it looks like a secret" in notes
    assert "Article.shout: kept; it is always null or empty in the sample" in notes


def test_secrets_are_told_once() -> None:
    merged = add({"_id": 1, "title": "a", "password": "b"})

    assert merged.schema.count("# password: left out") == 1
    again = add({"_id": 1, "title": "a", "password": "b"}, schema=merged.schema)
    assert again.schema.count("# password: left out") == 1


def test_a_new_value_is_added_to_an_enum_under_the_name_that_it_has() -> None:
    schema = SCHEMA.replace("shout: String", "mood: Mood") + "enum Mood { GOOD }\n"
    mappings = {**MAPPINGS, "Mood": {"GOOD": "good"}}
    documents = [{"_id": n, "title": "a", "mood": ["good", "very-bad"][n % 2]} for n in range(60)]

    merged = add(*documents, schema=schema, mappings=mappings)

    assert merged.mappings["Mood"] == {"VERY_BAD": "very-bad"}
    assert "Mood.VERY_BAD" in merged.added


def test_types_that_nothing_new_needs_are_not_added() -> None:
    documents = [{"_id": n, "title": "a", "shout": ["loud", "quiet"][n % 2]} for n in range(60)]

    merged = add(*documents)  # `shout` would be an enum, and is a String here

    assert "enum ArticleShout" not in merged.schema


def test_a_schema_that_cannot_be_read_is_not_added_to() -> None:
    with pytest.raises(DefinitionError, match="cannot be read"):
        read_existing("type Query {", {})


HIDDEN = """
type Query {
  staff(salaryMin: Int, home: Home, rank: Int!): [Person]
}
input Home { city: String street: String }
type Person {
  _id: Int
  salary: Int @visible(roles: ["hr", "boss"])
  email: String @visible(roles: ["hr"])
  rank: Int @visible(roles: ["hr"])
  street: String @visible(roles: ["hr"])
}
"""


def test_arguments_get_the_visibility_of_their_field() -> None:
    """Decision 59: those that are new, and those that are already there."""
    conditions = [
        {"$ifarg": ["salaryMin", {"salary": {"$gte": {"$arg": "salaryMin"}}}]},
        {"$ifarg": ["home.street", {"street": {"$arg": "home.street"}}]},
        {"rank": {"$arg": "rank"}},
    ]
    place = {"db": "shop", "collection": "posts"}
    person = {"_id": "_id", "salary": "salary", "email": "email"}
    mappings = {"Query": {"staff": {**place, "find": {"$and": conditions}}}, "Person": person}
    documents = [
        {"_id": one, "salary": one, "email": f"a{one}@b.c", "rank": one, "street": "x", "name": "A"}
        for one in range(5)
    ]

    merged = add(*documents, schema=HIDDEN, mappings=mappings)

    assert 'salaryMin: Int @visible(roles: ["boss", "hr"])' in merged.schema
    assert 'street: String @visible(roles: ["hr"]) }' in merged.schema.split("type Person")[0]
    assert "city: String @visible" not in merged.schema
    assert "rank: Int!)" in merged.schema
    assert "Query.staff(rank:): kept; it is required, so hide its field" in merged.notes
    assert "Query.staff(salaryMin:) @visible" in merged.added
    again = read_existing(merged.schema, mappings)
    assert merge(again, build_model([], [], KnownNames())).schema == merged.schema


def test_new_arguments_on_hidden_fields_are_hidden() -> None:
    schema = 'type Query { one: Post } type Post { year: Int @visible(roles: ["hr"]) }'
    mappings = {"Query": {"one": {"db": "shop", "collection": "posts"}}, "Post": {}}
    documents = [{"_id": one, "year": 2000 + one, "title": f"t{one}"} for one in range(9)]

    merged = add(*documents, schema=schema, mappings=mappings)

    query = merged.schema.split("type Post")[0]
    assert query.count('@visible(roles: ["hr"])') == 4  # equal, two bounds, the order
    assert "Query.posts(sortByYear:) @visible" in merged.added
