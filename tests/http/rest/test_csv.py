"""Lists and stored aggregations as CSV: form, columns, limits, and what no caller may see."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from docgraph.codec.csv_table import MAX_SAMPLE
from docgraph.observe.events import RequestFinished
from docgraph.rest import call as rest_call
from docgraph.rest.handlers import aggregations
from docgraph.rest.streamed_lists import CsvExport
from docgraph.store.driver import portions
from tests.connections import Peer, Response, build_request
from tests.http.access_harness import ADA, ADMIN, allow, guarded
from tests.http.harness import Mongo, Reply, eventually, failing, idle_cursors, listening
from tests.http.hosts import module_application
from tests.http.rest_harness import Api, serving

pytestmark = [pytest.mark.anyio, pytest.mark.json]

CSV = {"accept": "text/csv"}
TYPE = "text/csv; charset=utf-8"
LONG = 3 * MAX_SAMPLE


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Api]:
    settings = {"mongo": {"max-pagesize": 2 * LONG}}
    async with serving(mongo_client, mongo_uri, settings) as one:
        await one.put(
            "/things",
            {
                "aggrs": [
                    {"uri": "sums", "stages": [{"$group": {"_id": "$k", "n": {"$sum": 1}}}]},
                    {"uri": "all", "stages": [{"$sort": {"_id": 1}}]},
                    {"uri": "var", "stages": [{"$match": {"n": {"$var": "n"}}}]},
                    {"uri": "bad", "stages": [{"$project": {"x": {"$divide": [1, "$zero"]}}}]},
                ]
            },
        )
        yield one


@pytest.fixture
def api(server: Api) -> Api:
    server.things.delete_many({})
    server.things.insert_many(
        [
            {"_id": 1, "title": "=1+1", "author": {"name": "Ada"}, "tags": ["a", "b"]},
            {"_id": 2, "title": "plain", "n": -5, "author": {"name": "Bob", "age": 7}},
        ]
    )
    return server


def fill(api: Api, number: int, **fields: Any) -> None:
    api.things.delete_many({})
    api.things.insert_many({"_id": n, "text": "x" * 100, **fields} for n in range(number))


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The documents of a long list arrive one after the other."""
    monkeypatch.setattr(portions, "LARGE", 10_000)
    monkeypatch.setattr(portions, "PORTION", 20_000)


def connect(api: Api) -> Peer:
    return Peer(api.service.client._transport.state)


def lines(reply: Reply) -> list[list[str]]:
    assert reply.status == 200, reply.text
    assert reply.headers["content-type"] == TYPE
    assert reply.text.endswith("\r\n")
    return list(csv.reader(io.StringIO(reply.text, newline=""), strict=True))


# --- the form -------------------------------------------------------------------------------------


async def test_a_list_is_a_table_that_a_browser_saves(api: Api) -> None:
    reply = await api.send("GET", "/things", headers=CSV, sort="_id")

    assert reply.text == (
        "_id,title,author.name,tags,n,author.age\r\n"
        '1,\'=1+1,Ada,"[""a"",""b""]",,\r\n'
        "2,plain,Bob,,-5,7\r\n"
    )
    assert reply.headers["content-type"] == TYPE
    assert reply.headers["content-disposition"] == 'attachment; filename="things.csv"'
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "Accept" in reply.headers.get_list("vary")
    assert "etag" not in reply.headers


async def test_the_parameter_decides_before_the_header(api: Api) -> None:
    by_parameter = await api.get("/things", format="csv", sort="_id")
    by_header = await api.send("GET", "/things", headers=CSV, sort="_id")
    json = await api.send("GET", "/things", headers=CSV, format="json")

    assert by_parameter.text == by_header.text
    assert json.headers["content-type"].startswith("application/json")
    assert "Accept" in json.headers.get_list("vary")
    assert "content-disposition" not in json.headers


