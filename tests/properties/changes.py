"""Change events of a database for tests: everything up to a moment that the test marks itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.database import Database

from docgraph.graphql.freshness.change_facts import ChangeFacts

Document = dict[str, Any]
MARKS = "marks"  # a collection that no query reads


class Changes:
    """The events of a database, raw as the server sends them."""

    def __init__(self, database: Database[Document], stream: Any) -> None:
        self._marks = database[MARKS]
        self._stream = stream

    def read(self) -> list[ChangeFacts]:
        """What happened since the last call."""
        mark = self._marks.insert_one({}).inserted_id
        found: list[ChangeFacts] = []
        for event in self._stream:
            if event["ns"].get("coll") == MARKS and event["documentKey"]["_id"] == mark:
                return found
            found.append(ChangeFacts.read(event))
        raise AssertionError("the stream has ended")


@contextmanager
def follow(database: Database[Document], *, is_looked_up: bool = True) -> Iterator[Changes]:
    """The changes from now on; the mark collection is made first."""
    database[MARKS].insert_one({})
    raw: CodecOptions[Any] = CodecOptions(document_class=RawBSONDocument)
    mode = "updateLookup" if is_looked_up else None
    source = database.client.get_database(database.name, codec_options=raw)
    with source.watch(full_document=mode) as stream:
        yield Changes(database, stream)


class Writer:
    """Makes random writes to documents like those of `engine_cases`."""

    def __init__(self, random: Random, make: Any, keys: tuple[Any, ...]) -> None:
        self._random = random
        self._make = make
        self._keys = keys

    def write(self, database: Database[Document], names: Sequence[str]) -> list[Any]:
        """Write once or several times; return what was done, for the message of a failure."""
        times = self._random.choice([1, 1, 1, 2, 4])
        return [self._write(database, self._random.choice(names)) for _ in range(times)]

    def _write(self, database: Database[Document], name: str) -> Any:
        random, collection = self._random, database[name]
        number = random.randrange(14)
        new = self._make(random, number, name)
        match random.randrange(6):
            case 0:
                collection.replace_one({"_id": number}, new, upsert=True)
                return (name, "replace", new)
            case 1:
                collection.delete_one({"_id": number})
                return (name, "delete", number)
            case 2:
                new["_id"] = random.randrange(100, 10_000)
                collection.replace_one({"_id": new["_id"]}, new, upsert=True)
                return (name, "insert", new)
            case _:
                update = self._make_update(new)
                where = {} if random.random() < 0.1 else {"_id": number}
                collection.update_many(where, update)
                return (name, "update", where, update)

    def _make_update(self, new: Document) -> Any:
        random, key = self._random, self._random.choice(self._keys)
        names = [name for name in new if name not in ("_id", "k")]
        name = random.choice(names or ["n"])
        return random.choice(
            [
                {"$set": {name: new.get(name)}},
                {"$set": {name: new.get(name)}},
                {"$unset": {name: 1}},
                {"$set": {"n": random.choice([0, 1, 2, 3]), "key": key}},
                [{"$set": {"keys": [key, {"$ifNull": ["$n", 1]}]}}],
                [{"$set": {"keys": {"$slice": [{"$ifNull": ["$keys", [1]]}, 1]}}}],
                [{"$set": {"sub": {"key": {"$literal": key}}, "name": "x"}}],
                [{"$replaceWith": {"_id": "$_id", "k": "$k", "key": {"$literal": key}}}],
                {"$rename": {"name": "other"}},
            ]
        )
