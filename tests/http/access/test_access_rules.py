"""Permission rules through the whole application: who is let in, who is not, and with what rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from docgraph.access.rule_authorizers import DbAclAuthorizer
from docgraph.access.rulebook import RuleBook
from docgraph.access.sections import DbAclAuthorizer as DbAclAuthorizerConfig
from docgraph.codec import decode
from docgraph.observe.events import FilterPassed, PluginFailed, RulesTied
from docgraph.variables import Resolvers
from tests.databases import new_name
from tests.http.access.books import BOOKS, renew, status
from tests.http.access_harness import (
    ADA,
    ADMIN,
    BOB,
    NOBODY,
    allow,
    caller,
    guarded,
    remove_rules,
    write_rules,
)
from tests.http.harness import Document, Service, listening, names_of
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = "type Query { books: [Book!]! } type Book { title: String! team: String }"


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        await one.define("library", SCHEMA, {"Query": {"books": one.find("books", {})}})
        yield one


@pytest.fixture
def service(server: Service) -> Service:
    return renew(server)


async def rows(service: Service, path: str, who: dict[str, str]) -> list[Any]:
    reply = await service.request("GET", path, headers=who)
    assert reply.status == 200, reply.text
    return sorted(names_of(reply.json, "_id"))


async def titles(service: Service, who: dict[str, str]) -> list[str]:
    reply = await service.query("library", "{ books { title } }", headers=who)
    return sorted(names_of(reply.data["books"], "title"))


# --- first steps ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/books", "/books/1", "/acl", "/graphql/library", "/nothing"])
async def test_a_fresh_server_lets_nobody_in_but_the_root_role(service: Service, path: str) -> None:
    method = "POST" if path.startswith("/graphql") else "GET"
    body = {"json": {"query": "{ books { title } }"}} if method == "POST" else {}
    assert await status(service, method, path, NOBODY, **body) == 401
    assert await status(service, method, path, ADA, **body) == 403
    assert await status(service, method, path, ADMIN, **body) in (200, 404)


async def test_without_a_root_role_not_even_it_passes(mongo_client: Any, mongo_uri: str) -> None:
    none = {"dbAclAuthorizer": {"root-role": None}}
    async with guarded(mongo_client, mongo_uri, none) as service:
        assert await status(service, "GET", "/books", ADMIN) == 403


async def test_options_and_services_that_are_not_secured_need_no_rule(service: Service) -> None:
    """Decision 38."""
    assert await status(service, "OPTIONS", "/books", NOBODY) == 200
    assert await status(service, "GET", "/ping", NOBODY) == 200


# --- roles ----------------------------------------------------------------------------------------


async def test_unauthenticated_rules_apply_to_everybody(service: Service) -> None:
    """Decision 38: a known caller is not worse off than an unknown one."""
    await allow(service, "path-prefix('/books') and method(GET)", "$unauthenticated")
    for who in (NOBODY, ADA, caller("zoe")):
        assert await status(service, "GET", "/books", who) == 200
    assert await status(service, "DELETE", "/books/1", NOBODY) == 401
    assert await status(service, "DELETE", "/books/1", ADA) == 403


async def test_authenticated_is_held_by_every_known_caller(service: Service) -> None:
    await allow(service, "path-prefix('/books')", "$authenticated")
    assert await status(service, "GET", "/books", caller("zoe")) == 200
    assert await status(service, "GET", "/books", NOBODY) == 401


async def test_the_roles_with_a_dollar_exist_only_in_rules(service: Service) -> None:
    """Decision 38: not in `@roles`."""
    await allow(service, "in(value='$authenticated', array=@roles)", "$authenticated")
    assert await status(service, "GET", "/books", ADA) == 403


async def test_a_rule_of_another_role_admits_nobody(service: Service) -> None:
    await allow(service, "path-prefix('/books')", "editor")
    assert await status(service, "GET", "/books", ADA) == 403
    assert await status(service, "GET", "/books", caller("eve", "user", "editor")) == 200


ROWS = {"user": "1", "$authenticated": "2", "$unauthenticated": "3"}

# --- order ----------------------------------------------------------------------------------------


async def test_the_higher_number_decides_over_all_roles_of_the_caller(service: Service) -> None:
    """Decision 38: not the order of the roles in the account."""
    low, high = {"readFilter": {"team": "red"}}, {"readFilter": {"team": "blue"}}
    await allow(service, "path-prefix('/books')", "first", priority=1, mongo=low)
    await allow(service, "path-prefix('/books')", "second", priority=2, mongo=high)
    for roles in (("first", "second"), ("second", "first")):
        assert await rows(service, "/books", caller("x", *roles)) == ["1"]


async def test_a_public_rule_never_narrows_a_privileged_caller(service: Service) -> None:
    """Decision 38: held roles first, then known callers, then everybody, whatever the numbers."""
    filters = {role: {"readFilter": {"_id": row}} for role, row in ROWS.items()}
    for role, priority in (("$unauthenticated", 100), ("$authenticated", 50), ("user", None)):
        rule = {"priority": priority, "mongo": filters[role]}
        await allow(service, "path-prefix('/books')", role, **rule)
    assert await rows(service, "/books", ADA) == ["1"]
    assert await rows(service, "/books", caller("zoe", "guest")) == ["2"]
    assert await rows(service, "/books", NOBODY) == ["3"]


async def test_a_rule_for_a_role_and_for_everybody_comes_as_the_more_special_one(
    service: Service,
) -> None:
    """Decision 38."""
    both = {"readFilter": {"_id": "1"}}
    await allow(service, "path-prefix('/books')", "user", "$unauthenticated", mongo=both)
    known = {"priority": 9, "mongo": {"readFilter": {"_id": "2"}}}
    await allow(service, "path-prefix('/books')", "$authenticated", **known)
    assert await rows(service, "/books", ADA) == ["1"]
    assert await rows(service, "/books", caller("zoe")) == ["2"]


async def test_a_general_rule_counts_when_the_flag_of_the_special_one_fails(
    service: Service,
) -> None:
    """Decision 38: a rule whose flag fails does not match."""
    await allow(service, "path-prefix('/books')", "user")
    assert await status(service, "PATCH", "/books/1?wm=upsert", ADA, json={"a": 1}) == 403
    await allow(service, "path-prefix('/books')", "$authenticated", mongo={"allowWriteMode": True})
    assert await status(service, "PATCH", "/books/1?wm=upsert", ADA, json={"a": 1}) == 200


async def test_the_start_names_general_rules_whose_filters_are_passed(
    mongo_client: Any, mongo_uri: str
) -> None:
    """Decision 38."""
    hide = {"projectResponse": '{"email": 0}'}
    rules: list[dict[str, Any]] = [
        {"role": "user", "predicate": "path-prefix('/books')"},
        {"role": "$unauthenticated", "predicate": "path('/books')", "mongo": hide},
        {"role": "$unauthenticated", "predicate": "path('/open')", "mongo": hide},
        {"role": "$authenticated", "predicate": "path('/books')"},
    ]
    with listening(FilterPassed) as heard:
        async with guarded(mongo_client, mongo_uri, file_rules=rules):
            pass
    assert [(one.rule, one.passed_by) for one in heard] == [
        ("permissions[1] (file)", ("permissions[0] (file)",))
    ]


# --- one reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/books?filter={",
        "/books?sort=[x&filter=1",
        "/books?page=0",
        "/books/1?id_type=nonsense",
        "/books/x?id_type=OID",
        "/books?filter=%7B%7D&keys=[",
    ],
)
async def test_what_cannot_be_read_is_told_only_to_those_who_may_ask(
    service: Service, path: str
) -> None:
    """Decisions 21 and 39: unknown callers 401, those who may not 403, others 400."""
    assert await status(service, "GET", path, NOBODY) == 401
    assert await status(service, "GET", path, ADA) == 403
    await allow(service, "path-prefix('/books')", "user")
    assert await status(service, "GET", path, ADA) == 400
    assert await status(service, "GET", path, NOBODY) == 401


@pytest.mark.parametrize("path", ["/books/_SIZE", "/books/_Aggrs/x", "/books/_INDEXES"])
async def test_another_spelling_of_a_reserved_name_passes_no_rule_about_it(
    service: Service, path: str
) -> None:
    """Decision 39."""
    await allow(
        service,
        "path-prefix('/books') and not path('/books/_size') and not path-prefix('/books/_aggrs')"
        " and not path-prefix('/books/_indexes')",
        "user",
        mongo={"allowManagementRequests": True},
    )
    assert await status(service, "GET", "/books", ADA) == 200
    assert await status(service, "GET", path, ADA) in (403, 404)
    assert await status(service, "GET", path, ADMIN) in (403, 404)


async def test_the_id_of_a_rule_is_the_one_that_is_looked_for(service: Service) -> None:
    """Decision 39: by `id_type` nobody reaches another document than the rule has seen."""
    service.insert("books", {"_id": None, "team": "none"})
    await allow(service, "path-template('/books/{id}') and equals(@user._id, ${id})", "user")
    service.insert("books", {"_id": "ada", "team": "own"})
    assert await status(service, "GET", "/books/ada", ADA) == 200
    for id_type in ("NULL", "null", "MINKEY", "MAXKEY", "BOOLEAN", "NUMBER"):
        assert await status(service, "GET", f"/books/ada?id_type={id_type}", ADA) == 403


async def test_a_rule_without_a_number_comes_last(service: Service) -> None:
    await allow(service, "path-prefix('/books')", "user", mongo={"readFilter": {"_id": "3"}})
    await allow(
        service, "path-prefix('/books')", "user", priority=-5, mongo={"readFilter": {"_id": "1"}}
    )
    assert await rows(service, "/books", ADA) == ["1"]


async def test_of_equal_rules_the_last_one_decides(service: Service) -> None:
    """Decision 38: the highest `_id`."""
    for id, row in (("b", "2"), ("a", "1"), ("c", "3")):
        await allow(
            service, "path-prefix('/books')", "user", _id=id, mongo={"readFilter": {"_id": row}}
        )
    assert await rows(service, "/books", ADA) == ["3"]


async def test_where_there_are_too_many_rules_the_last_ones_stay(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 38: what is left out is what would be looked at last."""
    monkeypatch.setattr("docgraph.access.rule_authorizers._MAX_RULES", 2)
    for id in ("c", "a", "b"):
        await allow(service, f"path('/{id}')", "user", _id=id)
    book: RuleBook = service.app.plugins.values["acl-rules"]
    found = await service.there(book.find_all())
    assert [str(one) for one in found] == ["c (database)", "b (database)"]


