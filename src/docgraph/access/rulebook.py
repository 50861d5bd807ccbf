"""All permission rules as one list, and the one of them that admits a request.

Rules of the file and of the database stand in one order (decision 38): those for roles that the
caller holds, then those for every known caller, then those for everybody, so that a general rule
never narrows a special one. The lists are kept per set of roles and indexed by path and method, so
that a request looks only at rules that could concern its caller and what it asks for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from docgraph.access.conditions import Unresolved, find_flag, resolve_conditions
from docgraph.access.index import RuleIndex
from docgraph.access.language import RequestView, holds
from docgraph.access.language.blame import Failure, find_failures
from docgraph.access.reading import Flaw, Knowledge, describe_flaws
from docgraph.access.rule import Rule, Source, roles_of
from docgraph.codec import decode
from docgraph.config.section import PluginConfig
from docgraph.exchange import Exchange, Permission
from docgraph.exchange.errors import DocgraphError
from docgraph.observe import emit
from docgraph.observe.events import PluginFailed
from docgraph.plugins.kinds import Decision, Kind, Provider
from docgraph.plugins.registry import PluginRegistry
from docgraph.store import Store
from docgraph.variables import Resolvers

__all__ = ["Ignored", "Match", "RuleBook", "RuleBookProvider", "RuleSet", "RuleSource"]

_KEPT_LISTS: Final = 1000
_NO_RULE: Final = Decision(False, "no rule matches")


@dataclass(frozen=True, slots=True)
class Ignored:
    """A rule of the database that cannot be read, and so matches nothing."""

    document: Mapping[str, Any]
    flaws: Sequence[Flaw]

    def __str__(self) -> str:
        name = f"{self.document.get('_id')} ({Source.DATABASE})"
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
        """The rules that at least one of these roles has, in no particular order."""
        found = {id(rule): rule for role in roles for rule in self._by_role.get(role, ())}
        return list(found.values())


class RuleSource(Protocol):
    """Something that has rules."""

    def find(self) -> RuleSet | None:
        """The rules in force now, unless they have to be read: as for most requests."""
        ...

    async def load(self) -> RuleSet:
        """The same, read if need be; the same object as long as nothing changes."""
        ...


@dataclass(frozen=True, slots=True)
class Match:
    """The rule that decides: it admits the request with a permission, or cannot (`reason`)."""

    rule: Rule
    permission: Permission | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _List:
    sets: list[RuleSet]
    index: RuleIndex


class RuleBook:
    """Finds the rule for a request; sources are added by the authorizers that own them."""

    def __init__(
        self,
        knowledge: Callable[[], Knowledge],
        resolvers: Callable[[], Resolvers],
    ) -> None:
        self._knowledge = knowledge
        self._resolvers = resolvers
        self._sources: list[RuleSource] = []
        self._lists: OrderedDict[tuple[str, ...], _List] = OrderedDict()
        self.kept_lists = _KEPT_LISTS

    def add(self, source: RuleSource) -> None:
        """Take the rules of this source, too."""
        self._sources.append(source)

    @property
    def knowledge(self) -> Knowledge:
        """What rules are checked against; complete once every plugin is constructed."""
        return self._knowledge()

    def view(self, exchange: Exchange) -> RequestView:
        """The request as predicates see it."""
        return RequestView(exchange, self._resolvers())

    async def find_rules(self, roles: tuple[str, ...]) -> RuleIndex:
        """The rules of callers with these roles, in the order they are looked at."""
        return self._find_index(roles, [await source.load() for source in self._sources])

    def _find_index(self, roles: tuple[str, ...], sets: list[RuleSet]) -> RuleIndex:
        known = self._lists.get(roles)
        if known is not None and known.sets == sets:
            self._lists.move_to_end(roles)
            return known.index
        found = (rule for one in sets for rule in one.of_roles(roles))
        index = RuleIndex(tuple(sorted(found, key=lambda one: one.rank_for(roles), reverse=True)))
        self._lists[roles] = _List(sets, index)
        self._lists.move_to_end(roles)
        while len(self._lists) > self.kept_lists:
            self._lists.popitem(last=False)
        return index

    async def find_all(self) -> list[Rule]:
        """The rules of all sources."""
        return [rule for source in self._sources for rule in (await source.load()).rules]

    async def find_ignored(self) -> list[Ignored]:
        """The rules of all sources that cannot be read, each with the reasons."""
        return [one for source in self._sources for one in (await source.load()).ignored]

    async def match(self, exchange: Exchange) -> Match | None:
        """The first rule that matches; None when none does."""
        roles = roles_of(exchange.account)
        sets = [found for source in self._sources if (found := source.find()) is not None]
        if len(sets) == len(self._sources):
            index = self._find_index(roles, sets)
        else:
            index = await self.find_rules(roles)
        if not index.rules:
            return None
        view = self.view(exchange)
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
            except Exception:  # it asks for a value, or fails: `is_met` finds out
                met = await self.is_met(rule, view)
            if met:
                return await self._settle(rule, view)
        return None

    async def is_met(self, rule: Rule, view: RequestView) -> bool:
        """Whether the predicate of the rule holds; one that fails does not."""
        try:
            return await holds(rule.predicate, view)
        except DocgraphError:
            raise
        except Exception as error:
            emit(PluginFailed("aclRules", f"the predicate of {rule}", error))
            return False

    async def find_failures(self, rule: Rule, view: RequestView) -> tuple[Failure, ...]:
        """The conditions that keep the rule from matching; none when one of them fails to tell."""
        try:
            return await find_failures(rule.predicate.text, self.knowledge.variables, view)
        except DocgraphError:
            raise
        except Exception as error:
            emit(PluginFailed("aclRules", f"the predicate of {rule}", error))
            return ()

    async def _settle(self, rule: Rule, view: RequestView) -> Match:
        try:
            permission = await resolve_conditions(rule.conditions, rule.label, view)
        except Unresolved as error:
            # The next rule may be wider than this one: nothing falls through.
            return Match(rule, reason=str(error))
        return Match(rule, permission)

    async def decide(self, exchange: Exchange, source: Source, authorizer: str) -> Decision:
        """The decision of the authorizer that owns the source."""
        match = await self.match(exchange)
        if match is None:
            return _NO_RULE
        if match.permission is None:
            return Decision(False, f"the rule {match.rule} matches, and {match.reason}")
        if match.rule.source is not source:
            return Decision(False, f"the rule {match.rule} decides, which is not of the {source}")
        return Decision(True, f"the rule {match.rule} matches", authorizer, match.permission)


class RuleBookProvider(Provider):
    """Gives the one list of rules to the authorizers and to whoever explains them."""

    name: ClassVar[str] = "aclRules"
    description: ClassVar[str] = "the permission rules of the file and the database as one list"
    provides: ClassVar[str] = "acl-rules"
    security: ClassVar[bool] = True

    def __init__(
        self,
        config: PluginConfig,
        store: Store,
        registry: PluginRegistry,
    ) -> None:
        self._store = store
        self._registry = registry
        self._resolvers: Resolvers | None = None
        self._book = RuleBook(self._know, self._find_resolvers)

    def get(self) -> RuleBook:
        """The same for everybody."""
        return self._book

    def _know(self) -> Knowledge:
        return Knowledge(self._find_resolvers().variables, self._store.policy)

    def _find_resolvers(self) -> Resolvers:
        """Made at first use: the registry of plugins is filled after construction."""
        if self._resolvers is None:
            plugins = self._registry.of_kind(Kind.VARIABLE_RESOLVER)
            self._resolvers = Resolvers(decode, plugins)
        return self._resolvers
