"""Optimistic locking (conditional requests): ETags, checked in the filter of the write.

A stored etag is an ObjectId, renewed at every write. The database checks the condition together
with the write, so only one of two writers with the same etag wins. A document without an etag
(written by another program) matches no etag of `If-Match`: it changed since the caller read it. It
is written without `If-Match`, and with `*`.

`If-None-Match` of a write is the opposite: none of the tags may be the stored one, and `*` requires
that the document does not exist.

`ETag` is sent as 24 hexadecimal digits without quotes, as clients of this kind of API expect it.
`If-Match` and `If-None-Match` are accepted with and without quotes, with `W/`, as lists, and as
`*`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Body
from docgraph.exchange.errors import Overloaded
from docgraph.exchange.headers import Headers
from docgraph.exchange.request import Request
from docgraph.runtime.backoff import GrowingPauses

ETAG: Final = "_etag"

# It never inspects what follows a tag: backtracking from there takes quadratic time.
_TAG = re.compile(r'(?:W/)?(?:"([^"]*)"|([^",\s]+))')
_HEX = re.compile(r"[0-9a-fA-F]{24}")
_KINDS: Final = (str, ObjectId)  # of stored etags
# Otherwise a condition would compare the elements of an array.
_WHOLE: Final = {"$not": {"$type": "array"}}


@dataclass(frozen=True, slots=True)
class Tags:
    """The value of `If-Match` or `If-None-Match`."""

    values: frozenset[str]
    any: bool = False

    def __contains__(self, etag: object) -> bool:
        """Check if the etag of an existing document is among them; other values are not etags."""
        return self.any or (isinstance(etag, _KINDS) and str(etag) in self.values)


def parse_tags(fields: Sequence[str]) -> Tags | None:
    """Return the tags of all header fields of that name; None if there is none."""
    if not fields:
        return None
    matches = list(_TAG.finditer(",".join(fields)))
    if matches and all(match[2] == "*" for match in matches):  # also if the field appears twice
        return Tags(frozenset(), any=True)
    return Tags(frozenset(match[1] if match[1] is not None else match[2] for match in matches))


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a write on the etag of the stored document.

    `tags`: it must be one of them; None: any etag passes. `unless`: it must not be one of them.
    `is_lacking`: an etag is required and the request has none, so the document must not have one.
    """

    tags: Tags | None = None
    unless: Tags | None = None
    is_lacking: bool = False

    @property
    def stored(self) -> Any:
        """The condition on `_etag` in a filter; null also finds documents without one."""
        if self.unless is not None and self.unless.any:
            return {"$in": []}  # no such document exists; an upsert inserts, or collides
        if self.is_lacking:
            return {"$eq": None, **_WHOLE}
        excluded = _stored_forms(self.unless)
        if self.tags is None:
            return {"$not": {"$in": excluded, **_WHOLE}}
        return {"$in": [tag for tag in _stored_forms(self.tags) if tag not in excluded], **_WHOLE}

    def admits(self, etag: Any) -> bool:
        """Check if a document with that etag (None: without one) satisfies the condition."""
        if self.excludes(etag):
            return False
        if etag is None:
            return self.tags is None
        return not self.is_lacking and (self.tags is None or etag in self.tags)

    def excludes(self, etag: Any) -> bool:
        """Check if `If-None-Match` excludes a document with that etag."""
        unless = self.unless
        return unless is not None and (unless.any or (etag is not None and etag in unless))


class ConditionUnmet(Exception):
    """The stored document does not satisfy the condition; `answer` is the response, 412."""

    def __init__(self, answer: Body) -> None:
        super().__init__("the condition of the request is not met")
        self.answer = answer


def _stored_forms(tags: Tags | None) -> list[Any]:
    """Return the stored forms of the tags: other programs may store etags of another type."""
    values = tags.values if tags is not None else ()
    return [*(ObjectId(tag) for tag in values if _HEX.fullmatch(tag)), *values]


def find_condition(headers: Headers, *, demanded: bool) -> Condition | None:
    """Return the condition of a write; None if any etag passes."""
    tags = parse_tags(headers.get_list("if-match"))
    unless = parse_tags(headers.get_list("if-none-match"))
    is_lacking = demanded and tags is None
    if tags is not None and tags.any:
        tags = None
    if tags is None and unless is None and not is_lacking:
        return None
    return Condition(tags, unless, is_lacking)


def find_exclusion(headers: Headers) -> Condition | None:
    """Return the condition of a write that always creates: `If-None-Match` alone."""
    unless = parse_tags(headers.get_list("if-none-match"))
    return None if unless is None else Condition(unless=unless)


def is_demanded(policies: Sequence[Any], default: str, *, deleting: bool) -> bool:
    """Check if the first valid policy requires an etag for this write."""
    for policy in (*policies, default):
        match policy.upper() if isinstance(policy, str) else None:
            case "REQUIRED":
                return True
            case "REQUIRED_FOR_DELETE":
                return deleting
            case "OPTIONAL":
                return False
    return False


def new_etag() -> ObjectId:
    return ObjectId()


def etag_header(etag: ObjectId) -> tuple[str, str]:
    return ("ETag", str(etag))


def etag_of(document: Mapping[str, Any] | None) -> str | None:
    """Return the etag of a stored document, as it is sent."""
    etag = document.get(ETAG) if document is not None else None
    return str(etag) if isinstance(etag, _KINDS) else None


def etag_headers(document: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the header `ETag`, if the document has one that can be sent."""
    etag = etag_of(document)
    return [("ETag", etag)] if etag is not None and etag.isascii() and etag.isprintable() else []


def hash_content(content: bytes) -> str:
    """Return the etag of a response that is not a stored document."""
    return blake2b(content, digest_size=12).hexdigest()


def answer_unless_known(request: Request, etag: str, answer: Body) -> Body:
    """Return the answer with its etag, or 304 for a client that has it already."""
    answer.headers.append(("ETag", f'"{etag}"'))
    tags = parse_tags(request.headers.get_list("if-none-match"))
    return Body(304, headers=answer.headers) if tags is not None and etag in tags else answer


_TRIES: Final = 40
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.25  # seconds


async def attempts(what: str) -> AsyncIterator[None]:
    """Yield once per attempt, with growing pauses (backoff); after the last one raise 503.

    It is for writes that lost a race with another writer. A document that is checked as a whole is
    read, changed in memory and replaced by its etag. Writers of one worker wait for each other
    (`RestCall.turn`), so only those of other workers and instances can be faster. The number of
    attempts is bounded.
    """
    pauses = GrowingPauses(_FIRST_PAUSE, _LONGEST_PAUSE)
    for number in range(_TRIES):
        if number:
            await asyncio.sleep(next(pauses))
        yield
    raise Overloaded(f"too many concurrent updates of {what}")