async def test_of_equal_rules_of_a_file_the_last_listed_decides(
    mongo_client: Any, mongo_uri: str
) -> None:
    """Decision 38, whatever `_id` they have."""
    rules = [
        {"_id": id, "role": "user", "predicate": "path('/books')", "mongo": only(row)}
        for id, row in (("z", "1"), ("m", "2"), ("a", "3"))
    ]
    async with guarded(mongo_client, mongo_uri, file_rules=rules) as service:
        service.insert("books", *BOOKS)
        assert await rows(service, "/books", ADA) == ["3"]


def only(row: str) -> Document:
    return {"readFilter": {"_id": row}}


async def test_the_start_names_rules_that_only_their_place_decides_between(
    mongo_client: Any, mongo_uri: str
) -> None:
    """Decision 38."""
    rules: list[dict[str, Any]] = [
        {"role": "user", "predicate": "path('/books')", "mongo": only("1")},
        {"role": "editor", "predicate": "path-prefix('/books') and method(GET)"},
        {"role": "user", "predicate": "path('/books')", "priority": 1, "mongo": only("2")},
        {"role": "user", "predicate": "path('/open')", "mongo": only("3")},
        {"role": "$unauthenticated", "predicate": "path('/books')", "mongo": only("4")},
        {
            "role": "user",
            "predicate": "path('/books')",
            "mongo": {**only("1"), "allowBulkPatch": True},
        },
    ]
    with listening(RulesTied) as heard:
        async with guarded(mongo_client, mongo_uri, file_rules=rules):
            pass
    assert [(one.rule, one.before) for one in heard] == [
        ("permissions[5] (file)", ("permissions[1] (file)",)),
        ("permissions[1] (file)", ("permissions[0] (file)",)),
    ]