@pytest.mark.parametrize(
    ("accept", "is_csv"),
    [
        ("text/csv", True),
        ("TEXT/CSV; charset=utf-8", True),
        ("text/csv, application/json;q=0.5", True),
        ("text/csv, application/json", True),
        ("application/json, text/csv", False),
        ("application/json, text/csv;q=0.9", False),
        ("text/csv;q=0.5, */*;q=0.1", True),
        ("*/*, text/csv", True),
        ("text/csv;q=0.5, */*", False),
        ("text/csv;q=0, */*", False),
        ("text/csv;q=x", False),
        ("text/*", False),
        ("*/*", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
        ("", False),
    ],
)
async def test_negotiation(api: Api, accept: str, is_csv: bool) -> None:
    reply = await api.send("GET", "/things", headers={"accept": accept})

    assert reply.headers["content-type"].startswith("text/csv") is is_csv


async def test_formulas_stay_where_the_caller_wants_them(api: Api) -> None:
    reply = await api.get("/things", **{"format": "csv", "csv-formulas": "raw", "sort": "_id"})

    assert lines(reply)[1][1] == "=1+1"


async def test_names_of_columns_are_no_formulas_either(api: Api) -> None:
    api.things.insert_one({"_id": 3, "=cmd": {"@x": 1}})
    reply = await api.get("/things", format="csv", filter={"_id": 3})

    assert lines(reply)[0] == ["_id", "'=cmd.@x"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("format", "xml", "illegal format parameter, it must be csv or json"),
        ("csv-formulas", "yes", "illegal csv-formulas parameter, it must be text or raw"),
    ],
)
async def test_other_values_are_refused(api: Api, name: str, value: str, message: str) -> None:
    reply = await api.get("/things", **{name: value})

    assert (reply.status, reply.json["message"]) == (400, message)


async def test_head_has_the_headers_of_get(api: Api) -> None:
    got = await api.send("GET", "/things", headers=CSV)
    head = await api.send("HEAD", "/things", headers=CSV)

    assert head.status == 200
    assert head.text == ""
    for name in ("content-type", "content-length", "content-disposition"):
        assert head.headers[name] == got.headers[name]


async def test_pages_are_those_of_json(api: Api) -> None:
    fill(api, 7)
    json = await api.get("/things", pagesize="3", count="true")
    reply = await api.get("/things", pagesize="3", count="true", format="csv")

    assert [line[0] for line in lines(reply)] == ["_id", "6", "5", "4"]
    for name in ("x-total-count", "x-count-strategy"):
        assert reply.headers[name] == json.headers[name]
    path, seen = reply.headers["link"].split(";")[0].strip("<>"), []
    while path:
        page = await api.send("GET", path)
        seen += [line[0] for line in lines(page)[1:]]
        path = page.headers.get("link", "").split(";")[0].strip("<>")
    assert seen == ["3", "2", "1", "0"]


async def test_keyset_pages(api: Api) -> None:
    fill(api, 4)
    reply = await api.get("/things", pagesize="3", after="", sort="text", format="csv")

    assert [line[0] for line in lines(reply)] == ["_id", "0", "1", "2"]
    assert "after=" in reply.headers["link"]
    assert "format=csv" in reply.headers["link"]


async def test_an_empty_list_has_only_the_columns_that_were_asked_for(api: Api) -> None:
    nothing = await api.get("/things", format="csv", filter={"_id": 99})
    named = await api.get("/things", format="csv", filter={"_id": 99}, keys={"a": 1})
    no_page = await api.get("/things", format="csv", pagesize="0")

    assert (nothing.status, nothing.text) == (200, "\r\n")
    assert (named.status, named.text) == (200, "_id,a\r\n")
    assert (no_page.status, no_page.text) == (200, "\r\n")


# --- columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"title": 1}, [["_id", "title"], ["2", "plain"]]),
        ({"title": 1, "_id": 0}, [["title"], ["plain"]]),
        ({"n": True, "_id": 1, "x": 1}, [["_id", "n", "x"], ["2", "-5", ""]]),
        ({"author": 1}, [["_id", "author"], ["2", '{"name":"Bob","age":7}']]),
        ({"author.name": 1}, [["_id", "author.name"], ["2", "Bob"]]),
        ({"author": {"age": 1}}, [["_id", "author.age"], ["2", "7"]]),
        ({"author": 0}, [["_id", "title", "n"], ["2", "plain", "-5"]]),
        ({"_id": 0, "author": 0, "n": 0}, [["title"], ["plain"]]),
        ({"_id": 1}, [["_id"], ["2"]]),
        ({"author": {"$literal": "x"}, "n": 1}, [["_id", "author", "n"], ["2", "x", "-5"]]),
    ],
)
async def test_keys_are_the_columns(api: Api, keys: Any, expected: Any) -> None:
    assert lines(await api.get("/things", format="csv", keys=keys, pagesize="1")) == expected


