"""`where` means the same in the database as in a few lines of Python, over values of all kinds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from bson import Code, Decimal128, Int64, ObjectId
from graphql import build_schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.collection import Collection

from docgraph.codec.equality import equality_key
from docgraph.codec.forms import JsonMode
from docgraph.codec.id_text import IdText
from docgraph.graphql.definition.declared_fields import ItemFields
from docgraph.graphql.definition.mapping import EnumMapping
from docgraph.graphql.definition.scalars import serializer
from docgraph.graphql.where import WhereField, WhereSpec, compile_where, find_end
from docgraph.store.guard.fence import find_unsafe
from docgraph.variables import compile_field, matches_nothing
from tests.chance import examples
from tests.expect import present

Document = dict[str, Any]

MISSING = object()
TEXTS = ["", "a", "ab", "abc", "abd", "b", "é", "\ud7ff", "\ue000", "\U0010ffff", "\U0010ffffa"]
TEXTS += ["a.c", "$gt", "{$gt: 1}", "12", "650000000000000000000001", "abcabc", "Abc"]
NUMBERS = [0, 1, -1, 2, 1.5, Int64(2**40), Decimal128("1.5"), Decimal128("2"), float("inf")]
DOCUMENTS: list[Any] = [{"$gt": 1}, {"a": 1}, {"a": 1, "b": 2}, {"$where": "1"}, {}]
ODD: list[Any] = [MISSING, None, True, ObjectId("650000000000000000000001"), 12]
VALUES = [*TEXTS, *NUMBERS, *DOCUMENTS, *ODD, [], ["abc"], [None], [1], [{"a": 1}]]
LISTS: list[Any] = [
    MISSING,
    None,
    [],
    ["a"],
    ["a", "b"],
    [None],
    [None, "a"],
    "a",
    [["a"]],
    [1],
    ["b", ["a"]],
]
OBJECTS: list[Any] = [MISSING, None, 5, "a", {}, *({"at": value} for value in VALUES[:20])]
FLAT = [one for one in LISTS if one not in ([["a"]], ["b", ["a"]])]
OVER: list[Any] = [*FLAT, {}, *({"x": value} for value in LISTS[1:]), [{}], [None], [5, {"x": 1}]]
OVER += [[{"x": "a"}, {"x": "b"}], [{"x": 1}, {}], [{"x": None}], [{"x": ["a"]}, {"x": "b"}]]
OVER += [{"x": [["a"], "b"]}, [{"x": []}], [{"x": {"y": "a"}}]]
ITEMS: list[Any] = [MISSING, None, [], [{}], {"n": 1, "s": "a"}, [None, 5], "a"]
ITEMS += [[{"n": 1, "s": "a"}], [{"n": 1}, {"s": "a"}], [{"n": 2, "s": "b"}, {"n": 0, "s": "a"}]]

FITTING: list[Any] = [
    ["a", ObjectId(b"0" * 12)],
    [1, 2.0, Int64(3)],
    [1, None],
    ["a", "c"],
    [{"x": 1}],
]
FITTING += [[True], ["a", Code("a")], [[1], 1], [None, None], [{}, "a"]]
LISTS += FITTING

WITHIN: list[Any] = [*ITEMS, {}, [{"i": {"n": 1, "s": "a"}}, {}, 5], [{"i": None}], [{"i": {}}]]
WITHIN += [{"i": value} for value in ITEMS[1:]] + [[{"i": value}] for value in ITEMS[1:]]

EVERYTHING = frozenset("eq ne in nin lt lte gt gte exists prefix contains has any".split())
# Lists whose type allows no null: one element that does not fit makes the list null.
SCHEMA = build_schema(
    "type Query { texts: [String!] numbers: [Int!] options: [Option!] items: [Item!] } "
    "type Item { n: Int s: String } enum Option { A B }"
)
ENUM = EnumMapping("Option", {"A": "a", "B": 1})
SHOW: dict[str, Callable[[Any], Any]] = {
    "texts": serializer("String", JsonMode.GRAPHQL),
    "numbers": serializer("Int", JsonMode.GRAPHQL),
    "options": ENUM.name_of,
    "items": lambda value: {**value},
}
STRICT = {
    "strict_texts": ("t", "texts"),
    "strict_numbers": ("t", "numbers"),
    "strict_options": ("t", "options"),
    "strict_over": ("l.x", "texts"),
    "strict_first": ("l.0.x", "texts"),
    "strict_items": ("i", "items"),
    "strict_within": ("w.i", "items"),
}


def require(path: str, name: str) -> WhereField:
    items = ItemFields(SCHEMA, {}, {"Option": ENUM})
    fields = {key: WhereField(key, EVERYTHING) for key in "ns"} if name == "items" else {}
    fit = items.find_fit(present(SCHEMA.query_type).fields[name].type)
    return WhereField(path, EVERYTHING, is_list=True, fields=fields, fit=fit)


SPEC = WhereSpec(
    {
        **{key: require(*place) for key, place in STRICT.items()},
        "value": WhereField("v", EVERYTHING),
        "tags": WhereField("t", EVERYTHING, is_list=True),
        "over": WhereField("l.x", EVERYTHING, is_list=True),
        "second": WhereField("t.1", EVERYTHING, is_list=True),
        "first": WhereField("l.0.x", EVERYTHING, is_list=True),
        "object": WhereField("o", EVERYTHING, fields={"at": WhereField("at", EVERYTHING)}),
        **{
            name: WhereField(
                path,
                EVERYTHING,
                is_list=True,
                fields={"n": WhereField("n", EVERYTHING), "s": WhereField("s", EVERYTHING)},
            )
            for name, path in (("items", "i"), ("within", "w.i"))
        },
    }
)


@pytest.fixture(scope="module")
def stored(mongo_client: MongoClient[Document]) -> Iterator[tuple[Collection[Document], Any]]:
    """Documents with every value of each kind, mixed at random, the same in each run."""
    chance = random.Random(7)
    documents: list[Document] = []
    for number in range(400):
        parts = {
            "v": VALUES[number % len(VALUES)],
            "t": chance.choice(LISTS),
            "o": chance.choice(OBJECTS),
            "i": chance.choice(ITEMS),
            "l": chance.choice(OVER),
            "w": chance.choice(WITHIN),
        }
        own = {key: value for key, value in parts.items() if value is not MISSING}
        own = {
            key: {} if isinstance(value, dict) and value.get("at") is MISSING else value
            for key, value in own.items()
        }
        documents.append({"_id": number, **own})
    collection = mongo_client.where_oracle[uuid4().hex]
    collection.insert_many(documents)
    yield collection, list(collection.find())
    collection.drop()


# --- conditions -----------------------------------------------------------------------------------

plain = st.sampled_from([*TEXTS, *NUMBERS, True, ObjectId("650000000000000000000001")])
operands = plain | st.sampled_from(DOCUMENTS) | st.sampled_from(TEXTS).map(IdText)


def conditions() -> st.SearchStrategy[Document]:
    """Operators of one field; a range has values of one type, as GraphQL gives them."""
    return st.one_of(
        st.fixed_dictionaries(
            {}, optional={"eq": operands | st.none(), "ne": operands | st.none()}
        ),
        st.fixed_dictionaries(
            {}, optional={name: st.lists(operands, max_size=3) for name in ("in", "nin")}
        ),
        st.dictionaries(
            st.sampled_from(["lt", "lte", "gt", "gte"]),
            st.sampled_from([0, 1, 1.5, Decimal128("1.5")]),
            max_size=2,
        ),
        st.dictionaries(
            st.sampled_from(["lt", "gte"]), st.sampled_from(["a", "abc", "b"]), max_size=1
        ),
        st.builds(lambda text: {"prefix": text}, st.sampled_from(TEXTS)),
        st.builds(lambda text: {"contains": text}, st.sampled_from(["abc", "bca", "a.c", "$gt"])),
        st.builds(lambda flag: {"exists": flag}, st.booleans()),
    )


listed = st.one_of(
    st.builds(lambda value: {"has": value}, st.sampled_from(["a", "b", 1, None])),
    st.builds(lambda value: {"any": value}, st.lists(st.sampled_from(["a", "b", 1]), max_size=2)),
    st.builds(lambda flag: {"exists": flag}, st.booleans()),
)
inner = st.fixed_dictionaries(
    {},
    optional={
        "n": st.builds(lambda value: {"gte": value}, st.sampled_from([0, 1, 2])),
        "s": st.builds(lambda value: {"eq": value}, st.sampled_from(["a", "b"]))
        | st.builds(lambda flag: {"exists": flag}, st.booleans()),
    },
)
objects = st.builds(lambda one: {"any": one}, inner) | st.builds(
    lambda flag: {"exists": flag}, st.booleans()
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "value": conditions(),
        "tags": listed,
        "object": st.builds(lambda one: {"at": one}, conditions()),
        "over": listed,
        "second": listed,
        "first": listed,
        "items": objects,
        "within": objects,
        **{key: objects if kind == "items" else listed for key, (_, kind) in STRICT.items()},
    },
)
wheres = st.recursive(
    entries,
    lambda below: st.one_of(
        st.builds(
            lambda own, several: {**own, "and": several}, entries, st.lists(below, max_size=2)
        ),
        st.builds(
            lambda own, several: {**own, "or": several}, entries, st.lists(below, max_size=3)
        ),
        st.builds(lambda own, one: {**own, "not": one}, entries, below),
    ),
    max_leaves=4,
)


# --- the oracle -----------------------------------------------------------------------------------


def holds(where: Document, document: Document) -> bool:
    tests: dict[str, Callable[[Any], bool]] = {
        "and": lambda several: all(holds(one, document) for one in several),
        "or": lambda several: any(holds(one, document) for one in several),
        "not": lambda one: not holds(one, document),
        "value": lambda one: holds_for(one, document.get("v", MISSING)),
        "tags": lambda one: holds_for_list(one, document, "t"),
        "over": lambda one: holds_for_list(one, document, "l.x"),
        "second": lambda one: holds_for_list(one, document, "t.1"),
        "first": lambda one: holds_for_list(one, document, "l.0.x"),
        "object": lambda one: holds_for(one["at"], get_at(document.get("o", MISSING))),
        "items": lambda one: holds_for_list(one, document, "i"),
        "within": lambda one: holds_for_list(one, document, "w.i"),
        **{key: partial(holds_for_strict, key, document) for key in STRICT},
    }
    return all(tests[name](value) for name, value in where.items())


def get_at(value: Any) -> Any:
    return value.get("at", MISSING) if isinstance(value, dict) else MISSING


def holds_for_strict(name: str, document: Document, condition: Document) -> bool:
    path, kind = STRICT[name]
    return holds_for_list(condition, document, path, SHOW[kind])


def shows_all(values: Any, show: Callable[[Any], Any]) -> bool:
    try:
        for value in values if isinstance(values, list) else ():
            show(value)
    except (TypeError, ValueError):
        return False
    return True


def holds_for_list(
    condition: Document, document: Document, path: str, show: Callable[[Any], Any] | None = None
) -> bool:
    """Whether a condition holds for the value that the field shows."""
    shown = compile_field(tuple(path.split(".")))(document)
    if show is not None and not shows_all(shown, show):
        shown = None  # with an error
    elements = shown if isinstance(shown, list) else []
    keys = [equality_key(one) for one in elements if not isinstance(one, list)]
    tests: dict[str, Callable[[Any], bool]] = {
        "exists": lambda flag: flag is isinstance(shown, list),
        "has": lambda wanted: equality_key(wanted) in keys,
        "any": lambda wanted: (
            any(equality_key(one) in keys for one in wanted)
            if isinstance(wanted, list)
            else any(is_item(wanted, one) for one in elements)
        ),
    }
    return all(tests[name](operand) for name, operand in condition.items())


def is_item(where: Document, value: Any) -> bool:
    return not any(where.values()) or (
        isinstance(value, dict)
        and all(holds_for(one, value.get(name, MISSING)) for name, one in where.items())
    )


def holds_for(condition: Document, value: Any) -> bool:
    seen = [] if value is MISSING else [value, *(value if isinstance(value, list) else [])]
    is_null = value is MISSING or any(one is None for one in seen)

    def equals(wanted: Any) -> bool:
        if wanted is None:
            return is_null
        kinds = wanted.candidates if isinstance(wanted, IdText) else (wanted,)
        keys = {equality_key(one) for one in kinds}
        return any(equality_key(one) in keys for one in seen)

    tests: dict[str, Callable[[Any], bool]] = {
        "eq": equals,
        "ne": lambda wanted: not equals(wanted),
        "in": lambda several: any(map(equals, several)),
        "nin": lambda several: not any(map(equals, several)),
        "lt": lambda end: any(is_before(one, end) for one in seen),
        "gt": lambda end: any(is_before(end, one) for one in seen),
        "lte": lambda end: any(is_before(one, end) for one in seen) or equals(end),
        "gte": lambda end: any(is_before(end, one) for one in seen) or equals(end),
        "prefix": lambda text: any(isinstance(one, str) and one.startswith(text) for one in seen),
        "contains": lambda text: any(isinstance(one, str) and text in one for one in seen),
        "exists": lambda flag: flag is not is_null,
    }
    return all(tests[name](operand) for name, operand in condition.items())


def is_before(one: Any, other: Any) -> bool:
    """Compare numbers with numbers and texts with texts, as MongoDB does."""
    if isinstance(one, str) and isinstance(other, str):
        return one.encode() < other.encode()
    numbers = [as_number(one), as_number(other)]
    return None not in numbers and numbers[0] < numbers[1]


def as_number(value: Any) -> Any:
    if isinstance(value, Decimal128):
        return float(value.to_decimal())
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None


@given(where=wheres)
@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
def test_conditions_agree_with_the_oracle(
    stored: tuple[Collection[Document], list[Document]], where: Document
) -> None:
    collection, documents = stored
    filter_ = compile_where(SPEC, where).filter
    expected = {one["_id"] for one in documents if holds(where, one)}
    if matches_nothing(filter_):
        assert not expected
        return
    found = {one["_id"] for one in collection.find(filter_, {"_id": 1})}
    assert found == expected, filter_


SCALAR_LISTS: list[Document] = [{"has": one} for one in ("a", "b", 1, None)]
SCALAR_LISTS += [{"any": one} for one in ([], ["a"], ["a", "b"], [1])]
OBJECT_LISTS: list[Document] = [{"any": {}}, {"any": {"n": {}}}, {"any": {"n": {"gte": 1}}}]
OBJECT_LISTS += [{"any": {"s": {"exists": False}}}, {"any": {"n": {"in": []}}}]
OBJECT_LISTS += [{"any": {"n": {"ne": 1}, "s": {"eq": "a"}}}]
EXISTENCE: list[Document] = [{"exists": True}, {"exists": False}]


@pytest.mark.parametrize("name", ["tags", "over", "second", "first", "items", "within", *STRICT])
def test_conditions_on_lists_are_about_the_shown_value(
    stored: tuple[Collection[Document], list[Document]], name: str
) -> None:
    collection, documents = stored
    own = OBJECT_LISTS if SPEC.fields[name].fields else SCALAR_LISTS
    for condition in [*own, *EXISTENCE]:
        expected = {one["_id"] for one in documents if holds({name: condition}, one)}
        filter_ = compile_where(SPEC, {name: condition}).filter
        found = set() if matches_nothing(filter_) else set(collection.distinct("_id", filter_))
        assert found == expected, (condition, filter_)
        assert len(expected) < len(documents)


@given(where=wheres)
@settings(max_examples=examples(200), deadline=None)
def test_only_contains_needs_a_fence(where: Document) -> None:
    filter_ = compile_where(SPEC, where).filter
    assert (find_unsafe(filter_) is None) or "contains" in repr(where)


@given(prefix=st.text(max_size=3), rest=st.text(max_size=2), other=st.text(max_size=4))
def test_a_prefix_is_a_range(prefix: str, rest: str, other: str) -> None:
    end = find_end(prefix)

    def is_within(text: str) -> bool:
        raw = text.encode()
        return raw >= prefix.encode() and (end is None or raw < end.encode())

    assert is_within(prefix + rest)
    assert is_within(other) == other.startswith(prefix)