async def test_the_first_rule_can_be_posted_after_the_first_start(service: Service) -> None:
    rule = {"_id": "first", "roles": ["user"], "predicate": "path-prefix('/books')"}
    assert "acl" in service.mongo[service.db].list_collection_names()
    reply = await service.request("POST", "/acl", json=rule, headers=ADMIN)
    try:
        assert reply.status == 201, reply.text
        assert await status(service, "GET", "/books", ADA) == 200
    finally:
        await service.request("DELETE", "/acl/first", headers=ADMIN)


async def test_a_rule_with_an_unknown_key_is_reported_with_the_nearest_one(
    service: Service,
) -> None:
    """Whoever writes it at the database meets no check."""
    rule = {"_id": "typo", "roles": ["user"], "predicate": "true", "mongo": {"readfilter": {}}}
    service.insert("acl", rule)
    try:
        with listening(PluginFailed) as heard:
            await allow(service, "path('/books')", "user")  # all are read again
            assert await status(service, "GET", "/open", ADA) == 403
    finally:
        service.mongo[service.db]["acl"].delete_one({"_id": "typo"})
    [told] = [one for one in heard if one.stage == "read the rule typo"]
    assert str(told.error) == (
        "Wrong permission: mongo.readfilter is not a key of a permission "
        "(did you mean mongo.readFilter?)"
    )


