"""The index of rules chooses as a walk over all of them does, whatever rules and request are."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st

from docgraph.access.language import compile_predicate
from docgraph.access.language.function import Reach
from docgraph.access.parse_rule import Knowledge, read_rule
from docgraph.access.rule import Rule, RuleOrigin, find_flag, roles_of
from docgraph.access.rulebook import RuleBook, RuleSet
from docgraph.codec import decode
from docgraph.config.section import PluginConfig
from docgraph.exchange import Exchange
from docgraph.exchange.errors import DocgraphError, StoreUnavailable
from docgraph.plugins.kinds import VariableResolver
from docgraph.variables import Resolvers
from tests.chance import examples
from tests.unit.access.harness import ADA, make_exchange


class Unreachable(VariableResolver):
    """A variable whose source is down: who asks for it fails the request."""

    name: ClassVar[str] = "unreachable"
    variable: ClassVar[str] = "unreachable"

    async def resolve_variable(self, exchange: Exchange, expression: str) -> Any:
        raise StoreUnavailable("the source is down")


RESOLVERS = Resolvers(decode, [Unreachable(PluginConfig())])
KNOWLEDGE = Knowledge(RESOLVERS.variables)
NAMES = ("a", "b", "{id}")
METHODS = ("GET", "HEAD", "POST", "DELETE", "BREW")

SEGMENT = st.sampled_from(("a", "b", "c"))
PATH = st.lists(SEGMENT, max_size=3).map(lambda parts: "/" + "/".join(parts))
TEMPLATE = st.lists(st.sampled_from(NAMES), max_size=3).map(lambda parts: "/" + "/".join(parts))
PATHS = st.lists(PATH, min_size=1, max_size=3).map(lambda all: ", ".join(f"'{p}'" for p in all))
PLACES = st.one_of(
    PATHS.map(lambda paths: f"path({paths})"),
    PATHS.map(lambda paths: f"path-prefix({paths})"),
    SEGMENT.map(lambda name: f"path-suffix('{name}')"),
    TEMPLATE.map(lambda path: f"path-template('{path}')"),
    TEMPLATE.map(lambda path: f"path-template('{path}/*')"),
    st.lists(st.sampled_from(METHODS), min_size=1, max_size=2).map(
        lambda names: f"method({', '.join(names)})"
    ),
    st.sampled_from(["true", "false"]),
)
QUESTIONS = st.sampled_from(
    [
        "equals(@user._id, 'ada')",
        "equals(@user.gone, 'x')",
        "equals(@unreachable, 1)",
        "path(@user.team)",
        "qparams-size(0)",
    ]
)
WORDS = PLACES | QUESTIONS
PREDICATES = st.recursive(
    WORDS,
    lambda inner: st.one_of(
        inner.map(lambda part: f"not ({part})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda all: f"({' and '.join(all)})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda all: f"({' or '.join(all)})"),
    ),
    max_leaves=6,
)
RULES = st.lists(
    st.fixed_dictionaries(
        {
            "predicate": PREDICATES,
            "roles": st.sampled_from([["user"], ["editor"], ["other"], ["$unauthenticated"]]),
            "priority": st.sampled_from([None, 1, 2]),
            "mongo": st.sampled_from([None, {"allowManagementRequests": True}]),
        }
    ),
    max_size=12,
)


class Fixed:
    """A source of rules that never change."""

    def __init__(self, rules: list[Rule]) -> None:
        self._set = RuleSet(rules)

    def find(self) -> RuleSet:
        return self._set

    async def load(self) -> RuleSet:
        return self._set


def make_book(documents: list[dict[str, Any]]) -> RuleBook:
    book = RuleBook(lambda: KNOWLEDGE, lambda: RESOLVERS)
    read = [
        read_rule({"_id": number, **one}, RuleOrigin.DATABASE, KNOWLEDGE)
        for number, one in enumerate(documents)
    ]
    book.add(Fixed([rule for rule in read if isinstance(rule, Rule)]))
    return book


async def walk(book: RuleBook, exchange: Exchange) -> Rule | None:
    """The first rule of the whole list that matches."""
    view = book.view(exchange)
    flag = find_flag(view)
    for rule in (await book.find_rules(roles_of(exchange.account))).rules:
        if (flag is None or flag in rule.conditions.flags) and await book.is_met(rule, view):
            return rule
    return None


async def choose(book: RuleBook, exchange: Exchange) -> Rule | None:
    match = await book.match(exchange)
    return None if match is None else match.rule


async def outcome(asked: Any) -> Any:
    try:
        return await asked
    except DocgraphError as error:
        return type(error)


@settings(max_examples=examples(300))
@given(RULES, PATH, st.sampled_from(METHODS), st.booleans())
def test_the_index_decides_as_a_walk_over_all_rules(
    documents: list[dict[str, Any]], path: str, method: str, known: bool
) -> None:
    """Decision 38: the order over all rules; also who fails, and when, is the same."""
    book = make_book(documents)
    account = ADA if known else None

    async def compare() -> None:
        walked = await outcome(walk(book, make_exchange(method, path, account=account)))
        chosen = await outcome(choose(book, make_exchange(method, path, account=account)))
        assert chosen is walked

    asyncio.run(compare())


@settings(max_examples=examples(300))
@given(PREDICATES, PATH, st.sampled_from(METHODS))
def test_a_predicate_is_plainly_false_outside_its_reach(text: str, path: str, method: str) -> None:
    predicate = compile_predicate(text, RESOLVERS.variables)
    exchange = make_exchange(method, path)
    if not is_inside(predicate.reach, method, exchange.request.segments):
        view = make_book([]).view(exchange)
        assert predicate.test(view) is False  # and raises nothing: it asked for nothing


def is_inside(reach: Reach, method: str, segments: tuple[str, ...]) -> bool:
    begins = any(segments[: len(prefix)] == prefix for prefix in reach.prefixes)
    return begins and (reach.methods is None or method in reach.methods)
