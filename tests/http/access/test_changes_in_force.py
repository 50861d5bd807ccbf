"""Nothing that is computed before a request outlives its cause, while requests run.

What a request depends on changes at random: a rule, its row filter, the user's roles and
properties, the definition of the app and who sees its fields. A request that begins after a change
was acknowledged is answered by the new state, and one that runs meanwhile by a state that held
while it ran.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from docgraph.exchange import Write, WriteKind
from tests.http.access_harness import guarded, remove_rules, restore, write_rules
from tests.http.harness import Document, Service
from tests.http.hosts import module_application
from tests.http.realms import COST, render_basic

pytestmark = pytest.mark.anyio

BOOKS: tuple[Document, ...] = tuple(
    {"_id": number, "team": team, "price": number * 2, "author": {"_id": number, "name": "x"}}
    for number, team in enumerate(["blue", "red", "blue", "red", "grey", "blue"])
)
PASSWORD = "a password of the test"
HEADERS = {"authorization": render_basic("ada", PASSWORD)}
QUERY = "{ books { _id price author { name } } }"


@dataclass(frozen=True)
class State:
    """What the answers depend on."""

    is_admitted: bool = True
    role: str = "reader"
    team: str = "blue"
    row_filter: str = "team"  # the user's team, blue books, or all
    shows_price: bool = True
    cheapest: int = 0

    def answer_graphql(self) -> tuple[int, Any]:
        if not self.admits:
            return 403, None
        if not (self.shows_price or self.role == "editor"):
            return 400, None  # a field that does not exist for this caller
        rows = [book for book in self.rows if book["price"] >= self.cheapest]
        return 200, [(book["_id"], book["price"], "x") for book in rows]

    def answer_rest(self) -> tuple[int, Any]:
        return (200, [book["_id"] for book in self.rows]) if self.admits else (403, None)

    @property
    def admits(self) -> bool:
        return self.is_admitted and self.role != "guest"

    @property
    def rows(self) -> list[Document]:
        team = {"team": self.team, "blue": "blue", "all": None}[self.row_filter]
        return [book for book in BOOKS if team in (None, book["team"])]


CHOICES: dict[str, tuple[Any, ...]] = {
    "is_admitted": (True, True, False),
    "role": ("reader", "editor", "guest"),
    "team": ("blue", "red", "grey"),
    "row_filter": ("team", "blue", "all"),
    "shows_price": (True, False),
    "cheapest": (0, 3, 9),
}


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    by_password = {
        "basicAuthMechanism": {"enabled": True},
        "dbRealmAuthenticator": {"bcrypt-complexity": COST},
    }
    async with guarded(mongo_client, mongo_uri, by_password) as service:
        restore(service, "books", *BOOKS)
        restore(service, "authors", *(book["author"] for book in BOOKS))
        user = {"_id": "ada", "password": PASSWORD, "roles": []}
        await service.write("users", Write(WriteKind.INSERT, (user,)))
        yield service


async def establish(service: Service, state: State, changed: str | None) -> None:
    """Write what makes this state, as the API does; None: all of it."""
    if changed in (None, "is_admitted", "row_filter"):
        await write_rule(service, state)
    if changed in (None, "role", "team"):
        await write_user(service, state)
    if changed in (None, "shows_price", "cheapest"):
        await define(service, state)


async def write_rule(service: Service, state: State) -> None:
    filters = {"team": {"team": "@user.team"}, "blue": {"team": "blue"}, "all": {}}
    if not state.is_admitted:
        await remove_rules(service, _id="r")
        return
    chosen = filters[state.row_filter]
    collection = f"{service.db}.books"
    mongo = {"readFilter": chosen, "readFilters": {collection: chosen}} if chosen else {}
    predicate = "path-prefix('/graphql') or path-prefix('/books')"
    rule = {"_id": "r", "predicate": predicate, "roles": ["reader", "editor"], "mongo": mongo}
    await write_rules(service, rule)


async def write_user(service: Service, state: State) -> None:
    update = {"$set": {"roles": [state.role], "team": state.team}}
    await service.write("users", Write(WriteKind.UPDATE, update=update, filter={"_id": "ada"}))


async def define(service: Service, state: State) -> None:
    visible = "" if state.shows_price else ' @visible(roles: ["editor"])'
    schema = f"""
        type Query {{ books: [Book!]! }}
        type Book {{ _id: Int! price: Int{visible} author: Author }}
        type Author {{ name: String }}
    """
    condition = {"price": {"$gte": state.cheapest}}
    relation = service.find("authors", {"_id": {"$fk": "_id"}})
    mappings = {
        "Query": {"books": service.find("books", condition, sort={"_id": 1})},
        "Book": {"author": relation},
    }
    await service.define("library", schema, mappings)


async def ask_graphql(service: Service) -> tuple[int, Any]:
    body = {"query": QUERY}
    reply = await service.request("POST", "/graphql/library", headers=HEADERS, json=body)
    if reply.status != 200:
        return reply.status, None
    books = reply.json["data"]["books"]
    return 200, [(book["_id"], book["price"], book["author"]["name"]) for book in books]


async def ask_rest(service: Service) -> tuple[int, Any]:
    reply = await service.request("GET", "/books?sort={_id:1}", headers=HEADERS)
    return reply.status, [book["_id"] for book in reply.json] if reply.status == 200 else None


ASKED: tuple[tuple[Any, Callable[[State], tuple[int, Any]]], ...] = (
    (ask_graphql, State.answer_graphql),
    (ask_rest, State.answer_rest),
)


@dataclass
class History:
    """The states so far, and since which one all changes are acknowledged."""

    states: list[State]
    acknowledged: int = 0
    is_over: bool = False


async def keep_asking(service: Service, history: History) -> int:
    """Ask until the history is over; every answer is that of a state that held meanwhile."""
    count = 0
    while not history.is_over:
        for ask, expect in ASKED:
            first = history.acknowledged
            answer = await ask(service)
            possible = [expect(state) for state in history.states[first:]]
            assert answer in possible, history.states[first:]
        count += 1
    return count


@pytest.mark.parametrize("seed", range(3))
async def test_an_answer_is_that_of_a_state_that_held_while_it_was_made(
    server: Service, seed: int
) -> None:
    choose = random.Random(seed)
    history = History([State()])
    await establish(server, history.states[0], None)
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(keep_asking(server, history)) for _ in range(3)]
        for _ in range(8):
            changed = choose.choice(tuple(CHOICES))
            state = replace(history.states[-1], **{changed: choose.choice(CHOICES[changed])})
            history.states.append(state)
            await establish(server, state, changed)
            history.acknowledged = len(history.states) - 1
            for ask, expect in ASKED:
                assert await ask(server) == expect(state), (changed, state)
        history.is_over = True
    assert min(task.result() for task in asking) > 1