async def test_file_and_database_are_one_list(mongo_client: Any, mongo_uri: str) -> None:
    """Decision 38: by number over both; ties go to the database."""
    rules = [
        {
            "role": "user",
            "predicate": "path-prefix('/books')",
            "priority": 5,
            "mongo": {"readFilter": '{"_id": "1"}'},
        }
    ]
    async with guarded(mongo_client, mongo_uri, file_rules=rules) as service:
        service.insert("books", *BOOKS)
        seen = [await rows(service, "/books", ADA)]
        for priority, row in ((4, "2"), (5, "3")):
            await write_rules(
                service,
                {
                    "_id": f"p{priority}",
                    "roles": ["user"],
                    "predicate": "path-prefix('/books')",
                    "priority": priority,
                    "mongo": {"readFilter": {"_id": row}},
                },
            )
            seen.append(await rows(service, "/books", ADA))
    assert seen == [["1"], ["1"], ["3"]]


# --- rows -----------------------------------------------------------------------------------------


async def test_each_caller_gets_the_rows_of_his_own_filter(service: Service) -> None:
    mongo = {"readFilter": {"team": "@user.team"}}
    await allow(service, "path-prefix('/books')", "user", mongo=mongo)
    for _ in range(3):  # caches must not mix callers up
        assert await rows(service, "/books", ADA) == ["1"]
        assert await rows(service, "/books", BOB) == ["2"]


async def test_an_unresolved_variable_in_a_filter_denies(service: Service) -> None:
    """Also where a wider rule would come next."""
    mongo = {"readFilter": {"team": "@user.team"}}
    await allow(service, "path-prefix('/books')", "user", priority=2, mongo=mongo)
    await allow(service, "path-prefix('/books')", "user", priority=1)
    assert await status(service, "GET", "/books", caller("zoe", "user")) == 403
    assert await status(service, "GET", "/books", caller("zoe", "user", team=None)) == 403


