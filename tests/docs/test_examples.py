"""Every example, and every snippet of README and tutorial, does what is said beside it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from docgraph.cli.apps.sources import find_definitions
from docgraph.cli.demo import INDEXES
from docgraph.cli.demo.data import build_blog
from docgraph.codec import decode
from docgraph.config.config_node import Origin, to_plain
from docgraph.config.parse import parse_yaml
from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.definition.scalars import BSON_SCALARS
from docgraph.graphql.sections import Graphql
from docgraph_workbench.infer.infer import infer
from docgraph_workbench.infer.survey import SurveyScope
from tests.http.harness import Mongo, Reply, Service, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
DEFINITIONS = sorted(EXAMPLES.glob("*/app.json"))
IN_FILES = {
    found.document["_id"]: found.document
    for found in find_definitions(
        [
            EXAMPLES / name
            for name in (
                "shop/app.yml",
                "inferred/app",
                "paging/app",
                "persisted/app",
                "connections/app",
            )
        ]
    ).definitions
}
# What @apollo/client 4.3 and relay-compiler 21.0 make of the queries in persisted/clients
APOLLO = "6f273f047e9f6532468514821e39a4fd716161cb49891cdebd564f373748af56"
RELAY = "61f0bce4e7cf33e70b8d4f24f517b29746216f0feca3ece373fcaae5421b9d27"
TWO = {"variables": {"limit": 2}}
QUERIES = sorted(EXAMPLES.glob("*/queries/*.graphql"))


def name_of(path: Path) -> str:
    return str(path.relative_to(EXAMPLES))


def fenced(page: str, language: str) -> list[str]:
    """The code of a page in that language."""
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    """A server with the data and the apps of all examples, in a database of this module."""
    async with running(mongo_client, mongo_uri) as service:
        for example in ("movies", "shop"):
            load_documents(service, example)
        for name, documents in build_blog().items():
            service.insert(name, *documents)
        for name, indexes in INDEXES.items():
            for keys in indexes:
                service.mongo[service.db][name].create_index(list(keys.items()))
        for path in DEFINITIONS:
            await service.store(adapt(path.read_text(), service.db))
        for definition in IN_FILES.values():
            await service.store(adapt(json.dumps(definition), service.db))
        yield service


def load_documents(service: Service, example: str) -> None:
    for file in sorted((EXAMPLES / example / "documents").glob("*.json")):
        service.insert(file.stem, *decode(file.read_bytes()))


def adapt(text: str, db: str) -> Any:
    """A definition on the database of the test instead of the default one."""
    return decode(text.replace('"db": "docgraph"', f'"db": "{db}"'))


# --- examples -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", DEFINITIONS, ids=name_of)
async def test_the_definition_of_an_example_has_neither_errors_nor_warnings(path: Path) -> None:
    report = check_definition(decode(path.read_bytes()), settings=Graphql())

    assert (report.errors, report.warnings) == ((), ())


@pytest.mark.parametrize("name", ["inferred", "paging", "persisted", "connections", "customers"])
async def test_an_example_in_files_has_neither_errors_nor_warnings(name: str) -> None:
    report = check_definition(IN_FILES[name], settings=Graphql())

    assert (report.errors, report.warnings) == ((), ())


async def test_the_inferred_example_is_what_is_inferred_from_the_demo(service: Service) -> None:
    scope = SurveyScope(service.db, ("authors", "posts", "comments"), 5000)

    found = await service.there(infer(service.app.store, scope))

    assert found.schema == IN_FILES["inferred"]["schema"]
    assert found.mappings == adapt(json.dumps(IN_FILES["inferred"]["mappings"]), service.db)


@pytest.mark.parametrize("path", QUERIES, ids=name_of)
async def test_a_query_of_an_example_gives_the_answer_beside_it(
    service: Service, path: Path
) -> None:
    example = path.parents[1].name
    uri = {"movies": "v1/movies", "shop": "customers"}.get(example, example)

    reply = await service.send(uri, path.read_text(), "application/graphql")

    assert reply.json == json.loads(path.with_suffix(".json").read_text())


@pytest.mark.parametrize("example", sorted({path.parents[1] for path in QUERIES}), ids=name_of)
async def test_the_readme_of_an_example_links_every_query(example: Path) -> None:
    text = (example / "README.md").read_text()

    linked = set(re.findall(r"\(queries/([\w.]+)\)", text))

    assert linked == {path.name for path in (example / "queries").glob("*.graphql")}
    for path in (example / "queries").glob("*.graphql"):
        assert path.with_suffix(".json").is_file()


@pytest.mark.parametrize(
    "body",
    [
        {"operation": "byTag", "variables": {"tag": "indexes", "limit": 2}},
        {"extensions": {"persistedQuery": {"version": 1, "sha256Hash": APOLLO}}, **TWO},
        {"documentId": RELAY, **TWO},
    ],
    ids=["name", "Apollo", "Relay"],
)
async def test_the_stored_operations_of_an_example_run(service: Service, body: Any) -> None:
    reply = await service.send("persisted", json.dumps(body), "application/json")
    assert len(reply.data["posts"]) == 2


async def test_the_script_of_an_example_collects_operations_of_both_compilers(
    tmp_path: Path,
) -> None:
    apollo = {
        "format": "apollo-persisted-query-manifest",
        "operations": [{"body": "query A { a }"}],
    }
    (tmp_path / "manifest.json").write_text(json.dumps(apollo))
    script, relay = EXAMPLES / "persisted/collect.py", EXAMPLES / "persisted/clients/persisted.json"
    command = [sys.executable, str(script), str(tmp_path / "manifest.json"), str(relay)]
    printed = await asyncio.to_thread(subprocess.check_output, command, text=True)
    operations = parse_yaml(f"descriptor:\n{printed}", lambda line, column: Origin("", 0, 0)).node
    stored = IN_FILES["persisted"]["descriptor"]["operations"]
    assert operations is not None
    found = to_plain(operations)["descriptor"]["operations"]
    assert found[0] == {"name": "A", "query": "query A { a }"}
    assert found[1]["query"] == stored[2]["query"]


# --- README and tutorial --------------------------------------------------------------------------


async def test_the_query_of_the_readme_gives_the_answer_below_it(service: Service) -> None:
    definition, answer = fenced("README.md", "json")
    (command,) = [text for text in fenced("README.md", "sh") if "/graphql/writers" in text]
    await service.store(adapt(definition, service.db))

    reply = await ask_as(command, service)

    assert reply.json == json.loads(answer)


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial/first-app.md"])
async def test_the_curl_commands_of_a_page_work(service: Service, page: str) -> None:
    for definition in (fenced(page, "json")[0], *fenced("docs/tutorial/first-app.md", "json")):
        await service.store(adapt(definition, service.db))
    commands = [text for text in fenced(page, "sh") if "curl" in text]
    assert commands
    for command in commands:
        reply = await ask_as(command, service)
        assert any(reply.data.values()), command


async def ask_as(command: str, service: Service) -> Reply:
    """Send what a curl command of a page would send."""
    found = re.search(r"(/graphql/\w+).*-d '(.*)'", command, re.DOTALL)
    assert found is not None, command
    path, body = found.groups()
    headers = {"content-type": "application/json"}
    return await service.request("POST", path, content=body, headers=headers)


async def test_the_mistake_of_the_tutorial_is_found_with_its_place() -> None:
    (definition,) = fenced("docs/tutorial/first-app.md", "json")
    mistaken = definition.replace('"$arg": "tag"', '"$arg": "tagg"')

    report = check_definition(decode(mistaken), settings=Graphql())

    places = [one.where for one in (*report.errors, *report.warnings)]
    assert any(place.startswith("mappings.Query.tagged.find.tags") for place in places)


async def test_the_explain_command_of_the_tutorial_fits_its_app(service: Service) -> None:
    (command,) = [text for text in fenced("docs/tutorial/first-app.md", "sh") if "explain" in text]
    found = re.search(r"explain (\w+) '(.*)'", command)
    assert found is not None
    app, query = found.groups()
    for definition in fenced("docs/tutorial/first-app.md", "json"):
        await service.store(adapt(definition, service.db))

    assert (await service.query(app, query)).status == 200


# --- clients --------------------------------------------------------------------------------------

CLIENTS = "docs/how-to/clients.md"


@pytest.mark.parametrize(
    ("language", "count"), [("js", 2), ("ts", 1), ("python", 1)], ids=["js", "ts", "python"]
)
async def test_the_queries_of_clients_give_data(
    service: Service, language: str, count: int
) -> None:
    queries = re.findall(r"^ +query \w+.*?^ +}$", "".join(fenced(CLIENTS, language)), re.M | re.S)

    assert len(queries) == count
    for query in queries:
        reply = await service.query("blog", query, {"limit": 2})
        assert len(reply.data["posts"]) == 2


@pytest.mark.parametrize("page", [CLIENTS, "docs/tutorial/your-own-data.md"])
async def test_a_generator_of_types_is_told_of_every_scalar(page: str) -> None:
    (scalars,) = re.findall(r"scalars: {(.*?)}", "".join(fenced(page, "ts")), re.DOTALL)

    assert set(re.findall(r"(\w+):", scalars)) == set(BSON_SCALARS)


# --- links ----------------------------------------------------------------------------------------


PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
async def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())

    assert [target for target in targets if not (page.parent / target).exists()] == []


async def test_every_page_is_linked_from_the_list_of_pages() -> None:
    index = ROOT / "docs/README.md"
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)", index.read_text())

    found = {(index.parent / target).resolve() for target in linked}

    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")}
    examples = {page for page in PAGES if page.is_relative_to(EXAMPLES)}
    assert (pages | examples) - found - {index} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
async def test_links_to_headings_lead_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?<!\.png)#([^)]+)\)", without_code(page))
    aims = [((page.parent / path) if path else page, anchor) for path, anchor in links]

    assert [str(aim) for aim, anchor in aims if anchor not in anchors_of(aim)] == []


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    """The anchors of headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings}
