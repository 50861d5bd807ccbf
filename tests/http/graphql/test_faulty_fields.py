"""A stored definition with an error in one field serves the others (decision 8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.exchange.errors import DefinitionError
from docgraph.observe.events import AppInvalid, AppPartlyInvalid, AppsRefreshed
from tests.http.harness import (
    Document,
    Mongo,
    Service,
    build_definition,
    identity,
    listening,
    running,
)
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, use

pytestmark = pytest.mark.anyio

FAULT = "the definition of this field is invalid"
SCHEMA = """
type Query { posts: [Post] broken: [Post] first: Post things: [Thing] strict: [Strict] }
type Post { title: String secret: String author: Author tags: [String] }
type Author { name: String }
type Strict { title: String! secret: String! }
type Film { title: String }
union Thing = Post | Film
"""


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, AGENTS) as service:
        service.insert("posts", {"title": "one", "secret": "stored", "email": "a@b"})
        yield service


@module_application
async def administrated(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, identity("admin")) as service:
        service.insert("posts", {"title": "one"})
        yield service


@pytest.fixture(autouse=True)
async def no_apps(service: Service) -> AsyncIterator[None]:
    yield
    service.definitions.delete_many({})
    await service.there(service.apps.revalidate())


def build_app(service: Service, **changes: Any) -> Document:
    """A valid app; each change replaces the mappings of a type, or adds to them."""
    posts = service.find("posts", {})
    mappings: Document = {
        "Query": {"posts": posts, "first": posts, "things": posts, "strict": posts},
        "Thing": {"$typeResolver": {"Post": "field-exists(secret)", "Film": "true"}},
    }
    for name, value in changes.items():
        known = mappings.get(name, {})
        mappings[name] = {**known, **value} if isinstance(value, dict) else value
    return build_definition("app", SCHEMA, mappings)


async def find_faults(service: Service, query: str, where: str = "app") -> tuple[Any, list[str]]:
    """Return the data, and the paths of the errors, all of which are of invalid definitions."""
    reply = await service.query(where, query)
    assert reply.status == 200, reply.text
    errors = reply.json.get("errors", [])
    assert {one["extensions"]["code"] for one in errors} <= {"invalid-definition"}, reply.text
    assert {one["message"] for one in errors} <= {FAULT}
    return reply.json["data"], ["/".join(map(str, one["path"])) for one in errors]


WRONG: dict[str, Any] = {
    "number": 5,
    "operator": {"db": "d", "collection": "c", "find": {"$or": 1}},
    "stage": {"db": "d", "collection": "c", "stages": [{"$match": {"$or": 1}}]},
    "out": {"db": "d", "collection": "c", "stages": [{"$out": "c"}]},
    "admin": {"db": "admin", "collection": "c"},
    "namespace": {"collection": "c"},
    "limit": {"db": "d", "collection": "c", "limit": -1},
    "filter": {"db": "d", "collection": "c", "filter": {"fields": {"nope": ["eq"]}}},
    "connection": {"db": "d", "collection": "c", "connection": 1},
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_field_of_query_fails_and_the_others_answer(
    service: Service, name: str
) -> None:
    await service.smuggle(build_app(service, Query={"broken": WRONG[name]}))
    found = await find_faults(service, "{ posts { title } broken { title } }")
    assert found == ({"posts": [{"title": "one"}], "broken": None}, ["broken"])


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_field_of_a_document_never_shows_the_property_of_its_name(
    service: Service, name: str
) -> None:
    await service.smuggle(build_app(service, Post={"secret": WRONG[name]}))
    query = "{ posts { title secret } first { secret } things { ... on Post { secret } } }"
    data, paths = await find_faults(service, query)
    assert data == {
        "posts": [{"title": "one", "secret": None}],
        "first": {"secret": None},
        "things": [{"secret": None}],
    }
    assert paths == ["posts/0/secret", "first/secret", "things/0/secret"]


async def test_a_non_null_field_makes_its_parent_null(service: Service) -> None:
    await service.smuggle(build_app(service, Strict={"secret": 5}))
    data, paths = await find_faults(service, "{ posts { title } strict { title secret } }")
    assert (data["strict"], paths) == ([None], ["strict/0/secret"])


@pytest.mark.parametrize(
    "resolver",
    [None, 5, {}, {"$typeResolver": {"Post": "nope(", "Film": "true"}}, {"$typeResolver": 5}],
)
async def test_a_faulty_type_resolver_fails_every_field_of_that_type(
    service: Service, resolver: Any
) -> None:
    app = build_app(service)
    app["mappings"]["Thing"] = resolver
    await service.smuggle(app)
    data, paths = await find_faults(service, "{ posts { title } things { ... on Film { title } } }")
    assert data == {"posts": [{"title": "one"}], "things": None}
    assert paths == ["things"]


async def test_mappings_of_a_type_that_are_no_object_fail_its_fields(service: Service) -> None:
    await service.smuggle(build_app(service, Post=5))
    data, paths = await find_faults(service, "{ posts { title tags } strict { title } }")
    assert data == {"posts": [{"title": None, "tags": None}], "strict": [{"title": "one"}]}
    assert paths == ["posts/0/title", "posts/0/tags"]


VISIBLE = [
    "email: String @visible(roles: [1])",
    "email: String @visible",
    'email: String @visible(role: ["admin"])',
    'email: String @visible(roles: ["a"]) @visible(roles: ["b"])',
    "email(a: Int @visible(roles: [7])): String",
]


@pytest.mark.parametrize("field", VISIBLE)
async def test_a_faulty_visible_fails_every_field_of_its_type(service: Service, field: str) -> None:
    schema = f"type Query {{ users: [User] posts: [Post] }} type User {{ title: String {field} }}"
    schema += "type Post { title: String }"
    find = service.find("posts", {})
    mappings = {"Query": {"users": find, "posts": find}}
    await service.smuggle(build_definition("app", schema, mappings))
    data, paths = await find_faults(service, "{ users { title email } posts { title } }")
    assert data == {"users": [{"title": None, "email": None}], "posts": [{"title": "one"}]}
    assert paths == ["users/0/title", "users/0/email"]


async def test_a_field_more_hidden_than_its_interface_fails_its_type(service: Service) -> None:
    schema = """
    type Query { things: [Thing] films: [Film] }
    interface Thing { title: String email: String }
    type Post implements Thing {
      title: String @visible(roles: ["nobody"]) email: String secret: String
    }
    type Film implements Thing { title: String email: String }
    """
    find = service.find("posts", {})
    mappings = {
        "Query": {"things": find, "films": find},
        "Thing": {"$typeResolver": {"Post": "field-exists(secret)", "Film": "true"}},
    }
    await service.smuggle(build_definition("app", schema, mappings))
    query = "{ films { title } things { ... on Post { secret } } }"
    data, paths = await find_faults(service, query)
    assert data == {"films": [{"title": "one"}], "things": [{"secret": None}]}
    assert paths == ["things/0/secret"]


RESTRICTED = {
    "visibility": ("@visible(roles: [7])", {}),
    "mapping": ('@visible(roles: ["admin"])', {"email": 5}),
}


@pytest.mark.parametrize("fault", RESTRICTED)
async def test_groups_and_searches_fail_when_it_is_unknown_who_may_see_a_field(
    service: Service, fault: str
) -> None:
    """A group of emails shows emails, and a search finds them."""
    directive, mapping = RESTRICTED[fault]
    schema = f"""
    type Query {{ users: [User] emails: [Email] found: [Title] titles: [Title] count: Int }}
    type User {{ title: String email: String {directive} }}
    type Email {{ email: String count: Int }}
    type Title {{ title: String }}
    """
    mappings = {
        "Query": {
            "users": service.find("posts", {}),
            "emails": service.find("posts", {}, group={"by": ["email"]}),
            "found": service.find("posts", {}, filter={"search": True}),
            "titles": service.find("posts", {}),
        },
        "User": mapping,
    }
    await service.smuggle(build_definition("app", schema, mappings))
    query = "{ emails { email } found { title } titles { title } }"
    data, paths = await find_faults(service, query)
    assert data == {"emails": None, "found": None, "titles": [{"title": "one"}]}
    assert paths == ["emails", "found"]
    reply = await service.query("app", '{ found(where: {search: "a"}) { title } }')
    assert reply.status == 400


@pytest.mark.parametrize("faulty", ["Query.users", "User.contact", "User.owner"])
async def test_groups_fail_when_a_fault_hides_the_way_to_a_restricted_field(
    service: Service, faulty: str
) -> None:
    """The group would no longer follow the field that shows its property."""
    schema = """
    type Query { users: [User] emails: [Email] titles: [Title] }
    type User {
      email: String @visible(roles: ["admin"]) title: String contact: Contact owner: Contact
    }
    type Contact { email: String @visible(roles: ["admin"]) name: String }
    type Email { email: String count: Int }
    type Title { title: String }
    """
    find = service.find("posts", {})
    by = "contact.email" if faulty == "User.contact" else "email"
    mappings: Document = {
        "Query": {"users": find, "titles": find},
        "User": {"owner": service.find("people", {"_id": {"$fk": "owner"}})},
    }
    collection = "people" if faulty == "User.owner" else "posts"
    mappings["Query"]["emails"] = service.find(collection, {}, group={"by": {"email": by}})
    await service.smuggle(build_definition("app", schema, mappings))
    assert (await service.query("app", "{ emails { email } }")).status == 400  # it is hidden
    type_name, _, name = faulty.partition(".")
    mappings[type_name][name] = 5
    await service.smuggle(build_definition("app", schema, mappings))
    data, paths = await find_faults(service, "{ emails { email } titles { title } }")
    assert (data, paths) == ({"emails": None, "titles": [{"title": "one"}]}, ["emails"])


async def test_groups_and_searches_of_valid_fields_are_served(service: Service) -> None:
    """Else the test above could not fail: another fault restricts nothing."""
    schema = """
    type Query { users: [User] emails: [Email] broken: [User] }
    type User { title: String email: String }
    type Email { email: String count: Int }
    """
    mappings = {
        "Query": {
            "users": service.find("posts", {}),
            "emails": service.find("posts", {}, group={"by": ["email"]}),
            "broken": 5,
        }
    }
    await service.smuggle(build_definition("app", schema, mappings))
    data, paths = await find_faults(service, "{ emails { email count } broken { title } }")
    assert data == {"emails": [{"email": "a@b", "count": 1}], "broken": None}
    assert paths == ["broken"]


async def test_a_filter_over_a_faulty_field_is_no_filter_over_its_property(
    service: Service,
) -> None:
    """Who could filter by the property would learn its values."""
    posts = service.find("posts", {}, filter={"fields": {"secret": ["eq"]}})
    await service.smuggle(build_app(service, Query={"posts": posts}, Post={"secret": 5}))
    data, paths = await find_faults(service, "{ posts { title } first { title } }")
    assert (data, paths) == ({"posts": None, "first": {"title": "one"}}, ["posts"])
    reply = await service.query("app", '{ posts(where: {secret: {eq: "stored"}}) { title } }')
    assert reply.status == 400


@pytest.mark.parametrize(
    "extra",
    [
        "type Mutation { add: Int }",
        "type Subscription { added: Int }",
        "type Other { add: Int } schema { query: Query mutation: Other }",
    ],
)
async def test_root_types_of_other_operations_are_left_out(service: Service, extra: str) -> None:
    app = build_app(service)
    app["schema"] += extra
    with listening(AppPartlyInvalid) as heard:
        await service.smuggle(app)
        assert (await service.query("app", "{ posts { title } }")).status == 200
    assert [one.app for one in heard] == ["app"]
    assert all("left out" in problem for problem in heard[0].problems)
    for operation in ("mutation { add }", "subscription { added }"):
        reply = await service.query("app", operation)
        assert (reply.status, reply.json["data"]) == (400, None)
    names = await service.query("app", "{ __schema { mutationType { name } types { name } } }")
    assert names.data["__schema"]["mutationType"] is None


@pytest.mark.parametrize(
    "app",
    [
        {"schema": "type Query {"},
        {"schema": "type Query { posts: Nope }"},
        {"schema": "type Query { posts: [Int] } input I { a: Int @visible(roles: [7]) }"},
        {"descriptor": {"limits": {"depth": -1}}},
        {"mappings": {"Query": {"posts": 5}}},
        {"mappings": {"Query": 5}},
    ],
)
async def test_an_error_of_the_whole_app_stays_400(service: Service, app: Document) -> None:
    with listening(AppInvalid) as heard:
        await service.smuggle({**build_app(service), **app})
        reply = await service.query("app", "{ posts { title } }")
    assert (reply.status, reply.messages) == (400, ["Invalid GraphQL app definition"])
    assert [one.app for one in heard] == ["app"]


async def test_writing_such_a_definition_is_still_rejected(service: Service) -> None:
    for app in (
        build_app(service, Query={"broken": 5}),
        build_app(service, Thing={"$typeResolver": 5}),
    ):
        with pytest.raises(DefinitionError):
            await service.store(app)
    mutation = build_app(service)
    mutation["schema"] += "type Mutation { add: Int }"
    with pytest.raises(DefinitionError):
        await service.store(mutation)


async def test_the_log_and_the_metric_name_what_is_invalid_until_it_is_corrected(
    service: Service,
) -> None:
    with listening(AppPartlyInvalid) as heard, listening(AppsRefreshed) as counted:
        await service.smuggle(build_app(service, Query={"broken": 5}))
        for _ in range(3):
            await service.query("app", "{ posts { title } broken { title } }")
        assert [one.problems for one in heard] == [
            ("mappings.Query.broken: must be a string or an object, not a number",)
        ]
        assert (counted[-1].partial, counted[-1].served) == (1, 1)
        await service.smuggle(build_app(service))
        assert (await service.query("app", "{ posts { title } }")).status == 200
        assert counted[-1].partial == 0


async def test_the_root_role_sees_why(administrated: Service) -> None:
    await administrated.smuggle(build_app(administrated, Query={"broken": 5}))
    reply = await administrated.query("app", "{ broken { title } }")
    assert reply.code == "invalid-definition"
    assert reply.messages == [
        f"{FAULT}: mappings.Query.broken: must be a string or an object, not a number"
    ]


async def test_agents_get_the_same_answer(service: Service) -> None:
    await service.smuggle(build_app(service, Post={"secret": 5}))
    used = await use(service, "run_query", app="app", query="{ posts { title secret } }")
    assert "stored" not in used.text
    assert "invalid-definition" in used.text
