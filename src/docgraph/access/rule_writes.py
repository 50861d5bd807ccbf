"""Writes to the collection of permission rules: validate before, announce after.

The writer (the REST API, a command, a plugin) gets an error with the location of the mistake;
nothing invalid is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from docgraph.access.parse_rule import MAX_FLAWS, describe_flaw, find_refused, read_rule
from docgraph.access.rule import Rule, RuleOrigin
from docgraph.access.rule_authorizers import AUTHORIZER, DbAclAuthorizer
from docgraph.access.rulebook import RuleBook
from docgraph.codec.pieces import check_size
from docgraph.config.section import PluginConfig
from docgraph.exchange import Document, Exchange, Resource, Write, WriteKind, WriteResult
from docgraph.exchange.errors import DefinitionError, NotSupported
from docgraph.plugins.kinds import DataInterceptor
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Generations, run_blocking
from docgraph.store import Store
from docgraph.store.versions import Versions
from docgraph.variables import Flaw


class _OnRules(DataInterceptor):
    """An interceptor of the collection of rules; inactive when `dbAclAuthorizer` is disabled."""

    security: ClassVar[bool] = True

    def __init__(self, config: PluginConfig, registry: PluginRegistry) -> None:
        self.config = config
        self._registry = registry
        self._place: tuple[str, str] | None = None

    async def provision(self) -> None:
        authorizer = self._registry.find(AUTHORIZER)
        if isinstance(authorizer, DbAclAuthorizer):
            self._place = (authorizer.config.acl_db, authorizer.config.acl_collection)

    def resolve(self, resource: Resource) -> bool:
        """Return whether the resource is the collection of rules or one of its documents."""
        return self._place is not None and resource.is_in(*self._place)


class PermissionChecker(_OnRules):
    """Rejects invalid rules; runs after interceptors that add values to a write."""

    name: ClassVar[str] = "permissionChecker"
    description: ClassVar[str] = "validates permission rules before they are written"
    priority: ClassVar[int] = 900
    wants_whole_documents: ClassVar[bool] = True

    def __init__(
        self,
        config: PluginConfig,
        registry: PluginRegistry,
        acl_rules: RuleBook,
        store: Store,
        blocking: Blocking,
    ) -> None:
        super().__init__(config, registry)
        self._book = acl_rules
        self._store = store
        self._lane = blocking.lane("definitions", concurrency=1, queue=64)

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """Check all documents: the write stores all of them or none."""
        if write.kind is WriteKind.DELETE:
            return write
        if write.kind is WriteKind.UPDATE:
            raise NotSupported(
                "permissions cannot be updated in bulk", hint="write the whole permission"
            )
        check_size(write.documents, "the permission")
        several = len(write.documents) > 1
        rules = await run_blocking(self._lane, self._read, write.documents)
        for index, rule in enumerate(rules):
            await self._check(rule, f"permissions[{index}]" if several else "")
        return write

    def _read(self, documents: Sequence[Document]) -> list[Rule | list[Flaw]]:
        """Return the rules in order, up to the first invalid one."""
        knowledge = self._book.knowledge
        rules: list[Rule | list[Flaw]] = []
        for document in documents:
            rules.append(read_rule(document, RuleOrigin.DATABASE, knowledge))
            if not isinstance(rules[-1], Rule):
                break
        return rules

    async def _check(self, rule: Rule | list[Flaw], prefix: str) -> None:
        if isinstance(rule, Rule) and self._place is not None:
            flaws = await find_refused(rule, self._store, self._place)
        else:
            flaws = [] if isinstance(rule, Rule) else rule
        if flaws:
            raise DefinitionError(
                describe_flaw(flaws[0], prefix),
                hint=flaws[0].hint,
                details=[describe_flaw(flaw, prefix) for flaw in flaws[:MAX_FLAWS]],
            )


class PermissionNotifier(_OnRules):
    """Announces a committed write to every worker: it applies to their next request.

    Other instances are notified by change stream, or by the version that is raised here.
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
        self._generations.bump("rules")
        if self._place is not None:
            await Versions(self._store, *self._place).announce()
        return result
