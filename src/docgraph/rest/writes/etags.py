"""Etags: what a request demands of the stored one, as a part of the filter of the write itself.

A stored etag is an ObjectId, renewed at every write. Whether a condition holds is decided by the
database together with the write, so that of two writers with the same etag only one wins. A
document without an etag (written by other means) fulfils every condition.

`ETag` is sent as 24 hexadecimal digits without quotes, as clients of this kind of API know it;
`If-Match` and `If-None-Match` are understood with and without quotes, with `W/`, as lists, and as
`*`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from docgraph.codec.types import ObjectId
from docgraph.exchange.headers import Headers

__all__ = [
    "ETAG",
    "Condition",
    "Tags",
    "etag_headers",
    "etag_of",
    "find_condition",
    "is_demanded",
    "parse_tags",
]

ETAG: Final = "_etag"

# It never looks at what follows a tag: to go back from there takes quadratic time.
_TAG = re.compile(r'(?:W/)?(?:"([^"]*)"|([^",\s]+))')
_HEX = re.compile(r"[0-9a-fA-F]{24}")


@dataclass(frozen=True, slots=True)
class Tags:
    """The value of `If-Match` or `If-None-Match`."""

    values: frozenset[str]
    any: bool = False

    def __contains__(self, etag: object) -> bool:
        """Whether the etag of something that exists is among them."""
        return self.any or str(etag) in self.values


def parse_tags(fields: Sequence[str]) -> Tags | None:
    """The tags of all fields of that name together; None when there is none."""
    if not fields:
        return None
    text = ",".join(fields)
    if text.strip() == "*":
        return Tags(frozenset(), any=True)
    found = (match[1] if match[1] is not None else match[2] for match in _TAG.finditer(text))
    return Tags(frozenset(found))


@dataclass(frozen=True, slots=True)
class Condition:
    """What the etag of an existing document has to be; `tags` None: it must not have one."""

    tags: Tags | None

    @property
    def stored(self) -> Any:
        """The condition on `_etag` in a filter; null also finds documents without one."""
        if self.tags is None:
            return None
        # A tag that is no ObjectId can be the etag of something that others have written.
        values = [ObjectId(tag) for tag in self.tags.values if _HEX.fullmatch(tag)]
        return {"$in": [*values, *self.tags.values, None]}

    def admits(self, etag: Any) -> bool:
        """Whether a document with that etag, None without one, fulfils the condition."""
        return etag is None or (self.tags is not None and etag in self.tags)


def find_condition(headers: Headers, *, demanded: bool) -> Condition | None:
    """The condition of a write; None when any etag will do."""
    tags = parse_tags(headers.get_list("if-match"))
    if tags is None:
        return Condition(None) if demanded else None
    return None if tags.any else Condition(tags)


def is_demanded(policies: Sequence[Any], default: str, *, deleting: bool) -> bool:
    """Whether the first policy that is one demands an etag of this write."""
    for policy in (*policies, default):
        match policy.upper() if isinstance(policy, str) else None:
            case "REQUIRED":
                return True
            case "REQUIRED_FOR_DELETE":
                return deleting
            case "OPTIONAL":
                return False
    return False


def etag_of(document: Mapping[str, Any] | None) -> str | None:
    """The etag of a stored document, as it is sent."""
    etag = document.get(ETAG) if document is not None else None
    return str(etag) if isinstance(etag, str | ObjectId) else None


def etag_headers(document: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The header `ETag`, where there is one and it can be sent."""
    etag = etag_of(document)
    return [("ETag", etag)] if etag is not None and etag.isascii() and etag.isprintable() else []
