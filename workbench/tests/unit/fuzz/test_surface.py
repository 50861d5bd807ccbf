"""Which properties an app reads, and which of them it hides."""

from __future__ import annotations

from typing import Any

from docgraph.graphql.apps.compiled_app import build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.sections import Graphql
from docgraph_workbench.fuzz.surface import Surface, survey_app, survey_stages

SCHEMA = """
type Query { posts(status: Status): [Post] counts: [Count] }
enum Status { OPEN CLOSED }
type Post {
  id: ObjectId! title: String status: Status tags: [String] first: String
  secret: Int @visible(roles: ["hr"])
  inner: Inner @visible(roles: ["hr"])
  author: Author
}
type Inner { street: String city: String }
type Author { id: Int name: String }
type Count { tag: String total: Int }
"""


def find(collection: str, **others: Any) -> dict[str, Any]:
    return {"db": "d", "collection": collection, **others}


MAPPINGS = {
    "Query": {
        "posts": find(
            "posts",
            find={"kind": "post", "$and": [{"$ifarg": ["status", {"s": {"$arg": "status"}}]}]},
            sort={"rank": 1},
        ),
        "counts": find("posts", stages=[{"$group": {"_id": "$tags", "total": {"$sum": "$reads"}}}]),
    },
    "Status": {"OPEN": 1, "CLOSED": 2},
    "Post": {
        "id": "_id",
        "status": "s",
        "first": "parts.0.name",
        "inner": "home",
        "author": find("people", find={"_id": {"$fk": "authorId"}}),
    },
    "Author": {"id": "_id"},
}


def survey(*roles: str) -> Surface:
    document = {"_id": "blog", "schema": SCHEMA, "mappings": MAPPINGS}
    return survey_app(build_app(decode_definition(document), Graphql()), roles)


def test_paths_kinds_and_constants_come_from_the_definition() -> None:
    leaves = {".".join(path): node for path, node in survey().shapes["d.posts"].leaves()}
    assert leaves["_id"].kind == "objectId"
    assert (leaves["title"].kind, leaves["tags"].is_list) == ("string", True)
    assert leaves["s"].values == [1, 2]
    assert leaves["kind"].values == ["post"]
    assert leaves["reads"].kind == "int"
    assert {"parts.name", "rank", "home.street"} <= leaves.keys()
    assert "total" not in leaves  # which is made by the stages


def test_counts_and_groups_read_what_they_name() -> None:
    schema = """
    type Query { open: Int per: [Per] }
    type Per { shop: String count: Int sumPrice: Float }
    """
    group = {"unwind": "items", "by": "items.shop", "sum": "price"}
    mappings = {
        "Query": {
            "open": find("orders", find={"open": True}, count=True),
            "per": find("orders", find={"year": 2020}, group=group),
        }
    }
    document = {"_id": "shop", "schema": schema, "mappings": mappings}
    surface = survey_app(build_app(decode_definition(document), Graphql()), ())
    leaves = {".".join(path): node for path, node in surface.shapes["d.orders"].leaves()}
    assert leaves.keys() == {"open", "year", "items.shop", "price"}
    assert (leaves["open"].values, leaves["year"].values) == ([True], [2020])


def test_what_is_hidden_is_hidden_with_all_that_is_in_it() -> None:
    hidden = {
        ".".join(path): node.hidden_by
        for path, node in survey("reader").shapes["d.posts"].leaves()
        if node.hidden_by
    }
    assert hidden == {
        "secret": ["@visible on Post.secret"],
        "home.street": ["@visible on Post.inner"],
        "home.city": ["@visible on Post.inner"],
    }
    assert not any(node.hidden_by for _, node in survey("hr").shapes["d.posts"].leaves())


def test_relations_are_keys_of_one_kind() -> None:
    surface = survey()
    own, other = (
        surface.shapes["d.posts"].at(("authorId",)),
        surface.shapes["d.people"].at(("_id",)),
    )
    assert own.is_key
    assert other.is_key
    assert own.kind == other.kind == "int"


def test_properties_that_stored_stages_compute_with_are_marked() -> None:
    surface = Surface()
    optional = {"$ifvar": ["at", {"$match": {"$expr": {"$lt": [{"$toDate": "$at"}, "$until"]}}}]}
    totals = {"$project": {"name": {"$toUpper": "$name"}, "sum": {"$sum": "$n"}, "same": "$kept"}}
    survey_stages(surface, "d.posts", [optional, totals], "$ifvar")
    leaves = {".".join(path): node for path, node in surface.shapes["d.posts"].leaves()}
    assert {name for name, node in leaves.items() if node.is_evaluated} == {"at", "name"}
    assert leaves["at"].made_kind == "dateText"
    assert (leaves["n"].kind, leaves["until"].made_kind) == ("int", "")


def test_properties_of_joined_documents_are_marked_where_they_are_stored() -> None:
    surface = Surface()
    inner = {"$match": {"$expr": {"$gt": [{"$toInt": "$code"}, 1]}}}
    stages = [
        {"$lookup": {"from": "people", "localField": "by", "foreignField": "_id", "as": "who"}},
        {"$match": {"$expr": {"$eq": [{"$toUpper": "$who.name"}, "A"]}}},
        {"$lookup": {"from": "others", "pipeline": [inner], "as": "more"}},
        {"$facet": {"one": [{"$match": {"$expr": {"$toDate": "$at"}}}]}},
        {"$lookup": {"from": 5}},  # which is wrong, and for everybody
    ]
    survey_stages(surface, "d.posts", stages, "$ifvar")
    marked = {
        f"{namespace}: {'.'.join(path)}"
        for namespace, shape in surface.shapes.items()
        for path, node in shape.leaves()
        if node.is_evaluated
    }
    assert marked == {"d.people: name", "d.others: code", "d.posts: at"}


def test_names_that_only_hidden_fields_have_are_secret() -> None:
    assert survey("reader").secret_names == {"secret", "inner"}
    assert survey("hr").secret_names == set()