async def test_the_filter_of_the_client_cannot_widen_that_of_the_rule(service: Service) -> None:
    await allow(service, "path-prefix('/books')", "user", mongo={"readFilter": {"_id": "1"}})
    for filter in ('{"_id": "2"}', '{"$or": [{}, {"_id": "2"}]}', '{"$nor": [{"_id": "1"}]}'):
        reply = await service.request("GET", "/books", headers=ADA, params={"filter": filter})
        assert [row["_id"] for row in reply.json] in ([], ["1"])
    assert await status(service, "GET", "/books/2", ADA) == 404
    reply = await service.request("GET", "/books/_size", headers=ADA)
    assert reply.json == {"_size": 1}


async def test_escaped_keys_in_filters_are_understood(service: Service) -> None:
    mongo = {"readFilter": {"_$or": [{"team": "blue"}, {"price": {"_$gt": 8}}]}}
    await allow(service, "path-prefix('/books')", "user", mongo=mongo)
    assert await rows(service, "/books", ADA) == ["1", "3"]


async def test_read_filters_hold_in_graphql(service: Service) -> None:
    """Decision 40: the plain one is for REST, the named ones for GraphQL."""
    filters = {f"{service.db}.books": {"team": "@user.team"}}
    await allow(service, "path-prefix('/graphql')", "user", mongo={"readFilters": filters})
    await allow(service, "path-prefix('/graphql')", "plain", mongo={"readFilter": {"team": "blue"}})
    assert await titles(service, ADA) == ["Blue"]
    assert await titles(service, BOB) == ["Red"]
    assert await titles(service, caller("p", "plain")) == ["Blue", "Grey", "Red"]


async def test_db_permissions_give_a_mapping_the_resolved_filter(service: Service) -> None:
    """Decision 19."""
    own = service.find("books", {"$and": [{"$arg": "@dbPermissions.readFilter"}]})
    await service.define("own", SCHEMA, {"Query": {"books": own}})
    mongo = {"readFilter": {"owner": "@user._id"}}
    await allow(service, "path-prefix('/graphql')", "user", mongo=mongo)
    await allow(service, "path-prefix('/graphql')", "plain")
    reply = await service.query("own", "{ books { title } }", headers=ADA)
    assert reply.data == {"books": [{"title": "Blue"}]}
    reply = await service.query("own", "{ books { title } }", headers=caller("p", "plain"))
    assert reply.messages == ["variable not bound: @dbPermissions.readFilter"]


# --- flags ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "flag"),
    [
        ("PUT", "/new", "allowManagementRequests"),
        ("DELETE", "/other", "allowManagementRequests"),
        ("GET", "/books/_indexes", "allowManagementRequests"),
        ("GET", "/books/_meta", "allowManagementRequests"),
        ("GET", "/_schemas", "allowManagementRequests"),
        ("PATCH", "/books/*", "allowBulkPatch"),
        ("DELETE", "/books/*", "allowBulkDelete"),
        ("PUT", "/books/1?wm=upsert", "allowWriteMode"),
        ("POST", "/books?writeMode=upsert", "allowWriteMode"),
    ],
)
async def test_a_rule_without_the_flag_does_not_match(
    service: Service, method: str, path: str, flag: str
) -> None:
    body: Any = {"json": {"_id": "1", "x": 1}} if method in ("PUT", "POST", "PATCH") else {}
    await allow(service, "path-prefix('/')", "user")
    await allow(service, "path-prefix('/')", "flagged", mongo={flag: True})
    assert await status(service, method, path, ADA, **body) == 403
    assert await status(service, method, path, caller("f", "flagged"), **body) != 403


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/books",
        "/books/",
        "/books//",
        "/.//books",
        "/./books",
        "/x/../books",
        "/x/%2e%2e/books",
        "/b%6Foks",
        "/books/%2E",
        "/books?page=1",
    ],
)
async def test_every_spelling_of_a_path_meets_the_same_rule(service: Service, path: str) -> None:
    """Decision 39: what is served is what is matched."""
    await allow(service, "path('/books')", "user")
    assert await status(service, "GET", path, ADA) == 200


