"""The one list of rules: its order, what it keeps, and what becomes of rules that fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from docgraph.access.language import RequestView
from docgraph.access.parse_rule import read_rule
from docgraph.access.rule import Rule, RuleOrigin
from docgraph.access.rule_warnings import find_passed_filters
from docgraph.access.rulebook import Ignored, RuleBook, RuleSet
from docgraph.access.sections import Acl
from docgraph.codec import decode
from docgraph.config.section import PluginConfig
from docgraph.exchange import Account, Exchange, Headers
from docgraph.exchange.errors import StoreUnavailable
from docgraph.observe.events import PluginFailed
from docgraph.plugins.kinds import Decision, VariableResolver
from docgraph.runtime import LruDict
from docgraph.variables import Resolvers
from tests.http.harness import listening
from tests.unit.access.harness import KNOWLEDGE, RESOLVERS, make_exchange

pytestmark = pytest.mark.anyio

EDITOR = Account("ed", ("editor",))


def rule(
    id: str, *roles: str, when: str = "true", source: RuleOrigin = RuleOrigin.DATABASE, **more: Any
) -> Rule:
    document = {"_id": id, "roles": list(roles), "predicate": when, **more}
    read = read_rule(document, source, KNOWLEDGE)
    assert isinstance(read, Rule), read
    return read


class Rules:
    """A source whose rules are known, or have to be loaded first."""

    def __init__(
        self, *rules: Rule, is_known: bool = True, ignored: tuple[Ignored, ...] = ()
    ) -> None:
        self.set = RuleSet(rules, ignored)
        self.is_known = is_known
        self.loads = 0

    def find(self) -> RuleSet | None:
        return self.set if self.is_known else None

    async def load(self) -> RuleSet:
        self.loads += 1
        return self.set


def make_book(*sources: Rules, resolvers: Resolvers = RESOLVERS) -> RuleBook:
    book = RuleBook(lambda: KNOWLEDGE, lambda: resolvers)
    for source in sources:
        book.add(source)
    return book


async def matched(book: RuleBook, exchange: Exchange) -> str | None:
    match = await book.match(exchange)
    return None if match is None else match.rule.label


# --- order ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("account", "expected"),
    [
        (EDITOR, "held (database)"),
        (Account("ann", ("reader",)), "known (database)"),
        (None, "everybody (database)"),
    ],
)
async def test_held_roles_come_before_known_callers_and_those_before_everybody(
    account: Account | None, expected: str
) -> None:
    """Decision 38: whatever their numbers and sources are."""
    book = make_book(
        Rules(
            rule("everybody", "$unauthenticated", priority=3),
            rule("known", "$authenticated", priority=2),
        ),
        Rules(rule("held", "editor", priority=1)),
    )

    assert await matched(book, make_exchange(account=account)) == expected


async def test_of_rules_for_the_same_callers_the_highest_number_comes_first() -> None:
    """Decision 38: then the database before the file, then the highest id."""
    rules = [
        rule("b", "editor"),
        rule("a", "editor"),
        rule("c", "editor", source=RuleOrigin.FILE),
        rule("low", "editor", priority=1),
        rule("high", "editor", priority=2),
    ]
    index = await make_book(Rules(*rules[:3]), Rules(*rules[3:])).find_rules(("editor",))

    assert [one.id for one in index.rules] == ["high", "low", "b", "a", "c"]


async def test_a_rule_that_several_roles_share_is_in_the_list_once() -> None:
    shared = rule("shared", "editor", "reader")
    index = await make_book(Rules(shared)).find_rules(("editor", "reader"))

    assert index.rules == (shared,)


async def test_rules_of_other_roles_are_not_looked_at() -> None:
    book = make_book(Rules(rule("other", "admin"), rule("elsewhere", "editor", when="path('/b')")))

    assert await matched(book, make_exchange(path="/a", account=EDITOR)) is None


async def test_a_rule_sees_nothing_that_another_has_bound() -> None:
    """Its own alternative binds nothing here, so that its condition is not met."""
    binding = "path-template('/{x}') and equals(${x}, 'other')"
    using = "(method('GET') or path-template('/{x}')) and equals(${x}, 'books')"
    book = make_book(Rules(rule("2", "editor", when=binding), rule("1", "editor", when=using)))

    assert await matched(book, make_exchange(path="/books", account=EDITOR)) is None


async def test_rules_without_the_flag_of_a_request_are_passed_over() -> None:
    rules = [
        rule("3", "editor"),
        rule("2", "editor", mongo={"allowBulkDelete": True}),
        rule("1", "editor", mongo={"allowBulkDelete": True}),
    ]
    exchange = make_exchange("DELETE", "/books/*", account=EDITOR)

    assert await matched(make_book(Rules(*rules)), exchange) == "2 (database)"
    assert await matched(make_book(Rules(rules[0])), exchange) is None


# --- sources ----------------------------------------------------------------------------------


async def test_a_source_that_is_not_known_yet_is_loaded_and_the_others_count_too() -> None:
    known, unknown = Rules(rule("a", "editor")), Rules(rule("b", "editor"), is_known=False)
    book = make_book(known, unknown)

    assert await matched(book, make_exchange(account=EDITOR)) == "b (database)"
    assert unknown.loads == 1

    unknown.is_known = True
    assert await matched(book, make_exchange(account=EDITOR)) == "b (database)"
    assert unknown.loads == 1


async def test_a_new_set_of_a_source_is_in_force_at_the_next_request() -> None:
    source = Rules(rule("first", "editor"))
    book = make_book(source)
    assert await matched(book, make_exchange(account=EDITOR)) == "first (database)"

    source.set = RuleSet()
    assert await matched(book, make_exchange(account=EDITOR)) is None

    source.set = RuleSet([rule("second", "editor")])
    assert await matched(book, make_exchange(account=EDITOR)) == "second (database)"


async def test_the_list_of_the_same_roles_is_made_once_and_the_oldest_is_dropped() -> None:
    book = make_book(Rules(rule("a", "editor")))
    book.lists = LruDict(2)
    first = await book.find_rules(("one",))
    await book.find_rules(("two",))
    assert await book.find_rules(("one",)) is first

    await book.find_rules(("three",))  # "two" was not used for the longest time

    assert await book.find_rules(("one",)) is first
    assert book.lists.peek(("two",)) is None


async def test_all_rules_and_those_that_cannot_be_read_are_listed() -> None:
    flaws = read_rule({"_id": "bad", "roles": ["editor"]}, RuleOrigin.DATABASE, KNOWLEDGE)
    assert isinstance(flaws, list)
    bad = Ignored({"_id": "bad"}, flaws)
    book = make_book(Rules(rule("a", "editor"), ignored=(bad,)), Rules(rule("b", "admin")))

    assert [one.id for one in await book.find_all()] == ["a", "b"]
    assert await book.find_ignored() == [bad]
    assert str(bad).startswith("the rule bad (database) matches nothing: Wrong permission")


# --- what decides -----------------------------------------------------------------------------


async def test_only_the_authorizer_of_the_matching_rule_admits() -> None:
    book = make_book(Rules(rule("a", "editor", source=RuleOrigin.FILE)))

    other = await book.decide(make_exchange(account=EDITOR), RuleOrigin.DATABASE, "theirs")
    own = await book.decide(make_exchange(account=EDITOR), RuleOrigin.FILE, "ours")

    assert (other.allowed, other.permission) == (False, None)
    assert (own.allowed, own.authorizer) == (True, "ours")
    assert own.permission is not None


async def test_without_a_matching_rule_nothing_is_admitted() -> None:
    decision = await make_book().decide(make_exchange(), RuleOrigin.DATABASE, "ours")

    assert not decision.allowed


async def test_a_matching_rule_whose_filter_has_no_value_does_not_fall_through() -> None:
    """The next rule may be wider than this one."""
    narrow = rule("b", "editor", mongo={"readFilter": {"team": "@user.team"}})
    book = make_book(Rules(narrow, rule("a", "editor")))

    decision = await book.decide(make_exchange(account=EDITOR), RuleOrigin.DATABASE, "ours")

    assert (decision.allowed, decision.permission) == (False, None)
    assert "b (database)" in decision.reason


@pytest.mark.parametrize(
    ("mongo", "is_reported"),
    [
        ({"readFilter": {"a": 1}}, True),
        ({"readFilters": {"db.books": {"a": 1}}}, True),
        ({"writeFilter": {"a": 1}}, True),
        ({"projectResponse": {"a": 0}}, True),
        ({"allowWriteMode": True}, False),
        (None, False),
    ],
)
def test_a_rule_for_everybody_that_narrows_is_reported_beside_one_that_comes_first(
    mongo: Any, is_reported: bool
) -> None:
    """The rule of a role is evaluated first, without these conditions."""
    general = rule("g", "$authenticated", mongo=mongo)

    for rules in ([general, rule("e", "editor")], [rule("e", "editor"), general]):
        found = list(find_passed_filters(rules))
        assert [one.rule for one in found] == (["g (database)"] if is_reported else [])
    assert not list(find_passed_filters([general]))


class Broken(VariableResolver):
    """A variable whose resolver raises what it is told to."""

    name: ClassVar[str] = "broken"
    variable: ClassVar[str] = "broken"
    error: Exception = ValueError("secret detail")

    async def resolve_variable(self, exchange: Exchange, expression: str) -> Any:
        raise self.error


async def test_a_predicate_that_raises_matches_nothing_and_is_reported() -> None:
    resolvers = Resolvers(decode, [Broken(PluginConfig())])
    broken = read_rule(
        {"_id": "b", "roles": ["editor"], "predicate": "equals(@broken.x, 1)"},
        RuleOrigin.DATABASE,
        type(KNOWLEDGE)(resolvers.variables),
    )
    assert isinstance(broken, Rule)
    book = make_book(Rules(broken, rule("a", "editor")), resolvers=resolvers)

    with listening(PluginFailed) as heard:
        assert await matched(book, make_exchange(account=EDITOR)) == "a (database)"

    assert len(heard) == 1


async def test_a_predicate_with_a_fault_of_ours_matches_nothing_and_is_reported() -> None:
    def fail(view: RequestView) -> bool:
        raise RuntimeError("secret detail")

    plain = rule("b", "editor")
    faulty = replace(plain, predicate=replace(plain.predicate, test=fail))
    book = make_book(Rules(faulty, rule("a", "editor")))

    with listening(PluginFailed) as heard:
        assert await matched(book, make_exchange(account=EDITOR)) == "a (database)"

    (failed,) = heard
    assert (failed.plugin, "b (database)" in failed.stage) == ("aclRules", True)


async def test_a_database_that_is_away_while_a_predicate_is_judged_fails_the_request() -> None:
    """Not matching would let a more general rule decide."""
    resolver = Broken(PluginConfig())
    resolver.error = StoreUnavailable("away")
    resolvers = Resolvers(decode, [resolver])
    broken = read_rule(
        {"_id": "b", "roles": ["editor"], "predicate": "equals(@broken.x, 1)"},
        RuleOrigin.DATABASE,
        type(KNOWLEDGE)(resolvers.variables),
    )
    assert isinstance(broken, Rule)
    book = make_book(Rules(broken, rule("a", "editor")), resolvers=resolvers)

    with pytest.raises(StoreUnavailable):
        await book.match(make_exchange(account=EDITOR))


# --- acl.order: file-first ----------------------------------------------------------------------


def make_file_first(first_role_wins: bool) -> RuleBook:
    acl = Acl(order="file-first", first_role_wins=first_role_wins)
    book = RuleBook(lambda: KNOWLEDGE, lambda: RESOLVERS, acl)
    file = RuleOrigin.FILE
    book.add(Rules(rule("stored", "editor", "reader", priority=9)))
    book.add(
        Rules(
            rule("public", "$unauthenticated", source=file, priority=5),
            rule("written", "editor", source=file, priority=1),
        )
    )
    return book


@pytest.mark.parametrize("first_role_wins", [False, True])
@pytest.mark.parametrize(
    ("account", "expected"),
    [
        (EDITOR, "written (file)"),
        (Account("both", ("reader", "editor")), "written (file)"),  # for all roles
        (Account("ann", ("reader",)), "stored (database)"),  # the public rule is no rule for a role
        (None, "public (file)"),
    ],
)
async def test_rules_of_the_file_come_first_within_those_for_roles(
    account: Account | None, expected: str, first_role_wins: bool
) -> None:
    """Decision 61: a public rule of the file never replaces a rule for a role."""
    book = make_file_first(first_role_wins)
    assert await matched(book, make_exchange(account=account)) == expected


async def test_what_two_authorizers_ask_is_found_once_and_never_outlives_its_cause() -> None:
    source = Rules(rule("1", "editor", mongo={"readFilter": {"a": 1}}))
    book = make_book(source, Rules(rule("2", "reader", when="equals(%{i,x-room}, 'b')")))
    exchange = make_exchange(account=EDITOR)

    async def decide() -> Decision:
        return await book.decide(exchange, RuleOrigin.DATABASE, "dbAclAuthorizer")

    first = await decide()
    assert (await decide()).permission is first.permission
    source.set = RuleSet([rule("1", "editor", mongo={"readFilter": {"a": 2}})])
    changed = (await decide()).permission
    assert changed is not None
    assert changed.read_filter == {"a": 2}

    exchange.account = Account("ann", ("reader",))
    assert not (await decide()).allowed
    exchange.request.headers = Headers.of(x_room="b")
    assert (await decide()).allowed
    assert not hasattr(replace(exchange, account=EDITOR), "rule_match")
