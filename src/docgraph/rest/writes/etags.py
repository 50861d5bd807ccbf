"""Etags: what a request demands of the stored one, as a part of the filter of the write itself.

A stored etag is an ObjectId, renewed at every write. Whether a condition holds is decided by the
database together with the write, so that of two writers with the same etag only one wins. A
document without an etag (written by other means) matches no etag of `If-Match`: its author has
changed what the caller knew. It is written without `If-Match`, and with `*`.

`If-None-Match` of a write is the other way round: none of the tags may be the stored one, and `*`
demands that there is nothing yet.

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
    "find_exclusion",
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
    found = list(_TAG.finditer(",".join(fields)))
    if found and all(match[2] == "*" for match in found):  # also where the field stands twice
        return Tags(frozenset(), any=True)
    return Tags(frozenset(match[1] if match[1] is not None else match[2] for match in found))


@dataclass(frozen=True, slots=True)
class Condition:
    """What a write demands of the etag of the document that it finds.

    `tags`: it has to be one of them, None: any will do. `unless`: it must not be one of them.
    `is_lacking`: one is demanded and the request has none, so that it must not have one either.
    """

    tags: Tags | None = None
    unless: Tags | None = None
    is_lacking: bool = False

    @property
    def stored(self) -> Any:
        """The condition on `_etag` in a filter; null also finds documents without one."""
        if self.unless is not None and self.unless.any:
            return {"$in": []}  # there is no such document; an upsert inserts, or collides
        if self.is_lacking:
            return None
        condition: dict[str, Any] = {}
        if self.tags is not None:
            condition["$in"] = _stored_forms(self.tags)
        if self.unless is not None:
            condition["$nin"] = _stored_forms(self.unless)
        return condition

    def admits(self, etag: Any) -> bool:
        """Whether a document with that etag, None without one, fulfils the condition."""
        if self.excludes(etag):
            return False
        if etag is None:
            return self.tags is None
        return not self.is_lacking and (self.tags is None or etag in self.tags)

    def excludes(self, etag: Any) -> bool:
        """Whether `If-None-Match` is against a document with that etag."""
        unless = self.unless
        return unless is not None and (unless.any or (etag is not None and etag in unless))


def _stored_forms(tags: Tags) -> list[Any]:
    """The tags as they can be stored: one that is no ObjectId can be what others have written."""
    return [*(ObjectId(tag) for tag in tags.values if _HEX.fullmatch(tag)), *tags.values]


def find_condition(headers: Headers, *, demanded: bool) -> Condition | None:
    """The condition of a write; None when any etag will do."""
    tags, unless = parse_tags(headers.get_list("if-match")), _parse_unless(headers)
    is_lacking = demanded and tags is None
    if tags is not None and tags.any:
        tags = None
    if tags is None and unless is None and not is_lacking:
        return None
    return Condition(tags, unless, is_lacking)


def find_exclusion(headers: Headers) -> Condition | None:
    """The condition of a write that creates in any case: `If-None-Match` alone."""
    unless = _parse_unless(headers)
    return None if unless is None else Condition(unless=unless)


def _parse_unless(headers: Headers) -> Tags | None:
    return parse_tags(headers.get_list("if-none-match"))


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
