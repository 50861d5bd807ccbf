"""What a sample shows becomes types, fields and mappings, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pytest

from docgraph.codec.bson_types import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId
from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.sections import Graphql
from docgraph.store.catalog import Listed
from docgraph.store.collection_stats import Index
from docgraph_workbench.infer.infer import Inferred, KnownNames, build_app, build_model
from docgraph_workbench.infer.survey import SCANNED, Surveyed

Document = dict[str, Any]


def survey(
    name: str, documents: Iterable[Document], *indexes: Index, count: int | None = None
) -> Surveyed:
    found = Surveyed("shop", Listed(name), indexes=indexes)
    found.profile.add_all(documents)
    found.documents = found.profile.documents if count is None else count
    return found


def infer(*collections: Surveyed) -> Inferred:
    found = Inferred(build_model(collections, [], KnownNames()))
    document = {**build_app("a", "shop"), "schema": found.schema, "mappings": found.mappings}
    assert check_definition(document, settings=Graphql()).errors == ()
    return found


def types_of(values: Iterable[Any]) -> str | None:
    """The type of a field that has these values, one in each document."""
    found = infer(survey("things", [{"_id": 1, "x": value} for value in values]))
    field = found.model.types["Thing"].fields.get("x")
    return None if field is None else field.type


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["a", None], "String"),
        ([1, 2], "Int"),
        ([1, Int64(2)], "Long"),
        ([1, 2.5, Int64(3)], "Float"),
        ([1, Decimal128("1.5")], "Decimal128"),
        ([True], "Boolean"),
        ([datetime(2024, 1, 1)], "DateTime"),
        ([ObjectId()], "ObjectId"),
        ([ObjectId(), "text"], "String"),
        ([1, "text"], "ID"),
        ([b"raw"], "ID"),
        ([["a"], ["b"]], "[String]"),
        ([[[1.5, 2.5]]], "[[Float]]"),
        ([{}], "BsonDocument"),
        ([Code("x")], None),
        ([None, None], None),
        ([[], []], None),
    ],
)
def test_a_field_has_the_scalar_that_shows_all_its_values(values: list[Any], type_: str) -> None:
    assert types_of(values) == type_


def test_a_few_values_of_another_kind_are_exceptions_and_told() -> None:
    documents = [{"_id": number, "year": 1990} for number in range(99)] + [{"_id": 99, "year": "?"}]

    (year,) = [
        field
        for field in infer(survey("movies", documents)).model.types["Movie"].fields.values()
        if field.name == "year"
    ]
    assert year.type == "Int"
    assert year.remarks == ["not all are Int (1 string): null, with an error"]


def test_numbers_that_only_a_text_shows_exactly_are_told() -> None:
    documents: list[dict[str, Any]] = [
        {"_id": 1, "price": 2.5},
        {"_id": 2, "price": Decimal128("3.10")},
    ]

    price = infer(survey("products", documents)).model.types["Product"].fields["price"]
    assert (price.type, price.remarks) == ("ID", ["mixed: decimal, double"])


def test_what_people_know_a_thing_by_is_a_filter_without_an_index() -> None:
    documents = [
        {"_id": n, "flightNo": f"LH{n}", "pnr": f"P{n}", "text": f"t{n}"} for n in range(9)
    ]

    query = infer(survey("bookings", documents)).model.types["Query"].fields["bookings"]
    assert [one.name for one in query.arguments] == ["flightNo", "pnr", "limit", "skip"]


def test_nothing_is_required_but_what_is_always_there() -> None:
    found = infer(survey("posts", [{"_id": 1, "a": 1}, {"_id": 2, "a": None}, {"_id": 3}]))

    fields = found.model.types["Post"].fields
    assert (fields["id"].type, fields["id"].mapping) == ("Int!", "_id")
    assert (fields["a"].type, fields["a"].aside) == ("Int", "in 33 % of the documents")


def test_what_a_validator_demands_is_required() -> None:
    collection = survey("posts", [{"_id": 1, "title": "a", "old": "b"}, {"_id": 2, "title": "c"}])
    collection.listed = Listed("posts", required=frozenset({"title", "old"}))

    fields = infer(collection).model.types["Post"].fields
    assert fields["title"].type == "String!"
    assert fields["old"].type == "String"  # which older documents do not have


def test_nested_objects_are_called_by_what_they_are_in() -> None:
    documents = [
        {"_id": 1, "shipping": {"city": "Rome"}, "items": [{"sku": "a", "size": {"w": 1}}]}
    ]
    found = infer(survey("orders", documents))

    assert list(found.model.types) == [
        "Query",
        "Order",
        "OrderShipping",
        "OrderItem",
        "OrderItemSize",
    ]
    assert found.model.types["Order"].fields["items"].type == "[OrderItem]"


def test_replies_to_replies_are_replies() -> None:
    reply = {"text": "a", "replies": [{"text": "b", "replies": [{"text": "c", "replies": []}]}]}
    found = infer(survey("comments", [{"_id": 1, "replies": [reply]}]))

    assert list(found.model.types) == ["Query", "Comment", "CommentReply"]
    assert found.model.types["CommentReply"].fields["replies"].type == "[CommentReply]"


def test_objects_whose_keys_are_data_are_shown_as_they_are() -> None:
    days = [{"_id": n, "perDay": {f"2024-05-{n + d:02}": d for d in range(5)}} for n in range(20)]
    people = [{"_id": n, "scores": {f"user{n}x{d}": 1 for d in range(5)}} for n in range(20)]

    assert infer(survey("a", days)).model.types["A"].fields["perDay"].type == "BsonDocument"
    assert infer(survey("b", people)).model.types["B"].fields["scores"].type == "BsonDocument"


def test_secrets_are_left_out_with_a_comment_that_says_so() -> None:
    document = {"_id": 1, "password": "p", "apiToken": "t", "tokens": 3, "blob": "$2b$12$x", "a": 1}
    found = infer(survey("users", [document]))

    assert set(found.model.types["User"].fields) == {"id", "tokens", "a"}
    assert "# password: left out, it looks like a secret" in found.schema
    assert "# blob: left out, its values look like secrets" in found.schema
    assert "$2b$" not in found.schema + found.render_mappings()


def test_examples_are_values_that_tell_of_nobody() -> None:
    documents = [
        {
            "_id": number,
            "email": "ada@example.org",
            "note": "ada@example.org",
            "color": "dark red",
            "unique": f"x{number}",
        }
        for number in range(10)
    ]
    found = infer(survey("cars", documents))

    assert '"For example dark red"' in found.schema
    assert "ada@" not in found.schema
    assert "x1" not in found.schema


def test_few_constants_are_an_enum_with_the_stored_values_mapped() -> None:
    documents = [
        {"_id": number, "status": ["in-progress", "done"][number % 2], "city": f"City {number % 3}"}
        for number in range(60)
    ]
    found = infer(survey("tasks", documents))

    assert found.model.types["Task"].fields["status"].type == "TaskStatus"
    assert found.mappings["TaskStatus"] == {"DONE": "done", "IN_PROGRESS": "in-progress"}
    assert found.model.types["Task"].fields["city"].type == "String"


@pytest.mark.parametrize(
    "texts",
    [
        ["US", "DE"],  # there are more countries than these
        ["open", "Open"],  # one name for two values
        ["open", "2024-01-01"],
        ["yes!", "no?"],
    ],
)
def test_texts_that_only_seem_few_are_no_enum(texts: list[str]) -> None:
    assert types_of(texts * 50) == "String"


@pytest.mark.parametrize(
    ("name", "texts", "is_enum"),
    [
        ("name", ["rex", "bello", "luna"], False),
        ("text", ["milk", "bread"], False),
        ("body", ["nice", "thanks"], False),
        ("Ort", ["BERLIN", "HAMBURG"], False),
        ("nickname", ["REX", "LUNA"], False),
        ("pet", ["rex", "bello", "luna"], False),
        ("answer", ["so it is", "never mind"], False),
        ("hobby", ["Chess", "Reading"], False),
        ("status", ["In Progress", "Done"], True),
        ("estado", ["abierto", "cerrado"], True),
        ("paymentState", ["paid", "open"], True),
        ("handling", ["pending", "shipped", "lost"], True),
        ("mood", ["VERY_GOOD", "BAD"], True),
        ("payment", ["credit_card", "cash"], True),
    ],
)
def test_constants_need_a_name_or_a_form_that_speaks_for_them(
    name: str, texts: list[str], is_enum: bool
) -> None:
    documents = [{"_id": n, name: texts[n % len(texts)]} for n in range(120)]
    found = infer(survey("things", documents))

    assert bool(found.model.enums.keys() - {"SortOrder"}) is is_enum
    note = "is null with an error: add it here" if is_enum else f"only {len(texts)} texts: an enum"
    assert note in found.schema


def test_a_value_that_was_seen_once_says_that_there_are_others() -> None:
    assert types_of(["open", "closed"] * 50 + ["strange"]) == "String"
    assert types_of(["open", "closed"] * 10) == "String"  # too few to tell


def test_an_id_of_their_own_leaves_the_name_to_it() -> None:
    found = infer(survey("posts", [{"_id": ObjectId(), "id": 5}]))

    fields = found.model.types["Post"].fields
    assert (fields["_id"].type, fields["id"].type) == ("ObjectId!", "Int")
    assert found.mappings["Query"]["post"]["find"] == {"_id": {"$arg": "_id"}}


def test_names_that_graphql_does_not_allow_are_mapped_and_collisions_resolved() -> None:
    document = {
        "_id": 1,
        "first-name": "a",
        "first name": "b",
        "first_name": "c",
        "a.b": 1,
        "$x": 1,
    }
    found = infer(survey("people", [document]))

    assert found.mappings["Person"] == {
        "id": "_id",
        "first_name2": "first-name",
        "first_name3": "first name",
        "a_b": "['a.b']",
    }
    assert "Person.a_b: the property is called 'a.b'" in found.model.notes
    assert "# x: left out, a mapping cannot name it" in found.schema


def test_collections_of_the_same_name_in_other_writing_have_types_of_their_own() -> None:
    found = infer(survey("users", [{"_id": 1}]), survey("Users", [{"_id": 1}]))

    assert list(found.model.types) == ["Query", "User", "UserDocument"]
    assert set(found.mappings["Query"]) == {"user", "users", "userById", "usersList"}


def test_large_collections_are_filtered_and_sorted_by_their_indexes_only() -> None:
    documents = [
        {"_id": n, "year": n % 7, "kind": "a", "at": datetime(2024, 1, 1)} for n in range(9)
    ]
    index = Index((("at", -1), ("kind", 1)))
    small = infer(survey("events", documents, index)).model.types["Query"].fields["events"]
    large = infer(survey("events", documents, index, count=SCANNED + 1))

    arguments = [one.name for one in large.model.types["Query"].fields["events"].arguments]
    assert arguments == ["atFrom", "atBefore", "kind", "limit", "skip"]
    assert {"year", "sortByYear"} <= {one.name for one in small.arguments}
    assert any("large" in note for note in large.model.notes)


def test_a_text_index_is_searched_and_a_unique_one_finds_one_document() -> None:
    indexes = (Index((("_fts", "text"), ("_ftsx", 1))), Index((("sku", 1),), unique=True))
    found = infer(survey("products", [{"_id": 1, "sku": "a"}, {"_id": 2, "sku": "b"}], *indexes))

    query = found.mappings["Query"]
    assert query["productBySku"]["find"] == {"sku": {"$arg": "sku"}}
    assert query["products"]["find"]["$and"][0] == {
        "$ifarg": ["search", {"$text": {"$search": {"$arg": "search"}}}]
    }


@pytest.mark.parametrize(
    ("collection", "type_", "queries"),
    [
        ("kunden", "Kunde", ["kunde", "kunden"]),
        ("Bestellungen", "Bestellung", ["bestellung", "bestellungen"]),
        ("proveedores", "Proveedor", ["proveedor", "proveedores"]),
        ("order", "Order", ["order", "orders"]),
        ("people", "Person", ["person", "people"]),
    ],
)
def test_a_list_has_the_name_of_the_collection(
    collection: str, type_: str, queries: list[str]
) -> None:
    found = infer(survey(collection, [{"_id": 1, "a": 1}]))

    assert type_ in found.model.types
    assert list(found.mappings["Query"]) == queries


def test_an_id_that_nobody_can_write_is_no_way_to_ask() -> None:
    found = infer(survey("files", [{"_id": Binary(b"x", 6), "a": 1}]))

    assert list(found.mappings["Query"]) == ["files"]
    assert any("by `_id`" in note for note in found.model.notes)


@pytest.mark.parametrize("ids", [[b"x"], [1, 2, "a"], [ObjectId(), *range(30)], [True, 2.5]])
def test_an_id_of_several_kinds_is_asked_for_as_it_is_shown(ids: list[Any]) -> None:
    found = infer(survey("files", [{"_id": id, "n": 1} for id in ids]))

    assert found.model.types["File"].fields["id"].type == "ID!"
    assert found.model.types["Query"].fields["file"].arguments[0].type == "ID!"


def test_values_that_no_scalar_shows_do_not_drop_the_others() -> None:
    values: list[Any] = [1, 2, 3, MaxKey(), MinKey()]
    found = infer(survey("things", [{"_id": n, "a": one} for n, one in enumerate(values)]))
    ids = infer(survey("things", [{"_id": one} for one in values]))

    assert found.model.types["Thing"].fields["a"].type == "Int"
    assert "not all are Int (2 other): null, with an error" in found.schema
    assert ids.model.types["Thing"].fields["id"].type == "Int"  # some are null


def test_the_names_of_people_are_no_enum() -> None:
    names = ("anna", "bob", "carol")
    documents = [
        {"_id": n, "assignee": names[n % 3], "createdBy": names[n % 3], "color": names[n % 3]}
        for n in range(90)
    ]
    found = infer(survey("tasks", documents))

    assert set(found.model.enums) == {"TaskColor"}


@pytest.mark.parametrize(
    "values",
    [
        [f"{n:032x}" for n in range(7, 100)],
        [f"eyJhbGciOiJIUzI1NiJ9.eyJ{'x' * 200}{n}.y" for n in range(9)],
        [[f"$2a$10${n:022}"] for n in range(9)],
        [f"JBSWY3DPEHPK3PX{one}" for one in "ABCDEFGHJKLMNP"],
    ],
)
def test_secrets_are_known_by_their_values(values: list[Any]) -> None:
    documents = [{"_id": n, "opaque": value, "a": 1} for n, value in enumerate(values)]
    found = infer(survey("things", documents))

    assert set(found.model.types["Thing"].fields) == {"id", "a"}
    assert "# opaque: left out, its values look like secrets" in found.schema


def test_random_texts_that_identify_something_are_no_secrets() -> None:
    documents = [
        {"_id": f"{n:032x}", **dict.fromkeys(("traceId", "sha", "etag", "publicKey"), f"{n:040x}")}
        for n in range(20)
    ]
    found = infer(survey("runs", documents))
    sessions = infer(survey("sessions", [{"_id": f"{n:032x}", "a": 1} for n in range(20)]))

    assert set(found.model.types["Run"].fields) == {"id", "traceId", "sha", "etag", "publicKey"}
    assert set(sessions.model.types["Session"].fields) == {"a"}  # the id opens the session


@pytest.mark.parametrize(
    "value",
    [
        {"key": "k"},
        {"inner": {"apiToken": "t"}},
        {f"2024-05-{day:02}": {"token": "t", "n": 1} for day in range(1, 9)},
        [{"key": "k"}],
    ],
)
def test_an_object_with_secrets_is_never_shown_as_it_is(value: Any) -> None:
    found = infer(survey("things", [{"_id": n, "auth": value} for n in range(5)]))

    assert set(found.model.types["Thing"].fields) == {"id"}
    assert "# auth: left out, it holds secrets" in found.schema


@pytest.mark.parametrize("name", ["pass", "tan", "refresh"])
def test_ambiguous_names_are_secrets_if_their_values_differ(name: str) -> None:
    different = [{"_id": n, name: f"v{n}"} for n in range(30)]
    same = [{"_id": n, name: f"v{n % 2}"} for n in range(30)]

    assert name not in infer(survey("things", different)).model.types["Thing"].fields
    assert name in infer(survey("things", same)).model.types["Thing"].fields


def test_no_example_of_values_that_hardly_repeat() -> None:
    documents = [
        {"_id": n, "number": 483_920 + n, "price": 0.5 + n, "level": 7, "day": datetime(2024, 5, n)}
        for n in range(1, 30)
    ]
    found = infer(survey("things", documents))

    assert "For example 7" in found.schema
    assert found.schema.count("For example") == 1


def test_two_thousand_fields_are_two_thousand_fields() -> None:
    found = infer(survey("wide", [{"_id": 1, **{f"f{number}": number for number in range(2000)}}]))

    assert len(found.model.types["Wide"].fields) == 2001
    assert len(found.model.types["Query"].fields["wides"].arguments) < 60


def test_the_bounds_hold_for_documents_of_any_size() -> None:
    deep: Document = {}
    for level in range(90):
        deep = {f"a{level}": deep, "b": [[[1]]]}
    many = [{"_id": n, **{f"k{n}_{i}": i for i in range(900)}} for n in range(20)]
    long = {"_id": 1, "list": [{"x": number} for number in range(100_000)], "text": "x" * 1_000_000}

    assert "nested too deep" in infer(survey("deep", [{"_id": 1, "d": deep}])).schema
    wide = infer(survey("many", many))
    assert len(wide.model.types["Many"].fields) == 2500
    assert any("more fields" in note for note in wide.model.notes)
    found = survey("long", [long])
    infer(found)
    elements = found.profile.shape.fields["list"].elements
    assert elements is not None
    assert elements.count == 20


def test_a_range_below_an_array_is_about_one_element() -> None:
    runways = [{"length_m": 1000 + 100 * n} for n in range(3)]
    documents = [
        {"_id": n, "runways": runways, "marks": [n, 2 * n], "opened": [datetime(2024, 1, 1)]}
        for n in range(9)
    ]
    indexes = [Index(((path, 1),)) for path in ("runways.length_m", "marks", "opened")]
    found = infer(survey("airports", documents, *indexes))
    conditions = found.mappings["Query"]["airports"]["find"]["$and"]

    both = [one["$ifarg"] for one in conditions if isinstance(one["$ifarg"][0], list)]
    assert both == [
        [
            ["runways_length_m_min", "runways_length_m_max"],
            {
                "runways": {
                    "$elemMatch": {
                        "length_m": {
                            "$gte": {"$arg": "runways_length_m_min"},
                            "$lte": {"$arg": "runways_length_m_max"},
                        }
                    }
                }
            },
        ],
        [
            ["markMin", "markMax"],
            {"marks": {"$elemMatch": {"$gte": {"$arg": "markMin"}, "$lte": {"$arg": "markMax"}}}},
        ],
        [
            ["openedFrom", "openedBefore"],
            {
                "opened": {
                    "$elemMatch": {"$gte": {"$arg": "openedFrom"}, "$lt": {"$arg": "openedBefore"}}
                }
            },
        ],
    ]


def test_where_has_no_range_of_a_property_that_is_sometimes_an_array() -> None:
    documents = [{"_id": n, "mass": [n, 2] if n % 3 == 0 else n, "size": n} for n in range(9)]
    indexes = [Index(((path, 1),)) for path in ("mass", "size")]
    found = infer(survey("things", documents, *indexes))

    fields = found.mappings["Query"]["things"]["filter"]["fields"]
    assert fields["mass"] == ["eq", "in"]
    assert fields["size"] == ["eq", "in", "range"]


def test_codes_become_no_enum() -> None:
    def type_of(name: str, values: list[str]) -> str:
        documents = [{"_id": n, name: values[n % len(values)]} for n in range(90)]
        return infer(survey("things", documents)).model.types["Thing"].fields[name].type

    assert type_of("coupon", ["SUMMER", "WINTER", "SPRING"]) == "String"
    assert type_of("offer", ["SAVE10", "SAVE20", "WELCOME5"]) == "String"
    assert type_of("color", ["RED", "GREEN", "BLUE2"]) == "ThingColor"


def test_an_object_of_thousands_of_keys_is_shown_as_it_is() -> None:
    wide = {f"key{n}": n if n % 2 else "x" for n in range(2000)}
    found = infer(survey("things", [{"_id": 1, "wide": wide}]))

    assert found.model.types["Thing"].fields["wide"].type == "BsonDocument"


def test_values_of_people_become_no_examples() -> None:
    documents = [{"_id": n, "blood": "AB", "visits": 7} for n in range(9)]

    assert "For example" in infer(survey("bags", documents)).schema
    assert "For example" not in infer(survey("patients", documents)).schema
