"""Mappings at work: arguments, defaults, optional stages, relations, root documents, limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import pytest

from docgraph.exchange.errors import DefinitionError
from docgraph.observe.engine_events import CommandFinished
from tests.http.harness import Document, Mongo, Service, listening, names_of, running
from tests.http.hosts import module_application

pytestmark = [pytest.mark.anyio, pytest.mark.json]

SCHEMA = """
type Query {
  people(city: String, limit: Int, skip: Int): [Person]
  limited(limit: Int = 0): [Person]
  person(id: Int): Person
  optional(city: String, min: Int, max: Int, names: Boolean): [Person]
  faceted(city: String): [Facet]
  where(filter: Filter = {city: "Rome"}): [Person]
  nullFind(v: String): [Person]
  nullOr(v: String): [Person]
  nullAnd(v: String): [Person]
  nullIn(v: String): [Person]
  nullMatch(v: String): [Person]
  wide: [Wide]
  indexed(list: [Int], where: Filter): [Person]
}
input Filter { city: String, ages: [Int] }
type Facet { rows: [Person] }
type Wide { n: Int }
type Person {
  id: Int name: String age: Int first: String street: String missing: String tags: [String]
  friends(limit: Int, skip: Int): [Person]
  best: Person
  older: [Person]
  sameCity: [Person]
  house: House
  count: Int
}
type House { street: String owner: [Person] neighbours(max: Int): [Person] }
"""
PEOPLE: list[Document] = [
    {
        "_id": 1,
        "name": "Ada",
        "age": 30,
        "city": "Rome",
        "friendIds": [2, 3, 9],
        "bestId": 2,
        "house": {"street": "Via A", "ownerIds": [1]},
        "tags": [{"t": "x"}, {"t": "y"}],
    },
    {"_id": 2, "name": "Bob", "age": 40, "city": "Rome", "friendIds": [], "bestId": None},
    {
        "_id": 3,
        "name": "Cid",
        "age": 50,
        "city": "Oslo",
        "friendIds": [1],
        "house": {"street": "B"},
    },
    {"_id": 4, "name": "Dan", "age": 60, "city": None},
    {"_id": 5, "name": "Eve", "age": 70},
]


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(
        mongo_client, mongo_uri, {"graphql": {"max-limit": 50, "default-limit": 20}}
    ) as service:
        service.insert("people", *PEOPLE)
        service.insert("wide", *({"n": n} for n in range(60)))
        find = service.find
        ordered: Document = {"sort": {"_id": 1}}
        nothing = {"$arg": ["v", None]}
        limits = {"limit": {"$arg": ["limit", 0]}, "skip": {"$arg": ["skip", 0]}}
        query = {
            "people": find(
                "people", {"city": {"$arg": ["city", {"$exists": True}]}}, **ordered, **limits
            ),
            "limited": find("people", {}, **ordered, limit={"$arg": "limit"}),
            "person": find("people", {"_id": {"$arg": "id"}}),
            "optional": service.stages(
                "people",
                {"$ifarg": ["city", {"$match": {"city": {"$arg": "city"}}}]},
                {
                    "$ifarg": [
                        ["min", "max"],
                        {"$match": {"age": {"$gte": {"$arg": "min"}, "$lte": {"$arg": "max"}}}},
                        {"$match": {"age": {"$gt": 30}}},
                    ]
                },
                {
                    "$ifarg": [
                        "names",
                        [{"$sort": {"name": -1}}, {"$limit": 2}],
                        {"$sort": {"_id": 1}},
                    ]
                },
            ),
            "faceted": service.stages(
                "people",
                {"$sort": {"_id": 1}},
                {
                    "$facet": {
                        "rows": [
                            {"$ifarg": ["city", {"$match": {"city": {"$arg": "city"}}}]},
                            {"$limit": 2},
                        ]
                    }
                },
            ),
            "where": find("people", {"city": {"$arg": "filter.city"}}, **ordered),
            "nullFind": find("people", {"city": nothing}, **ordered),
            "nullOr": find("people", {"$or": [{"city": nothing}, {"_id": 1}]}, **ordered),
            "nullAnd": find("people", {"$and": [{"city": nothing}, {"_id": 4}]}, **ordered),
            "nullIn": find("people", {"city": {"$in": [nothing, "Oslo"]}}, **ordered),
            "nullMatch": service.stages("people", {"$match": {"city": nothing}}),
            "wide": service.stages("wide", {"$match": {}}),
            "indexed": find(
                "people",
                {
                    "_id": {"$in": [{"$arg": ["list[0]", 1]}, {"$arg": ["list.1", 1]}]},
                    "age": {"$gte": {"$arg": ["where.ages[0]", 0]}},
                },
                **ordered,
            ),
        }
        person = {
            "id": "_id",
            "first": "tags.0.t",
            "street": "house.street",
            "tags": "tags.t",
            "friends": find("people", {"_id": {"$in": {"$fk": "friendIds"}}}, **ordered, **limits),
            "best": find("people", {"_id": {"$fk": "bestId"}}),
            "older": find("people", {"age": {"$gt": {"$fk": "age"}}}, **ordered),
            "sameCity": service.stages(
                "people",
                {"$match": {"city": {"$fk": "city"}, "_id": {"$ne": {"$arg": "rootDoc._id"}}}},
                {"$sort": {"_id": 1}},
            ),
        }
        house = {
            "owner": find("people", {"_id": {"$in": {"$fk": "ownerIds"}}}),
            "neighbours": find(
                "people",
                {"city": {"$arg": "rootDoc.city"}, "age": {"$lte": {"$arg": ["max", 100]}}},
                **ordered,
            ),
        }
        await service.define("people", SCHEMA, {"Query": query, "Person": person, "House": house})
        yield service


async def ids(service: Service, field: str) -> list[int]:
    reply = await service.query("people", f"{{ {field} {{ id }} }}")
    return names_of(reply.data[field.partition("(")[0]], "id")


# --- $arg -----------------------------------------------------------------------------------------


async def test_a_default_stands_for_an_argument_that_is_not_given(service: Service) -> None:
    assert await ids(service, "people") == [1, 2, 3, 4]
    assert await ids(service, 'people(city: "Oslo")') == [3]


async def test_an_explicit_null_is_bound(service: Service) -> None:
    """Decision 9: `null` is a value, and matches as MongoDB does."""
    assert await ids(service, "people(city: null)") == [4, 5]


async def test_an_unbound_argument_fails_its_field_and_no_other(service: Service) -> None:
    """Decision 9."""
    reply = await service.query("people", '{ person { name } people(city: "Oslo") { name } }')

    assert reply.status == 200
    assert reply.json["data"] == {"person": None, "people": [{"name": "Cid"}]}
    assert reply.error["message"] == "variable not bound: id"


async def test_a_variable_that_is_not_given_leaves_the_argument_unbound(service: Service) -> None:
    """Decision 9."""
    reply = await service.query("people", "query ($i: Int) { person(id: $i) { name } }")

    assert reply.error["message"] == "variable not bound: id"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("nullFind", []),
        ("nullOr", [1]),
        ("nullAnd", []),
        ("nullIn", [3]),
        ("nullMatch", []),
    ],
)
async def test_a_null_default_matches_nothing_also_where_a_field_is_null_or_missing(
    service: Service, field: str, expected: list[int]
) -> None:
    """Decision 9."""
    assert await ids(service, field) == expected


async def test_a_given_value_takes_the_place_of_a_null_default(service: Service) -> None:
    """Decision 9."""
    assert await ids(service, 'nullFind(v: "Oslo")') == [3]
    assert await ids(service, 'nullIn(v: "Rome")') == [1, 2, 3]
    assert await ids(service, "nullFind(v: null)") == [4, 5]


async def test_properties_of_input_objects_and_elements_of_lists_are_reached(
    service: Service,
) -> None:
    """Decision 10."""
    assert await ids(service, "where") == [1, 2]
    assert await ids(service, 'where(filter: {city: "Oslo"})') == [3]
    assert await ids(service, "indexed(list: [2, 3])") == [2, 3]
    assert await ids(service, "indexed(list: [2, 3], where: {ages: [45]})") == [3]
    assert await ids(service, "indexed") == [1]


# --- $ifarg ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", list(product([False, True], repeat=4)))
async def test_optional_stages_run_when_their_arguments_are_given(
    service: Service, given: tuple[bool, ...]
) -> None:
    """Decision 9, drill N08: every combination against an oracle."""
    city, low, high, names = given
    arguments = [
        text
        for text, is_given in zip(
            ('city: "Rome"', "min: 20", "max: 45", "names: true"), given, strict=True
        )
        if is_given
    ]
    rows = [row for row in PEOPLE if not city or row.get("city") == "Rome"]
    if low and high:
        rows = [row for row in rows if 20 <= row["age"] <= 45]
    else:
        rows = [row for row in rows if row["age"] > 30]
    if names:
        rows = sorted(rows, key=lambda row: row["name"], reverse=True)[:2]

    field = f"optional({', '.join(arguments)})" if arguments else "optional"

    assert await ids(service, field) == [row["_id"] for row in rows]


async def test_optional_stages_work_inside_facets(service: Service) -> None:
    """Decision 9."""
    for field, expected in (("faceted", [1, 2]), ('faceted(city: "Oslo")', [3])):
        reply = await service.query("people", f"{{ {field} {{ rows {{ id }} }} }}")
        assert names_of(reply.data["faceted"][0]["rows"], "id") == expected


# --- fields and relations -------------------------------------------------------------------------


async def test_fields_are_reached_by_path_index_and_over_arrays(service: Service) -> None:
    query = "{ person(id: 1) { name first street tags missing } }"

    assert (await service.query("people", query)).data == {
        "person": {
            "name": "Ada",
            "first": "x",
            "street": "Via A",
            "tags": ["x", "y"],
            "missing": None,
        }
    }


async def test_a_missing_or_null_key_never_joins(service: Service) -> None:
    """Decision 11."""
    query = "{ people { id friends { id } best { id } } }"

    rows = (await service.query("people", query)).data["people"]

    assert [(row["id"], names_of(row["friends"], "id"), row["best"]) for row in rows] == [
        (1, [2, 3], {"id": 2}),
        (2, [], None),
        (3, [1], None),
        (4, [], None),
    ]


async def test_relations_cost_a_command_a_level(service: Service) -> None:
    """Decision 13: two for a list with a to-one relation, three for three levels."""
    for query, count in (
        ("{ people { best { name } } }", 2),
        ("{ people { friends { friends { name } } } }", 3),
    ):
        with listening(CommandFinished) as commands:
            assert (await service.query("people", query)).data
        assert len([one for one in commands if one.app == "people"]) == count


async def test_limits_of_relations_hold_per_parent(service: Service) -> None:
    """Decision 13."""
    query = "{ people { id friends(limit: 1, skip: 1) { id } } }"

    rows = (await service.query("people", query)).data["people"]

    assert {row["id"]: names_of(row["friends"], "id") for row in rows} == {
        1: [3],
        2: [],
        3: [],
        4: [],
    }


async def test_a_key_under_another_operator_relates_each_parent(service: Service) -> None:
    """Decision 13."""
    rows = (await service.query("people", "{ people { id older { id } } }")).data["people"]

    assert {row["id"]: names_of(row["older"], "id") for row in rows} == {
        1: [2, 3, 4, 5],
        2: [3, 4, 5],
        3: [4, 5],
        4: [5],
    }


async def test_root_documents_are_bound_per_path(service: Service) -> None:
    """Decision 14."""
    query = "{ people { id sameCity { id } house { neighbours(max: 35) { id } owner { name } } } }"

    rows = (await service.query("people", query)).data["people"]

    assert rows[0] == {
        "id": 1,
        "sameCity": [{"id": 2}],
        "house": {"neighbours": [{"id": 1}], "owner": [{"name": "Ada"}]},
    }
    assert rows[1] == {"id": 2, "sameCity": [{"id": 1}], "house": None}
    assert rows[2]["house"] == {"neighbours": [], "owner": []}


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("argument", ["", "(limit: 0)", "(limit: null)", "(limit: 50)"])
async def test_no_limit_zero_and_null_mean_the_default_limit(
    service: Service, argument: str
) -> None:
    """Decision 12."""
    assert await ids(service, f"limited{argument}") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("limit: 51", "limit cannot be greater than 50"),
        ("limit: -1", "limit"),
        ("skip: -1", "skip"),
        ("limit: 2147483647", "limit cannot be greater than 50"),
    ],
)
async def test_a_limit_that_is_not_allowed_is_a_field_error(
    service: Service, argument: str, message: str
) -> None:
    """Decision 12: HTTP 200 with partial data."""
    reply = await service.query(
        "people", f"{{ people({argument}) {{ id }} person(id: 1) {{ name }} }}"
    )

    assert reply.status == 200
    assert reply.json["data"] == {"people": None, "person": {"name": "Ada"}}
    assert message in reply.error["message"]


async def test_an_aggregation_with_more_results_than_the_limit_says_so(service: Service) -> None:
    """Decision 12."""
    reply = await service.query("people", "{ wide { n } }")

    assert reply.json["data"] == {"wide": None}
    assert "50" in reply.error["message"]


async def test_a_literal_limit_above_the_maximum_is_refused_when_written(service: Service) -> None:
    """Decision 12."""
    with pytest.raises(DefinitionError, match=r"mappings\.Query\.a\.limit"):
        await service.define(
            "bad", "type Query { a: [Int] }", {"Query": {"a": service.find("c", {}, limit=51)}}
        )


# --- GraphQL itself -------------------------------------------------------------------------------


async def test_fragments_aliases_merged_fields_and_directives(service: Service) -> None:
    query = """
    query ($yes: Boolean!, $no: Boolean = false) {
      a: person(id: 1) { ...P ... @include(if: $yes) { age } }
      a: person(id: 1) { street @skip(if: $yes) best { name } best { age } }
      b: person(id: 2) { ...P @include(if: $no) ... on Person { __typename } }
    }
    fragment P on Person { id name }
    """

    reply = await service.query("people", query, {"yes": True})

    assert reply.data == {
        "a": {"id": 1, "name": "Ada", "age": 30, "best": {"name": "Bob", "age": 40}},
        "b": {"__typename": "Person"},
    }


async def test_fields_come_in_the_order_of_the_query(service: Service) -> None:
    reply = await service.query("people", "{ person(id: 1) { name id age first } }")

    assert list(reply.data["person"]) == ["name", "id", "age", "first"]


async def test_a_missing_collection_and_database_are_empty(service: Service) -> None:
    await service.define(
        "empty",
        "type Query { a: [Row] b: Row c: [Row] } type Row { x: Int }",
        {
            "Query": {
                "a": service.find("nowhere", {}),
                "b": service.find("nowhere", {}),
                "c": {**service.stages("nowhere", {"$match": {}}), "db": f"{service.db}_none"},
            }
        },
    )

    reply = await service.query("empty", "{ a { x } b { x } c { x } }")

    assert reply.data == {"a": [], "b": None, "c": []}


async def test_query_fields_without_mapping_are_null(service: Service) -> None:
    """Decision 7 warns of them."""
    schema = "type Query { a: Int b: [Int] items: [BsonDocument] }"
    mappings = {"Query": {"items": service.find("items", {})}}
    result: Any = await service.define("bare", schema, mappings)

    assert (await service.query("bare", "{ a b }")).data == {"a": None, "b": None}
    assert len([text for text in result.warnings if "always null" in text]) == 2