async def test_a_part_of_the_id_replaces_it(api: Api) -> None:
    api.things.insert_one({"_id": {"x": 1, "y": 2}, "a": 3})
    reply = await api.get("/things", format="csv", filter={"a": 3}, keys={"_id.x": 1, "a": 1})

    assert lines(reply) == [["_id.x", "a"], ["1", "3"]]


async def test_the_matching_element_of_an_array(api: Api) -> None:
    api.things.insert_one({"_id": 3, "list": [{"n": 1}, {"n": 2}]})
    filter, keys = {"list.n": 2}, {"list.$": 1}

    reply = await api.get("/things", format="csv", filter=filter, keys=keys)
    assert lines(reply) == [["_id", "list"], ["3", '[{"n":2}]']]


async def test_columns_behind_the_sample_are_in_the_last_one(api: Api) -> None:
    fill(api, MAX_SAMPLE)
    api.things.insert_one({"_id": MAX_SAMPLE, "late": {"a": 1}})
    found = lines(await api.get("/things", format="csv", sort="_id", pagesize=str(LONG)))

    assert found[0] == ["_id", "text", "_more"]
    assert found[1] == ["0", "x" * 100, ""]
    assert found[-1] == [str(MAX_SAMPLE), "", '{"late":{"a":1}}']
    assert len(found) == MAX_SAMPLE + 2


# --- aggregations ---------------------------------------------------------------------------------


async def test_an_aggregation_is_a_table(api: Api) -> None:
    reply = await api.send("GET", "/things/_aggrs/sums", headers=CSV)
    json = await api.send("GET", "/things/_aggrs/sums")

    assert lines(reply) == [["_id", "n"], ["", "2"]]
    assert reply.headers["content-disposition"] == 'attachment; filename="sums.csv"'
    assert "Accept" in json.headers.get_list("vary")
    assert json.json == [{"_id": None, "n": 2}]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/things/_aggrs/none", 404, "not-found"),
        ("/things/_aggrs/var", 400, "bad-request"),
        ("/things/_aggrs/bad", 422, "aggregation-failed"),
        ("/nothing", 404, "not-found"),
        ("/things?filter={", 400, "bad-request"),
    ],
)
async def test_errors_are_json(api: Api, path: str, status: int, code: str) -> None:
    api.things.update_many({}, {"$set": {"zero": 0}})
    reply = await api.send("GET", path, headers=CSV)

    assert reply.status == status, reply.text
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.json["http status code"] == status
    assert "content-disposition" not in reply.headers
    assert reply.json["code"] in {code, "invalid-query", "variable-not-bound"}


# --- what cannot be CSV ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/things/doc", 200),
        ("GET", "/things/_size", 200),
        ("GET", "/things/_meta", 200),
        ("GET", "/things/_indexes", 200),
        ("POST", "/things", 201),
    ],
)
async def test_everything_else_is_json(api: Api, method: str, path: str, status: int) -> None:
    api.things.insert_one({"_id": "doc"})
    for parameters in ({}, {"format": "csv"}):
        body: Any = {} if method == "POST" else None
        reply = await api.send(method, path, body, headers=CSV, **parameters)

        assert reply.status == status, reply.text
        assert "csv" not in reply.headers.get("content-type", "")


# --- long lists -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_parts")
async def test_a_long_list_is_sent_while_it_is_read(api: Api) -> None:
    fill(api, LONG)
    reply = await api.get("/things", format="csv", sort="_id", pagesize=str(LONG + 1))
    json = await api.get("/things", sort="_id", pagesize=str(LONG + 1))

    assert reply.headers["transfer-encoding"] == "chunked"
    found = lines(reply)
    assert found[0] == ["_id", "text", "_more"]
    assert [line[0] for line in found[1:]] == [str(one["_id"]) for one in json.json]
    assert "page=2" in reply.headers["link"]
    last = await api.send("GET", reply.headers["link"].split(";")[0].strip("<>"))
    assert (last.status, last.text) == (200, "\r\n")
    assert "link" not in last.headers