@pytest.mark.parametrize(
    "path",
    [
        "/Books",
        "/BOOKS",
        "/books2",
        "/books.json",
        "/books%2F1",
        "/books%252F1",
        "/books;x",
        "/books%3Fa",
        "/other",
        "/books/../other",
        "/books/%2e%2e/other",
        "/books//../other",
        "/books/..%2Fother",
    ],
)
async def test_no_spelling_of_another_path_meets_it(service: Service, path: str) -> None:
    await allow(service, "path-prefix('/books') and not path-suffix('/other')", "user")
    wanted = 403 if path != "/books/..%2Fother" else 404  # a document whose id is `../other`
    assert await status(service, "GET", path, ADA) == wanted


# --- life -----------------------------------------------------------------------------------------


async def test_a_rule_is_in_force_at_once_and_so_is_its_end(service: Service) -> None:
    for _ in range(3):
        await allow(service, "path-prefix('/books')", "user", _id="r")
        assert await status(service, "GET", "/books", ADA) == 200
        await remove_rules(service, _id="r")
        assert await status(service, "GET", "/books", ADA) == 403


async def test_a_rule_deleted_while_requests_run_admits_none_that_begins_later(
    service: Service,
) -> None:
    await allow(service, "path-prefix('/books')", "user", _id="r")
    running = [asyncio.create_task(status(service, "GET", "/books", ADA)) for _ in range(20)]
    await remove_rules(service, _id="r")
    after = [await status(service, "GET", "/books", ADA) for _ in range(5)]
    assert set(await asyncio.gather(*running)) <= {200, 403}
    assert set(after) == {403}


async def test_another_worker_of_the_instance_knows_with_its_next_request(
    service: Service,
) -> None:
    """Decision 44: by the generation, however long rules are kept."""
    values = service.app.plugins.values
    knowledge = values["acl-rules"].knowledge
    book = RuleBook(lambda: knowledge, lambda: Resolvers(decode))
    kept = DbAclAuthorizerConfig(acl_db=service.db, cache_ttl=86_400_000)
    blocking = values["blocking"]
    worker = DbAclAuthorizer(kept, service.app.store, values["generations"], book, blocking)
    seen = []
    for number in range(3):
        seen.append(len((await service.there(worker.load())).rules))
        await allow(service, "path('/books')", "user", _id=f"r{number}")
    assert seen == [0, 1, 2]
    assert await service.there(worker.load()) is await service.there(worker.load())


async def test_callers_who_ask_at_the_same_time_get_their_own_rows(service: Service) -> None:
    """I03, I07."""
    filters = {f"{service.db}.books": {"team": "@user.team"}}
    await allow(service, "path-prefix('/graphql')", "user", mongo={"readFilters": filters})
    await allow(
        service, "path-prefix('/books')", "user", mongo={"readFilter": filters.popitem()[1]}
    )
    asked = [(ADA, "Blue", "1"), (BOB, "Red", "2")] * 15
    answers = await asyncio.gather(
        *(titles(service, who) for who, _, _ in asked),
        *(rows(service, "/books", who) for who, _, _ in asked),
    )
    expected = [*([title] for _, title, _ in asked), *([id] for _, _, id in asked)]
    assert answers == expected


async def test_rules_of_somebody_else_are_noticed_by_change_stream(service: Service) -> None:
    assert await status(service, "GET", "/books", ADA) == 403
    await service.there(service.app.plugins.find("dbAclUpdater").follower.wait_open())
    rule = {"predicate": "path('/books')", "roles": ["user"]}
    service.mongo[service.db]["acl"].insert_one(rule)

    async def is_admitted() -> bool:
        return await status(service, "GET", "/books", ADA) == 200

    await answered(is_admitted, expected=True)


