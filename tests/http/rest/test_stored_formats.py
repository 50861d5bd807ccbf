"""What one version has stored, the next one reads; and it leaves alone what a newer one added."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docgraph import __version__
from docgraph.graphql.apps.history import History
from docgraph.graphql.sections import Graphql
from tests.databases import drop
from tests.http.formats import (
    ADMIN,
    DB,
    EDITOR,
    FILES,
    find_shapes,
    put_back,
    read_stored,
    render,
    serving,
    write_everything,
)
from tests.http.harness import Document, Mongo, Service, eventually
from tests.http.hosts import hosted

pytestmark = [pytest.mark.anyio, pytest.mark.json]

VERSIONS = sorted(path.stem for path in FILES.glob("*.json"))
NEWER = {"_next": {"since": "the next version"}}


def add_members(stored: dict[str, list[Document]]) -> dict[str, list[Document]]:
    """The same as a newer version may write it: with members that nobody here knows."""
    stored = copy.deepcopy(stored)
    for documents in stored.values():
        for document in documents:
            document.update(NEWER)
    (app,), (rule,) = stored["gql-apps"], stored["acl"]
    properties = next(one for one in stored["_properties"] if "streams" in one)
    inner = [app["descriptor"], app["mappings"]["Query"]["notes"], rule["mongo"]]
    inner += [properties["aggrs"][0], properties["streams"][0], properties["jsonSchema"]]
    for one in (*inner, *(note for v in stored["_versions"] for note in v.get("instances", ()))):
        one.update(NEWER)
    return stored


@pytest.fixture(
    scope="module",
    params=[(version, is_newer) for version in VERSIONS for is_newer in (False, True)],
    ids=lambda param: f"{param[0]}{'-and-newer' if param[1] else ''}",
)
def service(request: Any, mongo_client: Mongo, mongo_uri: str) -> Iterator[Service]:
    version, is_newer = request.param
    stored = read_stored(version)
    put_back(mongo_client, add_members(stored) if is_newer else stored)
    with hosted(serving(mongo_client, mongo_uri)) as one:
        yield one
    drop(mongo_client, DB)


async def test_an_app_answers_whom_a_rule_admits(service: Service) -> None:
    query = "{notes {text by {name}}}"
    reply = await service.query("notes", query, headers=EDITOR)
    assert reply.data["notes"][0] == {"text": "blue", "by": {"name": "Ada"}}
    reply = await service.query("notes", '{notes(team: "red") {text}}', headers=ADMIN)
    assert reply.data == {"notes": [{"text": "red"}]}
    assert (await service.query("notes", query)).status == 401


async def test_users_log_in_and_have_their_roles_and_properties(service: Service) -> None:
    reply = await service.request("GET", "/roles/ada", headers=EDITOR)
    assert (reply.status, reply.json["roles"]) == (200, ["editor"])
    reply = await service.request("GET", "/notes", headers=EDITOR)
    assert [one["text"] for one in reply.json] == ["blue"]  # the rule's filter: the own team
    reply = await service.request("GET", "/acl", headers=EDITOR)
    assert reply.status == 403


async def test_properties_and_schemas_hold(service: Service) -> None:
    reply = await service.request("GET", "/notes/_aggrs/teams", headers=ADMIN)
    assert sorted(one["_id"] for one in reply.json) == ["blue", "red"]
    reply = await service.request("POST", "/notes", json={"team": 1}, headers=ADMIN)
    assert reply.status == 400
    reply = await service.request("GET", "/notes/_meta", headers=ADMIN)
    assert reply.json["mine"] == {"a.b": 1}
    reply = await service.request("GET", "/notes/_streams/all", headers=ADMIN)
    assert (reply.status, "WebSocket or SSE" in reply.text) == (400, True)  # it is there


async def test_what_was_ended_stays_ended(service: Service) -> None:
    ended = service.app.plugins.values["token-revocations"]._marks
    await eventually(lambda: ended.find("ada") > 0)
    (token,) = service.mongo[DB]["_revocations"].find({"_id": {"$regex": "^token:"}})
    await eventually(lambda: ended.end(token["_id"].partition(":")[2], "root", 2**40))


async def test_the_history_of_an_app_goes_on(service: Service) -> None:
    history = History(service.app.store, Graphql(db=DB))
    key = next(iter(service.mongo[DB]["_appHistory"].find()))["_id"]["app"]
    before = await service.there(history.list_of(key))
    assert [one.number for one in before[:2]] == [1, 2]
    assert before[0].definition is not None
    await service.there(history.record("notes"))
    head = await service.there(history.find_head(key))
    assert head is not None
    assert head.number == before[-1].number  # also with what a newer version has added


@pytest.mark.parametrize(
    ("path", "collection", "id", "change"),
    [
        ("/gql-apps/notes", "gql-apps", "notes", {"descriptor.description": "changed"}),
        ("/users/ada", "users", "ada", {"nick": "a"}),
        ("/acl/editors", "acl", "editors", {"description": "changed"}),
        ("/notes", "_properties", "_properties.notes", {"etagDocPolicy": "OPTIONAL"}),
    ],
)
async def test_a_change_leaves_the_rest_as_it_is(
    service: Service, path: str, collection: str, id: str, change: Document
) -> None:
    stored = service.mongo[DB][collection]
    before = stored.find_one({"_id": id}) or {}
    reply = await service.request("PATCH", path, json=change, headers=ADMIN)
    assert reply.status == 200, reply.text
    after = stored.find_one({"_id": id}) or {}
    for document in (before, after):
        for name in ("_etag", *(name.partition(".")[0] for name in change)):
            document.pop(name, None)
    assert after == before


async def test_versions_are_counted_on(service: Service) -> None:
    stored = service.mongo[DB]["_versions"]
    before = stored.find_one({"_id": "acl"}) or {}
    reply = await service.request("PATCH", "/acl/editors", json={"priority": 1}, headers=ADMIN)
    assert reply.status == 200
    after = stored.find_one({"_id": "acl"}) or {}
    assert after["version"] > before["version"]
    assert after.get("_next") == before.get("_next")


async def test_what_this_version_stores_is_on_file(
    mongo_client: Mongo, mongo_uri: str, database: str, tmp_path: Path
) -> None:
    written = await write_everything(mongo_client, mongo_uri, database)
    fresh = tmp_path / f"{__version__}.json"
    fresh.write_text(render(written))
    assert __version__ in VERSIONS, f"copy {fresh} to {FILES}"
    assert find_shapes(written) == find_shapes(read_stored(__version__)), (
        f"stored in another form than {__version__} on file; {fresh} is the new one: read both"
    )