async def test_parts_of_a_long_list_are_the_whole(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(api, LONG)
    at_once = await api.get("/things", format="csv", sort="_id", pagesize=str(LONG))
    monkeypatch.setattr(portions, "LARGE", 10_000)
    monkeypatch.setattr(portions, "PORTION", 20_000)
    in_parts = await api.get("/things", format="csv", sort="_id", pagesize=str(LONG))
    keyset = await api.get("/things", format="csv", sort="_id", pagesize=str(LONG), after="")

    assert in_parts.text == at_once.text == keyset.text
    assert "content-length" in keyset.headers


async def test_head_of_a_long_list_reads_no_further(api: Api, mongo_client: Mongo) -> None:
    fill(api, LONG)
    head = await api.send("HEAD", "/things", headers=CSV, pagesize=str(LONG))

    assert (head.status, head.text) == (200, "")
    assert head.headers["content-type"] == TYPE
    assert idle_cursors(mongo_client, f"{api.db}.things") == []


async def test_a_client_of_http_1_0_gets_the_list_whole(api: Api) -> None:
    fill(api, LONG)
    request = build_request("GET", f"/things?format=csv&pagesize={LONG}")

    async def ask() -> Response:
        return await connect(api).ask(request.replace(b"HTTP/1.1", b"HTTP/1.0"))

    reply = await api.service.there(ask())
    assert reply["content-length"] == str(len(reply.body))
    assert reply.body.count(b"\r\n") == LONG + 1
    assert "page=2" in (reply["link"] or "")


async def test_a_client_that_leaves_ends_the_read(api: Api, mongo_client: Mongo) -> None:
    api.things.delete_many({})
    api.things.insert_many({"_id": n, "text": "x" * 9_000} for n in range(2 * MAX_SAMPLE))

    async def leave() -> list[Any]:
        peer = connect(api)
        peer.send(build_request("GET", f"/things?format=csv&pagesize={LONG}"))
        await eventually(lambda: b"\r\n_id,text,_more\r\n" in peer.transport.output)
        peer.leave()
        await eventually(lambda: finished)
        return [one for one in asyncio.all_tasks() if one.get_name() == "csv"]

    with listening(RequestFinished) as finished:
        assert await api.service.there(leave()) == []
    assert finished[0].aborted
    await eventually(lambda: not idle_cursors(mongo_client, f"{api.db}.things"))


@pytest.mark.parametrize("accept", ["text/csv", "application/json"])
async def test_a_cursor_never_has_the_time_limit_of_a_trial(api: Api, accept: str) -> None:
    """The database applies the limit of `find` to all that its cursor returns."""
    fill(api, 2 * MAX_SAMPLE, large="x" * 10_000)
    database = api.mongo[api.db]
    database.command("profile", 2)
    try:
        shape = {f"none-{accept}": None}  # unknown: the first read of it is a trial
        reply = await api.send(
            "GET", "/things", headers={"accept": accept}, pagesize=str(LONG), filter=shape
        )
    finally:
        database.command("profile", 0)
    entries = list(database["system.profile"].find({"op": "getmore"}))
    database.drop_collection("system.profile")

    assert reply.status == 200
    assert entries
    limits = [one["originatingCommand"].get("maxTimeMS", 300_000) for one in entries]
    assert min(limits) > 10_000


async def test_a_list_that_is_too_large_is_an_error(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(api, 500)
    monkeypatch.setattr(rest_call, "MAX_BYTES", 10_000)
    reply = await api.get("/things", format="csv", pagesize="500")

    assert (reply.status, reply.json["code"]) == (400, "answer-too-large")


async def cut(api: Api, path: str, **parameters: Any) -> str:
    """The error in the log of a response that ends before its last chunk."""
    with listening(RequestFinished) as finished, pytest.raises(httpx2.RemoteProtocolError):
        await api.get(path, format="csv", **parameters)
    ((status, error),) = [(one.status, one.error) for one in finished if one.error]
    assert status == 200
    return error


@pytest.mark.usefixtures("in_parts")
async def test_a_list_that_becomes_too_large_ends_without_its_last_chunk(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(api, LONG)
    monkeypatch.setattr(rest_call, "MAX_BYTES", 2 * MAX_SAMPLE * 100)

    assert await cut(api, "/things", pagesize=str(LONG)) == "answer-too-large"


@pytest.mark.usefixtures("in_parts")
async def test_an_aggregation_with_too_many_results_ends_without_its_last_chunk(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(api, LONG)
    monkeypatch.setattr(aggregations, "MAX_RESULTS", LONG - 1)

    assert await cut(api, "/things/_aggrs/all") == "aggregation-failed"


async def test_an_error_before_the_first_byte_is_json_also_of_a_long_list(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(api, LONG)
    monkeypatch.setattr(portions, "LARGE", 1 << 30)
    monkeypatch.setattr(aggregations, "MAX_RESULTS", LONG - 1)
    reply = await api.get("/things/_aggrs/all", format="csv")

    assert (reply.status, reply.json["code"]) == (422, "aggregation-failed")


async def test_a_list_that_the_database_breaks_off_ends_without_its_last_chunk(
    api: Api, mongo_client: Mongo
) -> None:
    api.things.delete_many({})
    api.things.insert_many({"_id": n, "text": "x" * 9_000} for n in range(2 * MAX_SAMPLE))

    with failing(mongo_client, "getMore", errorCode=8):
        assert await cut(api, "/things", pagesize=str(LONG)) == "database-error"


async def test_memory_is_returned_however_a_list_ends(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.things.delete_many({})
    api.things.insert_many({"_id": n, "text": "x" * 2_000} for n in range(LONG))
    memory = api.service.app._pipeline._deadlines._memory
    held: list[int] = []

    async def render(self: CsvExport) -> bytes:
        held.append(memory.held)
        return await chunk(self)

    chunk = CsvExport.__anext__
    monkeypatch.setattr(CsvExport, "__anext__", render)
    whole = await api.get("/things", format="csv", pagesize=str(LONG))
    await api.send("HEAD", "/things", headers=CSV, pagesize=str(LONG))
    monkeypatch.setattr(rest_call, "MAX_BYTES", 2 * MAX_SAMPLE * 2_000)
    await cut(api, "/things", pagesize=str(LONG))

    assert len(lines(whole)) == LONG + 1
    assert max(held) > LONG * 2_000  # while they are built
    await eventually(lambda: memory.held == 0)


async def test_an_aggregation_in_parts(api: Api) -> None:
    fill(api, LONG)
    found = lines(await api.get("/things/_aggrs/all", format="csv"))

    assert [line[0] for line in found[1:]] == [str(n) for n in range(LONG)]


# --- what a caller may not see --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ({"title": 0, "author": 0}, ["_id", "tags"]),
        ({"tags": 1, "_id": 1}, ["_id", "tags"]),
    ],
)
async def test_what_a_rule_hides_is_no_column(
    mongo_client: Any, mongo_uri: str, shown: Any, expected: list[str]
) -> None:
    async with guarded(mongo_client, mongo_uri) as service:
        service.insert("things", {"_id": 1, "title": "a", "author": {"name": "Ada"}, "tags": []})
        rule = {"projectResponse": shown}
        await allow(service, "path-prefix('/things')", "user", mongo=rule)
        keys = quote('{"title":1,"author.name":1,"tags":1}')
        for path in ("/things?format=csv", f"/things?format=csv&keys={keys}"):
            reply = await service.request("GET", path, headers=ADA)

            assert lines(reply) == [expected, ["1", "[]"]]


async def test_passwords_are_no_column(mongo_client: Any, mongo_uri: str) -> None:
    async with guarded(mongo_client, mongo_uri) as service:
        for method, path, body in (
            ("PUT", "/users", {}),
            ("POST", "/users", {"_id": "ada", "password": "secret-0815", "roles": []}),
        ):
            await service.request(method, path, json=body, headers=ADMIN)
        reply = await service.request("GET", "/users?format=csv", headers=ADMIN)
        keys = quote('{"password":1}')
        named = await service.request("GET", f"/users?format=csv&keys={keys}", headers=ADMIN)

        assert lines(reply)[0] == ["_id", "roles", "_etag"]
        assert (named.status, "password" in named.text) == (403, False)