KEPT = {"dbAclAuthorizer": {"cache-ttl": 86_400_000}}
OWN_WRITES_ONLY = {"dbAclUpdater": {"enabled": False}}


@pytest.mark.parametrize("dropped", ["/acl", "/"])
async def test_rules_end_with_their_collection_or_database(
    mongo_client: Any, mongo_uri: str, dropped: str
) -> None:
    """By the REST API, at the next request, however long rules are kept and nobody watching."""
    async with guarded(mongo_client, mongo_uri, KEPT, OWN_WRITES_ONLY) as service:
        await allow(service, "path-prefix('/books')", "$unauthenticated")
        assert await status(service, "GET", "/books", NOBODY) == 404
        described = await service.request("PUT", dropped, headers=ADMIN, json={})
        headers = {**ADMIN, "If-Match": described.headers["etag"]}
        assert await status(service, "DELETE", dropped, headers) == 204
        assert await status(service, "GET", "/books", NOBODY) == 401


@pytest.mark.parametrize("what", ["collection", "database", "name"])
async def test_rules_that_somebody_else_drops_end_by_change_stream(
    mongo_client: Any, mongo_uri: str, what: str
) -> None:
    async with guarded(mongo_client, mongo_uri, KEPT) as service:
        database = mongo_client[service.db]

        async def is_open() -> bool:
            return await status(service, "GET", "/books", NOBODY) == 404

        for _ in range(2):  # the watch goes on after an end
            database["acl"].insert_one({"predicate": "true", "roles": ["$unauthenticated"]})
            await answered(is_open, expected=True)
            if what == "collection":
                database["acl"].drop()
            elif what == "database":
                mongo_client.drop_database(service.db)
            else:
                database["acl"].rename("moved", dropTarget=True)
            await answered(is_open, expected=False)


async def answered(ask: Callable[[], Awaitable[bool]], *, expected: bool) -> None:
    async with asyncio.timeout(60):
        while await ask() is not expected:  # noqa: ASYNC110 - what is waited for is an answer
            await asyncio.sleep(0.02)


async def test_an_invalid_rule_in_the_database_grants_nothing_and_is_reported_once(
    service: Service,
) -> None:
    rules = service.mongo[service.db]["acl"]
    rules.insert_many(
        [
            {"_id": "typo", "predicate": "pathprefix('/books')", "roles": ["user"]},
            {"_id": "nofilter", "predicate": "path('/books')", "roles": ["user"], "mongo": 5},
        ]
    )
    with listening(PluginFailed) as failures:
        await allow(service, "path('/other')", "user")
        for _ in range(3):
            assert await status(service, "GET", "/books", ADA) == 403
            await allow(service, "path('/other')", "user")
    told = sorted(one.stage for one in failures)
    assert told == ["read the rule nofilter", "read the rule typo"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predicate": "pth('/a')"}, "predicate cannot be read: column 1: unknown predicate pth"),
        ({"roles": []}, "roles must be a list of roles that is not empty"),
        ({"mongo": {"allowBulkPatch": 1}}, "mongo.allowBulkPatch must be a boolean"),
        ({"mongo": {"readfilter": {}}}, "mongo.readfilter is not a key of a permission"),
        ({"mongo": {"readFilter": "{"}}, "mongo.readFilter is not JSON"),
        ({"mongo": {"readFilter": {"$where": "1"}}}, "mongo.readFilter is refused"),
        (
            {"mongo": {"projectResponse": {"a": 1, "b": 0}}},
            "mongo.projectResponse must not mix 0 and 1",
        ),
    ],
)
async def test_a_rule_that_cannot_work_is_refused_with_its_place(
    service: Service, change: Any, message: str
) -> None:
    service.mongo[service.db]["acl"].insert_one({"_id": "first"})
    good = {"predicate": "path('/a')", "roles": ["user"]}
    for method, path, body in (
        ("POST", "/acl", good | change),
        ("PUT", "/acl/x", good | change),
    ):
        reply = await service.request(method, path, headers=ADMIN, json=body)
        assert reply.status == 400
        assert f"Wrong permission: {message}" in reply.text.replace("\\", "")
    array = [good, good, good | change]
    reply = await service.request("POST", "/acl", headers=ADMIN, json=array)
    assert reply.status == 400
    assert f"Wrong permission: permissions[2].{message}".split(" is refused")[0] in reply.text
    assert service.mongo[service.db]["acl"].count_documents({}) == 1


