"""`@visible`: what a caller may not see does not exist, whatever way it is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from graphql import get_introspection_query

from docgraph.server.builtin import BUILTIN
from tests.http.access_harness import TestCaller, caller
from tests.http.harness import Document, Mongo, Service, identity, running
from tests.http.hosts import module_application

pytestmark = [pytest.mark.anyio, pytest.mark.json]

CALLERS: dict[str, Document] = {
    "nobody": {},
    "reader": identity("reader"),
    "editor": identity("editor"),
    "admin": identity("admin", "editor"),
}
SCHEMA = """
type Query {
  posts(first: Int): [Post]
  drafts: [Draft] @visible(roles: ["editor"])
  audit: Audit @visible(roles: ["admin"])
  things: [Thing]
  any: [Any]
  never: Int @visible(roles: [])
}
type Post implements Thing {
  title: String
  notes: String @visible(roles: ["editor", "admin"])
  score(scale: Scale): Int @visible(roles: ["reader", "editor"])
  author: Author
  secretAuthor: Author @visible(roles: ["editor"])
}
type Author { name: String email: String @visible(roles: ["admin"]) }
type Draft { text: String }
type Audit { entries: [Entry] }
type Entry { what: String }
enum Scale { TEN HUNDRED }
interface Thing { title: String }
type Film implements Thing { title: String budget: Int @visible(roles: ["admin"]) }
union Any = Film | Post
"""
# type, field, selection below it, who sees it
HIDDEN: list[tuple[str, str, str, set[str]]] = [
    ("Query", "drafts", "{ text }", {"editor", "admin"}),
    ("Query", "audit", "{ entries { what } }", {"admin"}),
    ("Query", "never", "", set()),
    ("Post", "notes", "", {"editor", "admin"}),
    ("Post", "score", "", {"reader", "editor", "admin"}),
    ("Post", "secretAuthor", "{ name }", {"editor", "admin"}),
    ("Author", "email", "", {"admin"}),
    ("Film", "budget", "", {"admin"}),
]
# types that only hidden fields reach, and who sees them
TYPES: dict[str, set[str]] = {
    "Draft": {"editor", "admin"},
    "Audit": {"admin"},
    "Entry": {"admin"},
    "Scale": {"reader", "editor", "admin"},
}
# from a selection of the parent type to a whole operation
PARENTS = {
    "Query": "{ %s }",
    "Post": "{ posts { %s } }",
    "Author": "{ posts { author { %s } } }",
    "Film": "{ things { ... on Film { %s } } }",
}


@module_application
async def callers(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[dict[str, Service]]:
    async with AsyncExitStack() as stack:
        services = {}
        for name, settings in CALLERS.items():
            opened = running(mongo_client, mongo_uri, settings)
            service = services[name] = await stack.enter_async_context(opened)
            await prepare_app(service)
        yield services


async def prepare_app(service: Service) -> None:
    service.insert(
        "posts",
        {
            "title": "On Graphs",
            "notes": "n",
            "score": 7,
            "author": {"name": "Ada", "email": "a@b"},
            "secretAuthor": {"name": "Bob"},
        },
        {"title": "Metropolis", "budget": 5},
    )
    every = service.find("posts", {})
    resolver = {"$typeResolver": {"Film": "field-exists(budget)", "Post": "true"}}
    service.insert("audits", {"entries": [{"what": "x"}]})
    await service.define(
        "blog",
        SCHEMA,
        {
            "Query": {
                "posts": service.find("posts", {"score": 7}, limit={"$arg": ["first", 10]}),
                "drafts": service.find("drafts", {}),
                "audit": service.find("audits", {}),
                "things": every,
                "any": every,
            },
            "Thing": resolver,
            "Any": resolver,
        },
    )
    await service.define(
        "arguments",
        """
        type Query {
          posts(
            top: Int = 1 @visible(roles: ["editor"]), by: By = {}, sort: Int @visible(roles: [])
          ): [Post]
        }
        type Post { score: Int notes: String @visible(roles: ["editor"]) }
        input By { score: Int notes: String = "n" @visible(roles: ["editor"]) }
        """,
        {
            "Query": {
                "posts": service.find(
                    "posts",
                    {
                        "$and": [
                            {"notes": {"$arg": "by.notes"}},
                            {"$ifarg": ["by.score", {"score": {"$arg": "by.score"}}]},
                        ]
                    },
                    limit={"$arg": "top"},
                ),
            }
        },
    )


def vectors(type_: str, field: str, below: str) -> dict[str, str]:
    """Ways to ask for a field; `%s` of the parent is where selections of the type stand."""
    parent = PARENTS[type_]
    selection = f"{field} {below}"
    abstract = f"{{ ... on {type_} {{ {selection} }} }}"
    ways = {
        "direct": parent % selection,
        "alias": parent % f"a: {selection}",
        "inline fragment": parent % f"... on {type_} {{ {selection} }}",
        "fragment": f"query {parent % '...F'} fragment F on {type_} {{ {selection} }}",
        "skipped": parent % f"__typename {field} @skip(if: true) {below}",
        "variable": "query ($v: Boolean!) "
        + parent % f"__typename {field} @include(if: $v) {below}",
        "second operation": f"query A {{ __typename }} query B {parent % selection}",
        "bad argument": parent % f"{field}(nope: 1) {below}",
        "twice": parent % f"{selection} b: {selection}",
    }
    if type_ in ("Post", "Film"):
        ways |= {"interface": f"{{ things {abstract} }}", "union": f"{{ any {abstract} }}"}
    return ways


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("hidden", HIDDEN, ids=lambda hidden: f"{hidden[0]}.{hidden[1]}")
async def test_a_hidden_field_answers_as_one_that_never_existed(
    callers: dict[str, Service], caller: str, hidden: tuple[str, str, str, set[str]]
) -> None:
    """Decision 20, drill I01."""
    type_, field, below, seen_by = hidden
    never = "n" * len(field)  # of the same length, so that locations agree
    for vector, query in vectors(type_, field, below).items():
        asked: dict[str, Any] = {
            "variables": {"v": True},
            "operation": "B" if "query B" in query else None,
        }
        reply = await callers[caller].query("blog", query, **asked)
        if caller in seen_by:
            assert reply.status == (400 if vector == "bad argument" else 200), reply.text
            assert "Cannot query field" not in reply.text
            continue
        # `nnn: [Unknown]` would fail in the same way: the answers are equal but for the name
        other_query = query.replace(field, never)
        other = await callers[caller].query("blog", other_query, **asked)
        assert reply.status == 400, (vector, reply.text)
        assert reply.text.replace(field, never) == other.text, vector
        assert f"Cannot query field '{field}' on type '{type_}'." in reply.text


@pytest.mark.parametrize("caller", CALLERS)
async def test_introspection_lists_what_is_visible_and_nothing_else(
    callers: dict[str, Service], caller: str
) -> None:
    """Decision 20, drills I01 and I10."""
    reply = await callers[caller].query("blog", get_introspection_query())

    types = {type_["name"]: type_ for type_ in reply.data["__schema"]["types"]}
    for type_, field, _, seen_by in HIDDEN:
        fields = {one["name"] for one in types[type_]["fields"]} if type_ in types else set()
        assert (field in fields) == (caller in seen_by), f"{type_}.{field}"
    for type_, seen_by in TYPES.items():
        assert (type_ in types) == (caller in seen_by), type_


@pytest.mark.parametrize("caller", CALLERS)
async def test_types_that_only_hidden_fields_reach_do_not_exist(
    callers: dict[str, Service], caller: str
) -> None:
    """Decision 20, drill I10."""
    for type_, seen_by in TYPES.items():
        query = (
            "query ($n: String!) { __type(name: $n) { fields(includeDeprecated: true) { name } } }"
        )
        reply = await callers[caller].query("blog", query, {"n": type_})
        assert (reply.data["__type"] is not None) == (caller in seen_by)
        if caller not in seen_by:
            fragment = f"{{ ... on {type_} {{ __typename }} }}"
            unknown = await callers[caller].query("blog", fragment.replace(type_, "N" * len(type_)))
            known = await callers[caller].query("blog", fragment)
            assert known.text.replace(type_, "N" * len(type_)) == unknown.text


async def test_what_is_visible_answers(callers: dict[str, Service]) -> None:
    query = (
        "{ posts { title notes score(scale: TEN) author { name email } secretAuthor { name } } }"
    )

    reply = await callers["admin"].query("blog", query)

    assert reply.data == {
        "posts": [
            {
                "title": "On Graphs",
                "notes": "n",
                "score": 7,
                "author": {"name": "Ada", "email": "a@b"},
                "secretAuthor": {"name": "Bob"},
            }
        ]
    }


async def test_near_misses_of_hidden_names_suggest_nothing(callers: dict[str, Service]) -> None:
    """Decisions 20 and 26, drill I02."""
    for query in ("{ draft { text } }", "{ posts { note } }", "{ posts { author { emai } } }"):
        reply = await callers["nobody"].query("blog", query)
        assert "mean" not in reply.text
        for name in ("drafts", "notes", "email"):
            assert name not in reply.text


async def test_an_app_without_a_visible_query_field_answers_ordinary_validation_errors(
    callers: dict[str, Service],
) -> None:
    """Decision 20."""
    for service in callers.values():
        await service.define("closed", 'type Query { a: Int @visible(roles: ["admin"]) }')

    reply = await callers["nobody"].query("closed", "{ a }")
    assert reply.status == 400
    assert reply.error["message"] == "Cannot query field 'a' on type 'Query'."
    assert (await callers["admin"].query("closed", "{ a }")).data == {"a": None}


async def test_plans_of_one_caller_are_never_served_to_another(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Any
) -> None:
    """Drill I03: one process, callers interleaved."""
    (tmp_path / "by_header.py").write_text(
        """
