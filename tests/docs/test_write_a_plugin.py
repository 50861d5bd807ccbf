"""`docs/how-to/write-a-plugin.md`: what it says of kinds and values holds, its examples work."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import httpx2
import pytest

import docgraph
from docgraph import DataInterceptor, DataPoint, Exchange, Kind, Plugin, Request
from docgraph.exchange import errors
from docgraph.plugins import kinds
from docgraph.plugins.check import is_async, methods_of
from tests.http.harness import Mongo, Reply, Service, eventually, running
from tests.http.hosts import module_application
from tests.process.commands import run

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-plugin.md"
POINT = re.compile(r"^\| `(?P<point>[a-z-]+)` \| `(?P<method>\w+)\((?P<parameters>.*)\)` \|", re.M)
METHOD = re.compile(
    r"^\| `(?P<name>\w+)\((?P<parameters>.*?)\)` \| `(?P<colour>async|def)` \|", re.M
)
KINDS = [
    getattr(kinds, name)
    for name in kinds.__all__
    if Plugin in getattr(getattr(kinds, name), "__mro__", ())[1:]
]


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def section(title: str) -> str:
    """What stands below a heading, up to the next one."""
    found = re.search(rf"^(##+) {title}$\n(.*?)(?=^##|\Z)", page(), re.M | re.S)
    assert found is not None, title
    return found[2]


def cells(text: str, header: str) -> set[str]:
    """The names in code in the first column of the table with that header."""
    found = re.search(rf"^\| {header} \|.*?\n((?:\|.*\n)+)", text, re.M)
    assert found is not None, header
    first = [row.split("|")[1] for row in found[1].splitlines()]
    return {name for cell in first for name in re.findall(r"`(\w+)(?:\(\))?`", cell)}


# --- the tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_every_kind_has_its_methods_with_their_parameters(kind: type[Any]) -> None:
    text = section(kind.__name__)
    declared = {
        name: (", ".join(list(inspect.signature(method).parameters)[1:]), is_async(method))
        for name, method in vars(kind).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }
    if kind is DataInterceptor:  # its points have a table of their own
        declared = {}

    shown = {
        row["name"]: (row["parameters"], row["colour"] == "async") for row in METHOD.finditer(text)
    }

    assert shown == declared


async def test_the_methods_of_all_kinds_are_shown() -> None:
    common = set(vars(Plugin)) & set(methods_of(Kind.COMMAND))
    assert {row["name"] for row in METHOD.finditer(section("Life cycle"))} == common


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_every_kind_has_its_attributes(kind: type[Any]) -> None:
    declared = set(inspect.get_annotations(kind)) - {"kind", "security", "Config"}

    text = section(kind.__name__)

    assert (cells(text, "attribute") if declared else set()) == declared
    assert ("security plugin" in text) is kind.security


async def test_every_point_is_named_with_its_method_and_parameters() -> None:
    rows = {
        row["point"]: (row["method"], row["parameters"])
        for row in POINT.finditer(section("DataInterceptor"))
    }

    assert set(rows) == set(DataPoint)
    for method, parameters in rows.values():
        signature = inspect.signature(getattr(DataInterceptor, method))
        assert ["self", *parameters.split(", ")] == list(signature.parameters)


@pytest.mark.parametrize(
    "name", ["Exchange", "Account", "DataRequest", "Resource", "Read", "Write", "WriteResult"]
)
async def test_every_field_of_a_value_is_shown(name: str) -> None:
    value = getattr(docgraph, name)
    declared = {field.name for field in fields(value)}
    if value is Exchange:
        declared.add("roles")

    assert cells(section(name), "field") == declared


async def test_every_field_of_a_request_is_shown() -> None:
    request = {name for name in dir(Request("GET", b"/")) if not name.startswith("_")}

    assert cells(section("Request"), "field") == request - {"getContent", "parseContent"}


async def test_every_kind_of_answer_is_shown_with_its_fields() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (`.*) \|$", section("What you answer"), re.M))

    assert {getattr(docgraph, name) for name in rows} == set(docgraph.Answer.__args__)
    for name, text in rows.items():
        shown = re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", text))
        assert set(shown) == {field.name for field in fields(getattr(docgraph, name))}


# --- what can be imported -------------------------------------------------------------------------


async def test_the_kinds_and_the_words_they_speak_can_be_imported_from_docgraph() -> None:
    spoken = re.findall(
        r"^from docgraph\.exchange import \((.*?)\)", inspect.getsource(kinds), re.M | re.S
    )
    words = re.findall(r"\w+", " ".join(spoken))

    assert {"Document", "Write"} <= set(words)
    assert {*kinds.__all__, *words, "WriteKind", "ResourceType"} <= set(docgraph.__all__)


async def test_every_error_that_a_caller_may_see_can_be_imported_and_is_shown() -> None:
    family = {
        name: one
        for name, one in vars(errors).items()
        if isinstance(one, type) and issubclass(one, docgraph.DocgraphError)
    }
    text = section("Errors")

    assert set(family) <= set(docgraph.__all__)
    assert set(family) <= set(re.findall(r"`(\w+)`", text))
    for names, status in re.findall(r"\| (`[^|]*`) \| (\d{3}) ", text):
        for name in re.findall(r"\w+", names):
            assert family[name].status == int(status)


async def test_the_types_of_what_plugins_get_can_be_imported_from_docgraph() -> None:
    for name in ("Exchange", "Read", "Write", "WriteResult", "DataRequest"):
        for hint in get_type_hints(getattr(docgraph, name)).values():
            for part in (hint, *getattr(hint, "__args__", ())):
                if getattr(part, "__module__", "").startswith("docgraph"):
                    assert part.__name__ in docgraph.__all__


# --- the examples, on a server --------------------------------------------------------------------


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples of the page, each in a file of its own, in a directory of plugins."""
    directory = tmp_path_factory.mktemp("plugins")
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", page(), re.M | re.S)):
        (directory / f"example_{number}.py").write_text(code, encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def shop(mongo_client: Mongo) -> Iterator[Mongo]:
    """The database of the examples."""
    mongo_client.drop_database("shop")
    yield mongo_client
    mongo_client.drop_database("shop")


@module_application
async def server(
    shop: Mongo, mongo_uri: str, directory: Path, preloaded: None
) -> AsyncIterator[Service]:
    """With all examples; what commands are started from is there before, and stays after it."""
    settings = {
        "core": {"plugins-directory": str(directory)},
        "mongo": {"mongo-mounts": [{"what": "*", "where": "/"}]},
        "basicAuthMechanism": {"authenticator": "partners"},
        "rndTokenManager": {"enabled": False},
        "apiKey": {"secret": "open sesame"},
        "shelf": {"capacity": 1},
    }
    async with running(shop, mongo_uri, settings) as service:
        await service.request("PUT", "/shop")
        await service.request("PUT", "/shop/orders")
        yield service


async def ask(server: Service, path: str, **options: Any) -> Reply:
    return await server.request(options.pop("method", "GET"), path, **options)


async def test_every_kind_has_an_example(server: Service) -> None:
    shown = {
        one.kind
        for one in server.app.plugins.plugins
        if type(one).__module__.startswith("docgraph_p")
    }
    assert shown == set(Kind)


async def test_the_service_keeps_and_gives_and_refuses(server: Service) -> None:
    assert (await ask(server, "/shelf/a", method="PUT", json={"b": 1})).status == 201
    assert (await ask(server, "/shelf/a")).json == {"b": 1}
    missing = await ask(server, "/shelf/c")
    assert (missing.status, missing.json["message"]) == (404, "nothing is called 'c'")
    full = await ask(server, "/shelf/c", method="PUT", json=1)
    assert (full.status, full.json["hint"]) == (409, "raise /shelf/capacity")


async def test_the_interceptors_turn_away_and_measure(server: Service) -> None:
    turned = await ask(server, "/shelf/x", method="PUT", headers={"x-closed": "yes"})
    assert (turned.status, turned.text) == (503, "closed for today")
    assert float((await ask(server, "/ping")).headers["x-milliseconds"]) >= 0


async def test_the_data_interceptor_stamps_and_hides_and_the_vetoer_keeps(
    server: Service, shop: Mongo
) -> None:
    posted = await ask(server, "/shop/orders", method="POST", json={"_id": "1", "customer": "acme"})
    assert posted.status == 201
    assert set(shop["shop"]["orders"].find_one({"_id": "1"}) or {}) >= {
        "_id",
        "customer",
        "received",
    }
    assert "received" not in (await ask(server, "/shop/orders/1")).json
    assert (await ask(server, "/shop/orders/1", method="DELETE")).status == 403


async def test_the_mechanism_knows_its_key(server: Service) -> None:
    known = await ask(server, "/whoami", headers={"x-api-key": "open sesame"})
    assert known.json == {
        "name": "machine",
        "roles": ["machine"],
        "kind": "api-key",
        "properties": {"via": "key"},
    }
    assert (await ask(server, "/whoami", headers={"x-api-key": "wrong"})).json is None


async def test_the_authenticator_and_the_token_manager_know_their_users(server: Service) -> None:
    basic = httpx2.BasicAuth
    known = await ask(server, "/whoami", auth=basic("acme", "secret"))
    assert known.json["roles"] == ["partner"]
    assert (await ask(server, "/whoami", auth=basic("acme", "wrong"))).status == 401
    token = known.headers["auth-token"]
    assert (await ask(server, "/whoami", auth=basic("acme", token))).json["name"] == "acme"
    ended = await ask(server, "/tokens/acme", method="DELETE", auth=basic("acme", token))
    assert ended.status == 204
    assert (await ask(server, "/whoami", auth=basic("acme", token))).status == 401


async def test_the_initializer_has_made_its_index(server: Service, shop: Mongo) -> None:
    await eventually(lambda: "by_customer" in shop["shop"]["orders"].index_information())


async def test_the_provider_reaches_the_service(server: Service) -> None:
    assert (await ask(server, "/price/tea")).text == "3"


async def test_every_ready_made_provider_is_shown_with_methods_that_it_has(
    server: Service,
) -> None:
    rows = re.findall(r"^\| (`[a-z-]+`)? ?\| (.*?) \|", section("Ready-made providers"), re.M)
    values, shown, provider = server.app.plugins.values, set(), ""
    for named, methods in rows:
        provider = named.strip("`") or provider
        shown.add(provider)
        for is_async_method, method, parameters in re.findall(
            r"`(await )?(\w+)\((.*?)\)`", methods
        ):
            found = getattr(values[provider], method)
            assert inspect.iscoroutinefunction(found) == bool(is_async_method), method
            wanted = parameters.split(", ") if parameters else []
            assert set(wanted) <= set(inspect.signature(found).parameters), method

    assert shown == values.keys() - {"price-list"}


async def test_the_providers_give_what_the_page_says(server: Service) -> None:
    await server.define("desks", "type Query { things: [String] }")
    before = (await ask(server, "/desk/desks")).json
    assert before == {
        **before,
        "app": True,
        "ping": "ping",
        "revoked": False,
        "streams": True,
        "files": before["files"],
        "limit": 1000,
        "root": "admin",
        "key": 32,
    }
    assert before["bound"]["database"] == ["_id"]
    assert (before["services"] > 5, before["orders"] >= before["estimated"] > -1) == (True, True)
    for path in ("/desk/desks", "/desk"):
        assert (await ask(server, path, method="DELETE")).status == 204
    after = (await ask(server, "/desk/desks")).json
    assert after["app"] is True
    assert after["apps"] - before["apps"] >= 2  # the change stream may count the definition, too
    assert (await ask(server, "/desk/none")).json["app"] is False
    vetoed = await ask(server, "/desk", headers={"x-desk-closed": "yes"})
    assert vetoed.status == 403


async def test_the_variable_is_known_in_mappings(server: Service) -> None:
    server.insert("things", {"_id": 1, "tenant": "north"}, {"_id": 2, "tenant": "south"})
    await server.define(
        "tenants",
        "type Query { things: [Thing] } type Thing { _id: Int }",
        {"Query": {"things": server.find("things", {"tenant": {"$arg": "@tenant"}})}},
    )
    reply = await server.query("tenants", "{ things { _id } }", headers={"host": "south.test"})
    assert reply.data == {"things": [{"_id": 2}]}


def test_the_command_counts_and_is_in_the_help(
    shop: Mongo, mongo_uri: str, directory: Path, tmp_path: Path, preloaded: None
) -> None:
    shop["shop"]["orders"].insert_one({"customer": "cli"})
    (tmp_path / "docgraph.yml").write_text(
        f"core: {{plugins-directory: '{directory}'}}\n"
        f"mclient: {{connection-string: '{mongo_uri}'}}\n"
        "rndTokenManager: {enabled: false}\n"
    )
    environment = {"DOCGRAPH_CONFIG": str(tmp_path / "docgraph.yml")}

    counted = run("count-orders", "cli", environment=environment)
    helped = run("--help", environment=environment)

    assert counted.stdout == "1\n", counted.stderr
    assert re.search(r"count-orders +Count the orders", helped.stdout)
