"""Enforce a permission on reads and writes: `writeFilter`, `mergeRequest`, `projectResponse`.

They are enforced at the store, so that no handler can omit them. Row filters of reads are not here:
they are passed to every store call as `rows`. Without a permission (the command line, the root
role, approval by code) nothing is enforced; collections other than the request's own are not
affected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from docgraph.access.enforcing.hidden import check_copies, reads_hidden, writes_by_hidden
from docgraph.access.enforcing.merge_request import merge_into
from docgraph.exchange import (
    Document,
    Exchange,
    Permission,
    Read,
    Resource,
    Write,
    WriteKind,
)
from docgraph.exchange.data import SORT_KEY, TrustedDocument
from docgraph.exchange.errors import DocgraphError, Forbidden, Unauthenticated
from docgraph.observe import emit
from docgraph.observe.events import AccessDenied
from docgraph.plugins.kinds import DataInterceptor
from docgraph.store.guard.fence import check_found
from docgraph.store.guard.shown import project
from docgraph.store.names import namespace_of

_FIRST = -1000  # before other interceptors add their own conditions to the caller's


class _Enforcing(DataInterceptor):
    security: ClassVar[bool] = True

    def resolve(self, resource: Resource) -> bool:
        """Return whether the resource contains documents."""
        return resource.db is not None and resource.collection is not None

    def find_permission(self, exchange: Exchange | None, resource: Resource) -> Permission | None:
        """Return the permission if it concerns this collection."""
        permission = exchange.permission if exchange is not None else None
        if permission is None or resource.db is None or resource.collection is None:
            return None
        own = namespace_of(resource.db, resource.collection) == permission.namespace
        return permission if own else None


class HiddenReads(_Enforcing):
    """Rejects reads and counts that use properties which `projectResponse` hides."""

    name: ClassVar[str] = "permissionHiddenReads"
    description: ClassVar[str] = "refuses reads that use what mongo.projectResponse hides"
    priority: ClassVar[int] = _FIRST

    async def before_read(self, exchange: Exchange | None, resource: Resource, read: Read) -> Read:
        """Return the read unchanged, or raise 401 (not authenticated) or 403."""
        permission = self.find_permission(exchange, resource)
        if exchange is None or permission is None or not permission.project_response:
            return read
        if reads_hidden(read, permission.project_response):
            raise _deny(self.name, exchange)
        return read


class HiddenWrites(_Enforcing):
    """Rejects writes that select documents by hidden properties, or would show them."""

    name: ClassVar[str] = "permissionHiddenWrites"
    description: ClassVar[str] = "refuses writes that use what mongo.projectResponse hides"
    priority: ClassVar[int] = _FIRST

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """Return the write unchanged, or raise 401 (not authenticated) or 403."""
        permission = self.find_permission(exchange, resource)
        if exchange is None or permission is None or not permission.project_response:
            return write
        if writes_by_hidden(write, permission.project_response):
            raise _deny(self.name, exchange)
        check_copies(write, permission.project_response)
        return write


def _deny(interceptor: str, exchange: Exchange) -> DocgraphError:
    """Build the rejection of a request that no rule permits."""
    reason = "the request uses properties that the rule hides"
    request, account = exchange.request, exchange.account
    name = account.name if account is not None else ""
    emit(AccessDenied(exchange.id, interceptor, reason, name, request.method, request.path))
    return Unauthenticated(reason) if account is None else Forbidden(reason)


class WriteFilter(_Enforcing):
    """Limits writes to documents that `writeFilter` matches; creating documents stays possible."""

    name: ClassVar[str] = "permissionWriteFilter"
    description: ClassVar[str] = "applies mongo.writeFilter of permissions"
    priority: ClassVar[int] = 1

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """Return the write with the filter of the permission added."""
        permission = self.find_permission(exchange, resource)
        if permission is None:
            return write
        if permission.write_filter or permission.read_filters.get(permission.namespace or ""):
            check_found(write.filter)
        return restrict(write, permission.write_filter or {})


def restrict(write: Write, filter: Mapping[str, Any]) -> Write:
    """Return the write with a further condition on the documents that it selects."""
    if write.kind is WriteKind.INSERT or not filter:
        return write
    own = write.filter
    if not own and write.kind is WriteKind.REPLACE and len(write.documents) == 1:
        own = {"_id": write.documents[0].get("_id")}
    filter = TrustedDocument(filter)
    return replace(write, filter={"$and": [own, filter]} if own else filter)


class RequestMerger(_Enforcing):
    """Writes the values of `mergeRequest` over those of the caller."""

    name: ClassVar[str] = "permissionRequestMerger"
    description: ClassVar[str] = "applies mongo.mergeRequest of permissions"
    priority: ClassVar[int] = 2

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """Return the write with the values of the permission."""
        permission = self.find_permission(exchange, resource)
        if permission is None or not permission.merge_request:
            return write
        return merge_into(write, permission.merge_request)


class ResponseProjector(_Enforcing):
    """Removes properties that `projectResponse` hides from documents that are read."""

    name: ClassVar[str] = "permissionResponseProjector"
    description: ClassVar[str] = "applies mongo.projectResponse of permissions"
    takes_portions: ClassVar[bool] = True
    priority: ClassVar[int] = 900

    def changes_read(self, exchange: Exchange | None, resource: Resource) -> bool:
        """Return whether the permission hides properties."""
        permission = self.find_permission(exchange, resource)
        return permission is not None and bool(permission.project_response)

    async def after_read(
        self, exchange: Exchange | None, resource: Resource, documents: list[Document]
    ) -> list[Document]:
        """Return the documents as the permission shows them."""
        permission = self.find_permission(exchange, resource)
        if permission is None or not permission.project_response:
            return documents
        shown = project(documents, permission.project_response)
        for before, after in zip(documents, shown, strict=True):
            if SORT_KEY in before:  # of a sort that uses nothing hidden (`HiddenReads`)
                after[SORT_KEY] = before[SORT_KEY]
        return shown
