"""Rule book: all permission rules as one list, and the rule that decides a request.

Rules of the file and of the database have one order (decision 38): those for roles that the caller
has, then those for authenticated users, then those for everyone, so that a general rule never
narrows a special one. With `acl.first-role-wins` the order of the caller's roles comes before
priorities, and with `acl.order: file-first` the rules of the file before both. The lists are cached
per set of roles and indexed by path and method, so that a request checks only rules that could
match its caller, path and method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, ClassVar, Final, Protocol

from docgraph.access.language import RequestView, holds
from docgraph.access.language.predicate import Failure, find_failures
from docgraph.access.parse_rule import Knowledge, describe_flaws
from docgraph.access.rule import (
    Rule,
    RuleIndex,
    RuleOrigin,
    Unresolved,
    find_flag,
    resolve_conditions,
    roles_of,
)
from docgraph.access.sections import Acl
from docgraph.codec import decode
from docgraph.config.section import PluginConfig
from docgraph.exchange import Account, Exchange, Permission
from docgraph.exchange.errors import DocgraphError
from docgraph.observe import emit
from docgraph.observe.events import PluginFailed
from docgraph.plugins.kinds import Decision, Kind, Provider
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import LruDict
from docgraph.store import Store
from docgraph.variables import Flaw, Resolvers

_KEPT_LISTS: Final = 1000
_NO_RULE: Final = "no rule matches"
_NO_MATCH: Final = {
    name: Decision(False, _NO_RULE, name) for name in ("dbAclAuthorizer", "fileAclAuthorizer")
}
_ANONYMOUS: Final = roles_of(None)
_EVERY_USER: Final = roles_of(Account(""))


@dataclass(frozen=True, slots=True)
class Ignored:
    """An invalid rule of the database, which matches nothing."""

    document: Mapping[str, Any]
    flaws: Sequence[Flaw]

    def __str__(self) -> str:
        name = f"{self.document.get('_id')} ({RuleOrigin.DATABASE})"
        return f"the rule {name} matches nothing: {describe_flaws(self.flaws)}"


class RuleSet:
    """The rules of one source by role; a new set is a new object."""

    def __init__(self, rules: Iterable[Rule] = (), ignored: Iterable[Ignored] = ()) -> None:
        self.ignored = tuple(ignored)
        self.rules = tuple(sorted(rules, key=lambda rule: rule.rank, reverse=True))
        self._by_role: dict[str, list[Rule]] = {}
        for rule in self.rules:
            for role in rule.roles:
                self._by_role.setdefault(role, []).append(rule)

    def of_roles(self, roles: Iterable[str]) -> list[Rule]:
        """Return the rules that at least one of these roles has, in no particular order."""
        rules = {id(rule): rule for role in roles for rule in self._by_role.get(role, ())}
        return list(rules.values())


class RuleSource(Protocol):
    """A source of rules."""

    def find(self) -> RuleSet | None:
        """Return the current rules, unless they must be read; the usual case."""

    async def load(self) -> RuleSet:
        """Return the rules, reading them if necessary; the same object until something changes."""


@dataclass(frozen=True, slots=True)
class Match:
    """The deciding rule: it permits the request with a permission, or cannot (`reason`)."""

    rule: Rule
    permission: Permission | None = None
    reason: str = ""


class RuleBook:
    """Finds the rule for a request; the authorizers add their sources."""

    def __init__(
        self,
        knowledge: Callable[[], Knowledge],
        resolvers: Callable[[], Resolvers],
        acl: Acl | None = None,
    ) -> None:
        self.acl = acl or Acl()
        self._rank_in_source = Rule.rank_by_role if self.acl.first_role_wins else Rule.rank_for
        self._knowledge = knowledge
        self._resolvers = resolvers
        self._sources: list[RuleSource] = []
        self.lists: LruDict[tuple[str, ...], tuple[list[RuleSet], RuleIndex]] = LruDict(_KEPT_LISTS)

    def add(self, source: RuleSource) -> None:
        self._sources.append(source)

    def rank(self, rule: Rule, roles: tuple[str, ...]) -> tuple[Any, ...]:
        """Return the sort key of a rule for callers with these roles; the highest is first."""
        rank = self._rank_in_source(rule, roles)
        return (*rule.rank_file_first(roles), *rank) if self.acl.order == "file-first" else rank

    @property
    def knowledge(self) -> Knowledge:
        """The names that rules are checked against; complete after all plugins are constructed."""
        return self._knowledge()

    def view(self, exchange: Exchange) -> RequestView:
        return RequestView(exchange, self._resolvers())

    async def find_rules(self, roles: tuple[str, ...]) -> RuleIndex:
        """Return the rules of callers with these roles in evaluation order.

        It is the same object until they change.
        """
        sets: list[RuleSet] = []
        for source in self._sources:
            rules = source.find()
            sets.append(await source.load() if rules is None else rules)
        index = self.lists.get(roles)
        return index[1] if index is not None and index[0] == sets else self._index(roles, sets)

    def _index(self, roles: tuple[str, ...], sets: list[RuleSet]) -> RuleIndex:
        selected = (rule for rule_set in sets for rule in rule_set.of_roles(roles))
        index = RuleIndex(
            tuple(sorted(selected, key=lambda rule: self.rank(rule, roles), reverse=True))
        )
        self.lists.put(roles, (sets, index))
        return index

    async def find_all(self) -> list[Rule]:
        return [rule for source in self._sources for rule in (await source.load()).rules]

    async def find_ignored(self) -> list[Ignored]:
        """Return the invalid rules of all sources, each with the reasons."""
        return [ignored for source in self._sources for ignored in (await source.load()).ignored]

    async def match(self, exchange: Exchange) -> Match | None:
        return await self._match(exchange, await self.find_rules(roles_of(exchange.account)))

    async def _match(self, exchange: Exchange, index: RuleIndex) -> Match | None:
        if not index.rules:
            return None
        view = RequestView(exchange, self._resolvers())
        concerning = index.select(view.request.method, view.segments)
        if not concerning:
            return None
        flag = find_flag(view)
        for _, rule in concerning:
            if flag is not None and flag not in rule.conditions.flags:
                continue
            view.bound.clear()
            try:
                met = rule.predicate.test(view) is True
            except Exception:  # it needs a value, or fails: `is_met` finds out
                met = await self.is_met(rule, view)
            if met:
                return await self.build_match(rule, view)
        return None

    async def is_met(self, rule: Rule, view: RequestView) -> bool:
        """Return whether the predicate of the rule is true; one that fails is not."""
        try:
            return await holds(rule.predicate, view)
        except (DocgraphError, MemoryError):
            raise
        except Exception as error:
            emit(PluginFailed("aclRules", f"the predicate of {rule}", error))
            return False

    async def find_failures(self, rule: Rule, view: RequestView) -> tuple[Failure, ...]:
        """Return the conditions that prevent the match; none when a condition fails."""
        try:
            return await find_failures(rule.predicate.text, self.knowledge.variables, view)
        except (DocgraphError, MemoryError):
            raise
        except Exception as error:
            emit(PluginFailed("aclRules", f"the predicate of {rule}", error))
            return ()

    async def build_match(self, rule: Rule, view: RequestView) -> Match:
        """Return the match of a rule whose predicate is true."""
        try:
            permission = await resolve_conditions(rule.conditions, rule.label, view)
        except Unresolved as error:
            # The next rule may permit more than this one: never continue with it.
            return Match(rule, reason=str(error))
        return Match(rule, permission)

    async def is_file_decisive(self, exchange: Exchange) -> bool:
        """Return whether a rule of the file for a role of the caller decides, before the root role.

        That is so with `acl.order: file-first` only.
        """
        if self.acl.order != "file-first":
            return False
        match = await self.match(exchange)
        if match is None or match.rule.source is not RuleOrigin.FILE:
            return False
        return not match.rule.roles.isdisjoint(exchange.roles)

    async def decide(self, exchange: Exchange, source: RuleOrigin, authorizer: str) -> Decision:
        """Return the decision of the authorizer that owns the source."""
        account = exchange.account
        roles = _ANONYMOUS if account is None else (*account.roles, *_EVERY_USER)
        index = await self.find_rules(roles)
        match: Match | None = None
        if index.rules:
            # Two authorizers ask for the match, one after the other. That of the same rules, caller
            # and request is still right: interceptors may replace headers.
            request = exchange.request
            causes = (index, exchange.account, exchange.parsed, request.headers, request.segments)
            earlier = getattr(exchange, "rule_match", None)
            if earlier is not None and all(map(is_, earlier[0], causes)):
                match = earlier[1]
            else:
                match = await self._match(exchange, index)
                exchange.rule_match = (causes, match)
        if match is None:
            return _NO_MATCH.get(authorizer) or Decision(False, _NO_RULE, authorizer)
        label = match.rule.label
        if match.permission is None:
            reason = f"the rule {label} matches, but {match.reason}"
            return Decision(False, reason, authorizer)
        if match.rule.source is not source:
            return Decision(False, f"the rule {label} decides, which is not of the {source}")
        return Decision(True, f"the rule {label} matches", authorizer, match.permission)


class RuleBookProvider(Provider):
    """Provides the rule book to the authorizers and to explanations."""

    name: ClassVar[str] = "aclRules"
    description: ClassVar[str] = "the permission rules of the file and the database as one list"
    provides: ClassVar[str] = "acl-rules"
    security: ClassVar[bool] = True

    def __init__(
        self, config: PluginConfig, store: Store, registry: PluginRegistry, acl: Acl
    ) -> None:
        self._store = store
        self._registry = registry
        self._resolvers: Resolvers | None = None
        self._book = RuleBook(self._know, self._find_resolvers, acl)

    def get(self) -> RuleBook:
        return self._book

    def _know(self) -> Knowledge:
        return Knowledge(self._find_resolvers().variables, self._store.policy)

    def _find_resolvers(self) -> Resolvers:
        """Build the resolvers at first use: the plugin registry is filled after construction."""
        if self._resolvers is None:
            plugins = self._registry.of_kind(Kind.VARIABLE_RESOLVER)
            self._resolvers = Resolvers(decode, plugins)
        return self._resolvers
