"""Random apps, data and queries for comparing the engine with the oracle.

Everything comes out of one seed: a failing seed is a complete bug report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from bson import Decimal128, Int64, ObjectId

OBJECT_TYPES = ("A", "B", "C")
KEYS: tuple[Any, ...] = (
    0, 1, 2, 3, Int64(1), 1.0, Decimal128("1"), 2.5, "x", "y", True, None, [1], [], {"a": 1},
    {"a": 1.0}, {"b": 1, "a": 1}, ObjectId(b"docgraph-key"), float("nan"),
)  # fmt: skip
PATHS = ("ref", "refs", "name", "n", "_id", "box.ref", "boxes.ref", "refs.0", "absent")


def make_box(random: Random) -> Any:
    """An embedded document, or something else in its place."""
    if random.random() < 0.15:
        return random.choice([None, 7, "text", [1]])
    box = {"n": make_number(random), "name": random.choice(["p", "q", None]), "k": "a"}
    if random.random() < 0.8:
        box["ref"] = random.choice(KEYS)
    return box


def make_number(random: Random) -> Any:
    """Mostly a number that fits Int."""
    return random.choice([0, 1, 2, 3, 4, 1.0, Int64(2), None, 2.5, "no number"])


def make_document(random: Random, number: int, kind: str) -> dict[str, Any]:
    """A document of a collection; any field may be missing or of the wrong type."""
    document: dict[str, Any] = {
        "_id": number,
        "k": kind,
        "name": random.choice(["x", "y", "z", None]),
        "n": make_number(random),
        "tags": random.choice([["s", "t"], ["s", None], [], None, "s", [1]]),
        "color": random.choice([1, 1.0, 2, "b", "RED", 9, None]),
        "ref": random.choice(KEYS),
        "refs": [random.choice(KEYS) for _ in range(random.randrange(4))],
        "key": random.choice(KEYS),
        "keys": [random.choice(KEYS) for _ in range(random.randrange(3))],
        "sub": random.choice([{"key": random.choice(KEYS)}, None, 3]),
        "subs": [{"key": random.choice(KEYS)} for _ in range(random.randrange(3))],
        "box": make_box(random),
        "boxes": [make_box(random) for _ in range(random.randrange(3))],
    }
    for name in list(document):
        if name not in ("_id", "k") and random.random() < 0.1:
            del document[name]
    return document


def make_filter(random: Random) -> dict[str, Any]:
    """A filter of a relation, of every shape."""
    path = random.choice(PATHS)
    key = {"$fk": path}
    target = random.choice(["key", "keys", "_id", "sub.key", "subs.key", "keys.0", "n"])
    extra = {"n": {"$gte": {"$arg": ["min", 0]}}}
    shapes: list[dict[str, Any]] = [
        {target: key},
        {target: key},
        {target: {"$in": key}},
        {target: {"$in": key}},
        {target: {"$eq": key}},
        {target: {"$in": [key]}},
        {"$and": [{target: key}, extra]},
        {"$and": [{target: {"$in": key}}, {"name": {"$arg": ["name", "x"]}}]},
        {"key": {"$fk": "ref"}, "name": {"$fk": "name"}},
        {"keys": {"$in": {"$fk": "refs"}}, "n": {"$fk": "n"}},
        {"n": {"$gt": {"$fk": "n"}}},
        {"$or": [{target: key}, {"name": {"$fk": "name"}}]},
        {"subs": {"$elemMatch": {"key": key}}},
        {target: {"$ne": key}},
        {target: {"$nin": key}},
        {target: {"$not": {"$in": key}}},
        {"$nor": [{target: {"$in": key}}]},
        {"key": {"$in": {"$arg": ["rootDoc.boxes.ref", None]}}},
        {"n": {"$gte": {"$arg": ["rootDoc.n", 1]}}},
        {"key": {"$fk": "ref"}, "k": {"$arg": "rootDoc.k"}},
        {"key": {"$arg": ["rootDoc.ref", None]}},
        {"n": {"$arg": "rootDoc.absent"}},
        {"n": {"$arg": "min"}},
        {},
    ]
    return random.choice(shapes)


def make_query(random: Random, collection: str, *, has_parent: bool) -> dict[str, Any]:
    """A mapping of a field to a query."""
    find = (
        make_filter(random)
        if has_parent
        else random.choice([{}, {}, {"n": {"$gte": {"$arg": ["min", 0]}}}])
    )
    mapping: dict[str, Any] = {"collection": collection, "find": find}
    if random.random() < 0.6:
        mapping["sort"] = random.choice(
            [{"_id": 1}, {"_id": -1}, {"n": -1, "_id": 1}, {"n": 1}, {"k": 1, "n": -1}]
        )
    if random.random() < 0.3:
        mapping["skip"] = random.choice([0, 1, {"$arg": ["skip", 0]}])
    if random.random() < 0.6:
        mapping["limit"] = random.choice([1, 2, 5, {"$arg": ["limit", 0]}, {"$arg": "limit"}])
    if random.random() < 0.2:
        mapping["dataLoader"] = {
            "batching": random.random() < 0.5,
            "caching": random.random() < 0.5,
            "maxBatchSize": random.choice([0, 1, 3]),
        }
    return mapping


def make_aggregation(random: Random, collection: str, *, has_parent: bool) -> dict[str, Any]:
    """A mapping of a field to an aggregation."""
    key: Any = {"$fk": random.choice(PATHS)} if has_parent else {"$arg": ["min", 1]}
    root = {"$arg": ["rootDoc.name", "none"]} if has_parent else "none"
    shapes: list[list[Any]] = [
        [{"$match": {"key": key}}, {"$sort": {"_id": 1}}],
        [{"$match": {"n": key}}, {"$sort": {"_id": -1}}, {"$limit": 2}],
        [{"$match": {"k": collection}}, {"$sort": {"_id": 1}}, {"$set": {"name": root}}],
        [{"$sort": {"_id": 1}}, {"$set": {"name": {"$concat": ["$k", root]}}}],
        [
            {"$ifarg": ["min", {"$match": {"n": {"$gte": {"$arg": "min"}}}}]},
            {"$sort": {"_id": 1}},
            {"$limit": 3},
        ],
        [{"$match": {"$or": [{"key": key}, {"keys": key}]}}, {"$sort": {"n": 1, "_id": 1}}],
    ]
    return {"collection": collection, "stages": random.choice(shapes)}


@dataclass
class Case:
    """One random app with its data."""

    random: Random
    definition: dict[str, Any] = field(default_factory=dict)
    data: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


ARGUMENTS = "(min: Int, name: String, skip: Int, limit: Int, color: Color)"


def make_case(seed: int, database: str) -> Case:
    """An app over three collections, with relations between all of its types."""
    random = Random(seed)
    case = Case(random)
    for kind in "abc":
        count = random.choice([0, 3, 6, 9, 12])
        case.data[kind] = [make_document(random, n, kind) for n in range(count)]
    mappings: dict[str, Any] = {
        "Color": {"RED": 1, "GREEN": 2, "BLUE": "b"},
        "Named": {"$typeResolver": _resolver(random)},
        "Thing": {"$typeResolver": _resolver(random)},
    }
    parts = [
        "enum Color { RED GREEN BLUE OTHER }",
        "interface Named { name: String }",
        "union Thing = A | B | C",
    ]
    for name in OBJECT_TYPES:
        parts.append(_make_type(random, name, database, mappings, "implements Named"))
    parts.append(_make_type(random, "Box", database, mappings, ""))
    parts.append(_make_root(random, database, mappings))
    case.definition = {"_id": f"case{seed}", "schema": "\n".join(parts), "mappings": mappings}
    return case


def _resolver(random: Random) -> dict[str, str]:
    last = random.choice(["true", "field-eq(field=k, value='\"c\"')", "field-exists(box.n)"])
    return {
        "A": "field-eq(field=k, value='\"a\"')",
        "B": random.choice(["field-eq(field=k, value='\"b\"')", "field-exists(ref, n)"]),
        "C": last,
    }


def _wrap(random: Random, name: str) -> str:
    return random.choice(["{}", "{}", "[{}]", "[{}]", "[{}]", "[{}!]", "[{}!]!", "{}!"]).format(
        name
    )


def _make_type(
    random: Random, name: str, database: str, mappings: dict[str, Any], interfaces: str
) -> str:
    strings = ["String", "String", "ID"]
    fields = [
        "name: String",
        f"n: {random.choice(['Int', 'Int', 'Float', 'Int!', 'Long'])}",
    ]
    own: dict[str, Any] = {}
    if name != "Box":
        fields += [
            f"tags: {random.choice(['[String]', '[String!]', '[String]!', 'String'])}",
            "color: Color",
            f"first: {random.choice(strings)}",
            "boxN: Int",
            "boxNs: [Int]",
            "raw: BsonDocument",
            f"box: {random.choice(['Box', 'Box', 'Box!', 'Named'])}",
            f"boxes: {random.choice(['[Box]', '[Box!]', '[Box]!', '[Thing]'])}",
        ]
        own = {"first": "tags.0", "boxN": "box.n", "boxNs": "boxes.n", "raw": "box"}
    for number in range(random.randrange(1, 4)):
        relation = f"rel{number}"
        target = random.choice(["A", "B", "C", "Named", "Thing"])
        fields.append(f"{relation}{ARGUMENTS}: {_wrap(random, target)}")
        own[relation] = _make_fetch(random, database, has_parent=True)
    mappings[name] = own
    return f"type {name} {interfaces} {{ {' '.join(fields)} }}"


def _make_root(random: Random, database: str, mappings: dict[str, Any]) -> str:
    fields, own = [], {}
    for number in range(3):
        target = random.choice(["A", "B", "C", "Named", "Thing"])
        wrapped = f"[{target}]" if number else _wrap(random, target)
        fields.append(f"root{number}{ARGUMENTS}: {wrapped}")
        own[f"root{number}"] = _make_fetch(random, database, has_parent=False)
    fields.append("unmapped: String")
    mappings["Query"] = own
    return f"type Query {{ {' '.join(fields)} }}"


def _make_fetch(random: Random, database: str, *, has_parent: bool) -> dict[str, Any]:
    collection = random.choice("abc")
    make = make_aggregation if random.random() < 0.2 else make_query
    return {"db": database, **make(random, collection, has_parent=has_parent)}