async def test_a_patch_that_breaks_a_rule_is_refused(service: Service) -> None:
    await allow(service, "path('/a')", "user", _id="r")
    for update in ({"predicate": "oops("}, {"$unset": {"roles": 1}}, {"mongo.readFilter": 5}):
        assert await status(service, "PATCH", "/acl/r", ADMIN, json=update) == 400
    assert await status(service, "PATCH", "/acl/r", ADMIN, json={"priority": 3}) == 200
    everything = '/acl/*?filter={"_id":"r"}'
    assert await status(service, "PATCH", everything, ADMIN, json={"priority": 3}) == 501


# --- what the service serves ----------------------------------------------------------------------


async def test_a_body_of_a_read_or_a_deletion_satisfies_no_rule(service: Service) -> None:
    """Decision 39: the service ignores it."""
    rule = "path-prefix('/books') and bson-request-prop-equals(key=owner, value=@user._id)"
    await allow(service, rule, "user", mongo={"allowBulkDelete": True})
    for method, path in (
        ("GET", "/books"),
        ("GET", "/books/1"),
        ("GET", "/books/_size"),
        ("DELETE", "/books/1"),
        ("DELETE", "/books/*?filter=%7B%22team%22%3A%22blue%22%7D"),
    ):
        assert await status(service, method, path, ADA, json={"owner": "ada"}) == 403
    assert await status(service, "POST", "/books", ADA, json={"owner": "ada"}) == 201


async def test_a_rule_sees_the_path_of_a_mounted_document(
    mongo_client: Any, mongo_uri: str
) -> None:
    """Decision 39: the path is the one that is asked for; its id is the mount's alone."""
    db = new_name()
    mounts = [
        {"what": f"/{db}", "where": "/"},
        {"what": f"/{db}/conf/box", "where": "/settings"},
    ]
    async with guarded(
        mongo_client, mongo_uri, {"mongo": {"mongo-mounts": mounts}}, db=db
    ) as service:
        service.insert("conf", {"_id": "box", "n": 1}, {"_id": None, "n": 2})
        await allow(service, "path-prefix('/box')", "user")
        assert await status(service, "GET", "/settings", ADA) == 403
        await allow(service, "path('/settings')", "user")
        for query in ("", "?id_type=NULL", "?id_type=NUMBER", "?id_type=MINKEY"):
            reply = await service.request("GET", f"/settings{query}", headers=ADA)
            assert (reply.status, reply.json["_id"]) == (200, "box")


async def test_a_large_body_is_looked_at_once_for_all_rules_and_aside(service: Service) -> None:
    """The event loop goes on: nothing of it blocks for as long as a walk through the body takes."""
    for number in range(20):
        words = f"bson-request-blacklist(x{number}) and bson-request-contains(title)"
        await allow(service, f"path-prefix('/books') and {words}", "$unauthenticated")
    body = [{"a": {f"k{one}": one}} for one in range(4_000)] * 5
    reply = asyncio.create_task(service.request("POST", "/books", json=body))
    ticks = 0
    while not reply.done():
        assert await status(service, "GET", "/ping", NOBODY) == 200
        ticks += 1
    assert (await reply).status == 401
    assert ticks > 3