from typing import ClassVar
from docgraph import ABSENT, Accepted, Account, AuthMechanism, Exchange

class ByHeader(AuthMechanism):
    name: ClassVar[str] = "byHeader"

    async def authenticate(self, exchange: Exchange):
        role = exchange.request.headers.get("x-role")
        return Accepted(Account("a", (role,))) if role else ABSENT
"""
    )
    plugins = {"core": {"plugins-directory": str(tmp_path)}}
    async with running(mongo_client, mongo_uri, plugins) as service:
        await prepare_app(service)
        for _ in range(3):
            for role, expected in (("", 400), ("editor", 200), ("reader", 400), ("admin", 200)):
                reply = await service.query(
                    "blog", "{ posts { notes } }", headers={"x-role": role} if role else None
                )
                assert reply.status == expected, role


# --- who may introspect ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "allowed"),
    [
        ("all", {"nobody", "reader", "editor", "admin"}),
        ("authenticated", {"reader", "editor", "admin"}),
        ("off", set()),
        (["editor"], {"editor", "admin"}),
    ],
)
async def test_introspection_is_for_those_who_may(
    mongo_client: Mongo, mongo_uri: str, setting: Any, allowed: set[str]
) -> None:
    """`graphql.introspection`."""
    people = {
        "nobody": {},
        "reader": caller("ada", "reader"),
        "editor": caller("ada", "editor"),
        "admin": caller("ada", "admin", "editor"),
    }
    option = {"graphql": {"introspection": setting}}
    async with running(mongo_client, mongo_uri, option, plugins=(*BUILTIN, TestCaller)) as service:
        await service.define("a", "type Query { a: Int }")
        for name, headers in people.items():
            for query in ("{ __schema { types { name } } }", '{ __type(name: "Query") { name } }'):
                reply = await service.query("a", query, headers=headers)
                assert reply.status == (200 if name in allowed else 400), (name, reply.text)
            assert (await service.query("a", "{ __typename a }", headers=headers)).status == 200


async def test_a_hidden_argument_counts_as_not_given(callers: dict[str, Service]) -> None:
    """Decision 59: its default applies, in literals and in variables."""
    harmless: list[tuple[str, Document | None]] = [
        ("{ posts { score } }", None),
        ("{ posts(by: {}) { score } }", None),
        ("{ posts(by: {score: 7}) { score } }", None),
        ("query ($s: Int) { posts(by: {score: $s}) { score } }", {"s": 7}),
        ("query ($b: By) { posts(by: $b) { score } }", {"b": {"score": 7}}),
    ]
    hidden: list[tuple[str, Document | None]] = [
        ('{ posts(by: {notes: "other"}) { score } }', None),
        ("{ posts(top: 0) { score } }", None),
        ("query ($b: By) { posts(by: $b) { score } }", {"b": {"notes": "other"}}),
    ]
    for name, service in callers.items():
        is_editor = name in ("editor", "admin")
        for query, variables in harmless:
            reply = await service.query("arguments", query, variables)
            assert reply.data["posts"] == [{"score": 7}], (name, query, reply.json)
        for query, variables in hidden:
            reply = await service.query("arguments", query, variables)
            assert (reply.status == 200) is is_editor, (name, query, reply.json)
        reply = await service.query("arguments", "{ posts(sort: 1) { score } }")
        assert reply.messages == ["Unknown argument 'sort' on field 'Query.posts'."]
