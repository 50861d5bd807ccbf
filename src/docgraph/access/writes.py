"""Writes to the collection of permission rules: checked before, made known after.

The writer (the REST API, a command, a plugin) gets an error that says where the mistake is; nothing
invalid is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from docgraph.access.database import AUTHORIZER, DbAclAuthorizer
from docgraph.access.doubts import find_refused
from docgraph.access.reading import describe_flaw, read_rule
from docgraph.access.rule import Rule, Source
from docgraph.access.rulebook import RuleBook
from docgraph.codec.pieces import check_size
from docgraph.config.section import PluginConfig
from docgraph.exchange import (
    Exchange,
    Resource,
    Write,
    WriteKind,
    WriteResult,
)
from docgraph.exchange.errors import DefinitionError, NotSupported
from docgraph.plugins.kinds import DataInterceptor
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Generations
from docgraph.store import Store
from docgraph.store.versions import Versions

__all__ = ["PermissionChecker", "PermissionNotifier"]


class _OnRules(DataInterceptor):
    """An interceptor of the collection of rules; rests when `dbAclAuthorizer` is off."""

    security: ClassVar[bool] = True

    def __init__(self, config: PluginConfig, registry: PluginRegistry) -> None:
        self.config = config
        self._registry = registry
        self._place: tuple[str, str] | None = None

    async def provision(self) -> None:
        """Find out which collection it is."""
        authorizer = self._registry.find(AUTHORIZER)
        if isinstance(authorizer, DbAclAuthorizer):
            self._place = (authorizer.config.acl_db, authorizer.config.acl_collection)

    def resolve(self, resource: Resource) -> bool:
        """The collection of rules and its documents."""
        return self._place is not None and resource.is_in(*self._place)


class PermissionChecker(_OnRules):
    """Refuses rules that cannot work; comes after those that put values into a write."""

    name: ClassVar[str] = "permissionChecker"
    description: ClassVar[str] = "validates permission rules before they are written"
    priority: ClassVar[int] = 900
    wants_whole_documents: ClassVar[bool] = True

    def __init__(
        self, config: PluginConfig, registry: PluginRegistry, acl_rules: RuleBook, store: Store
    ) -> None:
        super().__init__(config, registry)
        self._book = acl_rules
        self._store = store

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """All documents or none."""
        if write.kind is WriteKind.DELETE:
            return write
        if write.kind is WriteKind.UPDATE:
            raise NotSupported(
                "permissions cannot be updated in bulk", hint="write the whole permission"
            )
        check_size(write.documents, "the permission")
        several = len(write.documents) > 1
        for index, document in enumerate(write.documents):
            await self._check(document, f"permissions[{index}]" if several else "")
        return write

    async def _check(self, document: Mapping[str, Any], prefix: str) -> None:
        read = read_rule(document, Source.DATABASE, self._book.knowledge)
        if isinstance(read, Rule) and self._place is not None:
            flaws = await find_refused(read, self._store, self._place)
        else:
            flaws = [] if isinstance(read, Rule) else read
        if flaws:
            raise DefinitionError(
                describe_flaw(flaws[0], prefix),
                hint=flaws[0].hint,
                details=[describe_flaw(flaw, prefix) for flaw in flaws],
            )


class PermissionNotifier(_OnRules):
    """Makes a committed write known to every worker: it is in force with their next request.

    Other instances hear of it by change stream, or by the version that is raised here.
    """

    name: ClassVar[str] = "permissionTeller"
    description: ClassVar[str] = "makes written permission rules known to all workers"
    hears_uncertain: ClassVar[bool] = True

    def __init__(
        self, config: PluginConfig, registry: PluginRegistry, generations: Generations, store: Store
    ) -> None:
        super().__init__(config, registry)
        self._generations = generations
        self._store = store

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        """The result as it is."""
        self._generations.bump("rules")
        if self._place is not None:
            await Versions(self._store, *self._place).announce()
        return result
