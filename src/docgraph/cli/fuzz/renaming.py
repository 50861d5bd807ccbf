"""Renaming: definitions and options of a scratch database: the same, under other names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from docgraph.access.sections import FileAclAuthorizer
from docgraph.codec import JsonMode, decode, encode
from docgraph.config import Section
from docgraph.exchange import DocgraphError
from docgraph.rest.sections import Mongo
from docgraph.store.sections import MongoMount

_LONGEST: Final = 63  # bytes of the name of a database
_PLACES: Final = ("collection", "coll")


@dataclass(frozen=True, slots=True)
class Renaming:
    """Adds the prefix to every database; names of both worlds have the same length."""

    prefix: str

    def db(self, name: str) -> str:
        """Return the scratch database that replaces a database."""
        renamed = f"{self.prefix}{name}"
        if len(renamed.encode()) <= _LONGEST:
            return renamed
        return f"{self.prefix}{hashlib.sha256(name.encode()).hexdigest()[:16]}"

    def namespace(self, name: str) -> str:
        """Return the scratch namespace of `db.collection`."""
        db, _, collection = name.partition(".")
        return f"{self.db(db)}.{collection}"

    def definition(self, value: Any) -> Any:
        """Rename databases in mappings and stages."""
        if isinstance(value, list):
            return [self.definition(one) for one in value]
        if not isinstance(value, dict):
            return value
        found = {key: self.definition(inner) for key, inner in value.items()}
        if isinstance(value.get("db"), str) and any(key in value for key in _PLACES):
            found["db"] = self.db(value["db"])
        return found

    def rule(self, rule: Mapping[str, Any]) -> dict[str, Any]:
        """Rename the collections of a rule's `readFilters`."""
        mongo = rule.get("mongo")
        if not isinstance(mongo, Mapping) or "readFilters" not in mongo:
            return dict(rule)
        return {**rule, "mongo": {**mongo, "readFilters": self._filters(mongo["readFilters"])}}

    def _filters(self, filters: Any) -> Any:
        """Rename in filters, also in a JSON text, which stays one; an invalid text is unchanged."""
        if isinstance(filters, str):
            try:
                read = decode(filters)
            except DocgraphError:
                return filters
            renamed = self._filters(read)
            return filters if renamed is read else encode(renamed, JsonMode.EXTENDED).decode()
        if not isinstance(filters, Mapping):
            return filters
        return {self.namespace(name): one for name, one in filters.items()}

    def settings(
        self,
        sections: Mapping[str, Section],
        databases: Iterable[str],
        file_rules: Iterable[Mapping[str, Any]],
    ) -> tuple[str, ...]:
        """Return the options that name databases, as arguments of `--set`."""
        given: dict[str, Any] = dict(self._databases(sections))
        mongo = sections.get(Mongo.section_name)
        if isinstance(mongo, Mongo):
            mounts = list(self._mounts(mongo.mongo_mounts, databases))
            given |= {"/mongo/mongo-mounts": mounts} if mounts else {"/mongo/enabled": False}
        rules = [self.rule(one) for one in file_rules]
        if rules:
            section = f"/{FileAclAuthorizer.section_name}"
            given |= {f"{section}/conf-file": None, f"{section}/permissions": rules}
        return tuple(f"{path}={json.dumps(value)}" for path, value in given.items())

    def _databases(self, sections: Mapping[str, Section]) -> Iterator[tuple[str, str]]:
        """Yield the options of all sections, those of plugins included."""
        for name, section in sections.items():
            for field, option in zip(
                section.__struct_fields__, section.__struct_encode_fields__, strict=True
            ):
                value = getattr(section, field)
                if isinstance(value, str) and (field == "db" or field.endswith("_db")):
                    yield f"/{name}/{option}", self.db(value)

    def _mounts(
        self, mounts: Iterable[MongoMount], databases: Iterable[str]
    ) -> Iterator[dict[str, str]]:
        """Yield mounts; those with variables are left out: their targets are unknown."""
        for mount in mounts:
            if "{" in mount.what or "{" in mount.where:
                continue
            if mount.what == "*":
                base = mount.where.rstrip("/")
                for db in databases:
                    yield {"what": f"/{self.db(db)}", "where": f"{base}/{db}"}
                continue
            db, _, rest = mount.what[1:].partition("/")
            what = f"/{self.db(db)}/{rest}" if rest else f"/{self.db(db)}"
            yield {"what": what, "where": mount.where}
