"""W14: a list of which the caller may see one team's rows; an index begins with the team."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from pymongo import MongoClient

from bench.data import DB

COLLECTION = "notes"
NOTES, TEAMS, TEAM, LIMIT = 20_000, 20, 7, 50
ROLE = "reader"
_WORDS = "graph query index cache stream shard batch plan fetch join".split()

FILTERS: dict[str, dict[str, Any]] = {
    "plain": {"score": {"$gte": 300}},
    "or": {"$or": [{"score": {"$lt": 300}}, {"kind": "note"}]},
    "prefix": {"title": {"$regex": "^graph"}},
    "regex": {"title": {"$regex": "cache|shard"}},
}
"""What the caller, or the author of a mapping, asks for, next to the row filter."""

KEY = "a key of the bench, which is long enough for HS256"

_OWN = {"team": "@user.team"}
_RULES = [
    {
        "role": ROLE,
        "predicate": f"path('/data/{COLLECTION}')",
        "mongo": {"readFilter": _OWN},
    },
    {
        "role": ROLE,
        "predicate": "path('/graphql/notes')",
        "mongo": {"readFilters": {f"{DB}.{COLLECTION}": _OWN}},
    },
]
CONFIG = {
    "/jwtAuthenticationMechanism/enabled": "true",
    "/jwtAuthenticationMechanism/key": KEY,
    "/fullAuthorizer/enabled": "false",
    "/fileAclAuthorizer/enabled": "true",
    "/fileAclAuthorizer/permissions": json.dumps(_RULES),
}
"""What a server needs to know of the caller and his rows."""

APP: dict[str, Any] = {
    "_id": "notes",
    "schema": f"""
        type Query {{ {" ".join(f"{name}: [Note]" for name in FILTERS)} }}
        type Note {{ id: Int! title: String kind: String score: Int }}
    """,
    "mappings": {
        "Query": {
            name: {
                "db": DB,
                "collection": COLLECTION,
                "find": filter,
                "sort": {"created": -1},
                "limit": LIMIT,
            }
            for name, filter in FILTERS.items()
        },
        "Note": {"id": "_id"},
    },
}


def build_path(name: str) -> str:
    """The same list by REST."""
    filter = quote(json.dumps(FILTERS[name]))
    keys = quote(json.dumps(dict.fromkeys(("title", "kind", "score"), 1)))
    return f"/data/{COLLECTION}?filter={filter}&keys={keys}&sort=-created&pagesize={LIMIT}"


def load(uri: str) -> None:
    """Write the notes anew."""
    source = random.Random(14)
    with MongoClient[dict[str, Any]](uri) as client:
        notes = client[DB][COLLECTION]
        notes.drop()
        notes.insert_many([_record(source, number) for number in range(NOTES)])
        notes.create_index([("team", 1), ("created", -1)])


def _record(source: random.Random, number: int) -> dict[str, Any]:
    return {
        "_id": number,
        "team": number % TEAMS,
        "title": " ".join(source.choices(_WORDS, k=3)),
        "body": " ".join(source.choices(_WORDS, k=40)),
        "kind": source.choice(("article", "note")),
        "score": source.randrange(1_000),
        "created": datetime(2024, 1, 1) + timedelta(minutes=number),
    }
