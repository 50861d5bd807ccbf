"""Decision 58: a view does not show rows that a row filter of the caller hides.

Views are looked for at every door, and at every place of a pipeline where one can be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from docgraph.access.service_comparison import Comparison
from docgraph.access.view_rules import ViewWarning
from docgraph.exchange import Deadline
from docgraph.exchange.errors import Overloaded, QueryError, StoreError
from docgraph.exchange.exchange import RowFilters
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import ViewDenied, ViewRefusedByRule
from docgraph.store import Store
from docgraph.store.views import ViewDefinition, ViewRefused
from tests.http.access_harness import ADA, ADMIN, allow, forget_rules, guarded
from tests.http.batches import entry
from tests.http.harness import Document, Service
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS
from tests.http.mcp_harness import ask as speak

pytestmark = pytest.mark.anyio

MARK = "hidden-row"
SCHEMA = """
    type Note { _id: String v: String fromView: [Note] }
    type Query { all: [Note] joined: [Note] plain: [Note] }
"""
SOURCES: dict[str, tuple[str, list[Document]]] = {
    "all_notes": ("notes", []),
    "again": ("all_notes", []),
    "looked": ("plain", [{"$lookup": {"from": "notes", "pipeline": [], "as": "n"}}]),
    "united": ("plain", [{"$unionWith": "notes"}]),
    "inside": ("plain", [{"$facet": {"a": [{"$unionWith": {"coll": "all_notes"}}]}}]),
    "graph": (
        "plain",
        [
            {
                "$graphLookup": {
                    "from": "notes",
                    "startWith": "$k",
                    "connectFromField": "k",
                    "connectToField": "k",
                    "as": "n",
                }
            }
        ],
    ),
}
SAFE: dict[str, tuple[str, list[Document]]] = {"safe": ("plain", [])}


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, AGENTS) as one:
        data = one.mongo[one.db]
        data.notes.insert_one({"_id": "1", "owner": "ada", "k": 1, "v": "seen"})
        data.notes.insert_one({"_id": "2", "owner": "bob", "k": 1, "v": MARK})
        data.plain.insert_one({"_id": "p", "k": 1, "v": "plain"})
        for name, (source, stages) in {**SOURCES, **SAFE}.items():
            data.create_collection(name, viewOn=source, pipeline=stages)
        pipeline = [{"$lookup": {"from": "all_notes", "pipeline": [], "as": "n"}}]
        data["_properties"].insert_one(
            {
                "_id": "_properties.plain",
                "aggrs": [{"uri": "joined", "type": "pipeline", "stages": pipeline}],
            }
        )
        queries = {"all": one.find("all_notes"), "plain": one.find("plain")}
        queries["joined"] = one.stages("plain", *pipeline)
        relation = one.find("all_notes", {"k": {"$fk": "k"}})
        mappings = {"Note": {"fromView": relation}, "Query": queries}
        await one.define("v", SCHEMA, mappings)
        yield one


@pytest.fixture
def service(server: Service) -> Service:
    forget_rules(server)
    return server


@pytest.fixture
def denials() -> Iterator[list[ViewDenied]]:
    """The refusals that were logged."""
    seen: list[ViewDenied] = []

    def note(event: Event) -> None:
        if isinstance(event, ViewDenied):
            seen.append(event)

    subscribe(note)
    yield seen
    unsubscribe(note)


def rows(service: Service, *names: str) -> Document:
    """Filters for the notes, and for all rows of other collections."""
    own: Document = {f"{service.db}.notes": {"owner": "ada"}}
    return {"readFilters": own | {f"{service.db}.{name}": {} for name in names}}


@pytest.mark.parametrize("name", SOURCES)
async def test_a_view_on_filtered_rows_is_refused_by_rest(
    service: Service, denials: list[ViewDenied], name: str
) -> None:
    await allow(service, "path-prefix('/')", "user", mongo=rows(service))
    doors = (
        "",
        "/_size",
        "?count=exact",
        "?format=csv",
        "?after=&sort=v",
        "/2",
        "?count=estimated",
    )
    for path in doors:
        reply = await service.request("GET", f"/{name}{path}", headers=ADA)
        assert (reply.status, MARK in reply.text) == (403, False), path
        assert "notes" not in reply.text.replace(f"/{name}", "")  # the log has the reason
    assert {(one.view, one.source) for one in denials} == {
        (f"{service.db}.{name}", f"{service.db}.notes")
    } or name in {"again", "inside"}
    assert all(one.request_id for one in denials)
    entries = [entry("GET", f"/{name}/2")]
    batch = await service.request("POST", "/_batch", headers=ADA, json=entries)
    assert MARK not in batch.text
    await allow(service, "path-prefix('/')", "user", priority=1, mongo=rows(service, name))
    named = await service.request("GET", f"/{name}", headers=ADA)
    assert named.status == 200


async def test_a_view_on_the_buckets_of_a_filtered_time_series_is_refused(service: Service) -> None:
    """Decision 58: the database lists no such view."""
    data = service.mongo[service.db]
    data.create_collection("series", timeseries={"timeField": "t", "metaField": "owner"})
    data.series.insert_one({"t": datetime.now(UTC), "owner": "bob"})
    data.create_collection("buckets", viewOn="system.buckets.series", pipeline=[])
    data.create_collection("of_buckets", viewOn="buckets", pipeline=[])
    filters = {f"{service.db}.series": {"owner": "ada"}}
    await allow(service, "path-prefix('/')", "user", mongo={"readFilters": filters})
    reads = {"one": service.find("buckets"), "two": service.find("of_buckets")}
    reads["other"] = service.find("plain")
    schema = "type Query { one: [N] two: [N] other: [N] } type N { meta: String }"
    await service.define("b", schema, {"Query": reads})
    for field, status in (("one", 403), ("two", 403), ("other", 200)):
        ask = {"query": f"{{{field}{{meta}}}}"}
        reply = await service.request("POST", "/graphql/b", headers=ADA, json=ask)
        assert (reply.status, "bob" in reply.text) == (status, False), field


async def test_collections_and_other_views_are_read_as_before(service: Service) -> None:
    await allow(service, "path-prefix('/')", "user", mongo=rows(service))
    for path, count in (("/plain", 1), ("/safe", 1), ("/notes", 1), ("/plain/_size", None)):
        reply = await service.request("GET", path, headers=ADA)
        assert reply.status == 200
        assert count is None or len(reply.json) == count
    missing = await service.request("GET", "/missing", headers=ADA)
    assert missing.status == 404


async def test_a_view_inside_a_pipeline_or_a_relation_is_refused(service: Service) -> None:
    await allow(service, "path-prefix('/')", "user", mongo=rows(service))
    stored = await service.request("GET", "/plain/_aggrs/joined", headers=ADA)
    assert (stored.status, MARK in stored.text) == (403, False)
    for text in ("{all{v}}", "{joined{v}}", "{plain{v fromView{v}}}"):
        reply = await service.request("POST", "/graphql/v", headers=ADA, json={"query": text})
        assert (reply.status, MARK in reply.text) == (403, False), text
        assert reply.json["data"] is None
        call = {"name": "run_query", "arguments": {"app": "v", "query": text}}
        told = await speak(service, "tools/call", call, ADA)
        assert MARK not in told.text
    plain = await service.request("POST", "/graphql/v", headers=ADA, json={"query": "{plain{v}}"})
    assert plain.json["data"] == {"plain": [{"v": "plain"}]}


async def test_only_the_same_rule_names_a_view_and_only_in_read_filters(service: Service) -> None:
    await allow(
        service, "path-prefix('/')", "user", mongo={**rows(service), "readFilter": {"k": 1}}
    )
    assert (await service.request("GET", "/all_notes", headers=ADA)).status == 403
    forget_rules(service)
    # A plain filter counts if the request is for the source itself.
    await allow(service, "path-prefix('/')", "user", mongo={"readFilter": {"owner": "ada"}})
    seen = await service.request("GET", "/all_notes", headers=ADA)
    assert [one["_id"] for one in seen.json] == ["1"]
    assert (await service.request("GET", "/plain/_aggrs/joined", headers=ADA)).status == 200
    forget_rules(service)
    await allow(service, "path-prefix('/all_notes')", "user", mongo=rows(service, "all_notes"))
    await allow(service, "path-prefix('/_batch')", "user", mongo=rows(service))
    entries = [entry("GET", "/all_notes/2")]
    batch = await service.request("POST", "/_batch", headers=ADA, json=entries)
    assert MARK not in batch.text  # the rule of the batch does not name the view
    assert (await service.request("GET", "/all_notes/2", headers=ADA)).status == 200


async def find_warnings(service: Service) -> list[tuple[str, str, bool]]:
    """The name of each view that a tool warns of, its source, and if it is refused."""
    comparison: Comparison = service.app.plugins.find("accessExplain").explainer.comparison

    async def find() -> list[ViewWarning]:
        return await comparison.find_view_warnings(await comparison._book.find_all())

    found = await service.there(find())
    assert all("{" in str(one.describe().hint) for one in found)
    return [(one.view.split(".")[1], one.source.split(".")[1], one.other is None) for one in found]


async def test_tools_and_the_start_log_name_the_views(service: Service) -> None:
    await allow(service, "path-prefix('/')", "user", mongo=rows(service, "united"))
    expected = [(name, "notes", True) for name in sorted(SOURCES) if name != "united"]
    assert await find_warnings(service) == expected
    seen: list[Event] = []
    subscribe(seen.append)
    await service.there(service.app.plugins.find("aclRulesCheck").initialize())
    unsubscribe(seen.append)
    logged = [one for one in seen if isinstance(one, ViewRefusedByRule)]
    assert [one.view.split(".")[1] for one in logged] == [name for name, *_ in expected]

    async def explain(path: str, method: str = "GET") -> Document:
        asked = {"path": path, "method": method, "role": "user"}
        reply = await service.request("GET", "/access/explain", headers=ADMIN, params=asked)
        return dict(reply.json)

    refused = await explain("/again")
    assert (refused["status"], refused["allowed"]) == (403, False)
    assert f"{service.db}.notes" in refused["reason"]
    assert (await explain("/united"))["status"] == (await explain("/plain"))["status"] == 200
    app = await explain("/graphql/v", "POST")
    assert (app["status"], len(app["notes"])) == (200, 1)
    assert f"{service.db}.all_notes" in app["notes"][0]


@pytest.mark.parametrize(
    ("path", "conditions", "warned"),
    [
        ("/all_notes", {}, ["all_notes"]),
        ("/graphql/v", {"readFilter": {}}, ["all_notes"]),
        ("/all_notes", {"readFilter": {"k": 1}}, []),
        ("/plain", {}, []),
    ],
)
async def test_a_plain_filter_that_a_view_passes_is_reported(
    service: Service, path: str, conditions: Document, warned: list[str]
) -> None:
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": {"owner": "ada"}})
    await allow(service, f"path-prefix('{path}')", "user", "other", mongo=conditions)
    await allow(service, "path-prefix('/')", "third")
    assert await find_warnings(service) == [(name, "notes", False) for name in warned]


async def read(store: Store, service: Service, name: str, **options: Any) -> list[Document]:
    filters = RowFilters({f"{service.db}.notes": {"owner": "ada"}})
    deadline = Deadline.after_ms(9_000)
    work = store.reads.find(
        service.db, name, {}, limit=9, rows=filters, deadline=deadline, **options
    )
    return await service.there(work)


def redefine(service: Service, name: str, source: str, *stages: Document) -> None:
    service.mongo[service.db].command("collMod", name, viewOn=source, pipeline=list(stages))


async def test_a_view_that_changes_meanwhile_shows_nothing(service: Service) -> None:
    store, data = service.app.store, service.mongo[service.db]
    data.create_collection("moving", viewOn="plain", pipeline=[])
    assert await read(store, service, "moving")  # from now on its definition is known
    redefine(service, "moving", "notes")
    with pytest.raises(ViewRefused):
        await read(store, service, "moving")
    taken: list[Document] = []

    async def take(documents: list[Document]) -> None:
        taken.extend(documents)

    redefine(service, "moving", "plain")
    assert await read(store, service, "moving")
    redefine(service, "moving", "notes")
    with pytest.raises(ViewRefused):
        await read(store, service, "moving", take=take)
    redefine(service, "moving", "plain")
    assert await read(store, service, "moving")
    redefine(service, "moving", "plain", {"$match": {"k": 1}})  # it is allowed, too
    await read(store, service, "moving", take=take)
    assert [one["_id"] for one in taken] == ["p"]
    # An error of a command answers a question, too.
    redefine(service, "moving", "plain")
    assert await read(store, service, "moving")
    redefine(service, "moving", "notes", {"$project": {"x": {"$divide": ["$k", 0]}}})
    with pytest.raises(ViewRefused):
        await read(store, service, "moving")
    # A collection can become a view.
    data.drop_collection("moving")
    assert await read(store, service, "moving") == []
    data.create_collection("moving", viewOn="notes", pipeline=[])
    with pytest.raises(ViewRefused):
        await read(store, service, "moving")
    data.drop_collection("moving")


async def test_a_view_that_changes_during_each_try_is_503(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, data = service.app.store, service.mongo[service.db]
    data.create_collection("restless", viewOn="plain", pipeline=[])
    fetch, numbers = store.reads.commands.fetch, iter(range(9))

    async def change_after(db: str, command: Document, *parts: Any, **others: Any) -> Any:
        found = await fetch(db, command, *parts, **others)
        if "find" in command:
            stage = {"$limit": 1 + next(numbers)}
            await asyncio.to_thread(redefine, service, "restless", "plain", stage)
        return found

    monkeypatch.setattr(store.reads.commands, "fetch", change_after)
    with pytest.raises(Overloaded):
        await read(store, service, "restless")
    data.drop_collection("restless")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"viewOn": ""},
        {"viewOn": 1},
        {"viewOn": "a", "pipeline": [1]},
        {"viewOn": "a", "pipeline": {}},
    ],
)
def test_a_definition_that_cannot_be_read_is_an_error(options: Document) -> None:
    with pytest.raises(QueryError):
        ViewDefinition.read("db", {"name": "v", "type": "view", "options": options})


async def test_what_is_unknown_is_refused(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = service.app.store

    async def fail(*_: Any) -> Any:
        raise StoreError("not authorized to execute listCollections")

    store.reads.views._recent.clear()
    with monkeypatch.context() as patched:
        patched.setattr(store.reads.views, "load", fail)
        with pytest.raises(ViewRefused):
            await read(store, service, "plain")
    assert await read(store, service, "plain")
