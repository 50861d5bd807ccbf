"""How-to pages with documents, a definition, and queries with their answers."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
import yaml

from docgraph.codec import decode
from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.sections import Graphql
from tests.databases import new_name
from tests.docs.test_examples import ROOT, adapt
from tests.http.harness import Mongo, Service, running

pytestmark = pytest.mark.anyio

PAGES = [f"docs/how-to/{name}.md" for name in ("filter", "joins", "recipes", "search")]
GUARDED = [f"docs/how-to/{name}.md" for name in ("anonymous-read", "multi-tenancy")]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDEX = re.compile(r"db\.(\w+)\.createIndex\((\{.*?\})\)")
# A query below a line such as "As `ada`:" is sent by that user.
CALLER = re.compile(r"^As `(\w+)`", re.MULTILINE)


def read_blocks(page: str) -> tuple[Any, str, list[tuple[str | None, str, Any]]]:
    """Return the documents, the definition, and each query with its caller and its answer."""
    text = (ROOT / page).read_text()
    found = [(match.start(), match[1], match[2]) for match in BLOCK.finditer(text)]
    documents, definition = [code for _, language, code in found if language == "json"][:2]
    exchanges = []
    for (at, language, query), (_, _, answer) in pairwise(found):
        if language == "graphql":
            section = text[text.rindex("\n#", 0, at) : at]
            callers = CALLER.findall(section[section.rfind("\n```\n") + 1 :])
            exchanges.append((callers[-1] if callers else None, query, json.loads(answer)))
    return decode(documents), definition, exchanges


async def prepare(service: Service, page: str) -> list[tuple[str | None, str, Any]]:
    documents, definition, exchanges = read_blocks(page)
    for collection, found in documents.items():
        service.insert(collection, *found)
    for collection, keys in INDEX.findall((ROOT / page).read_text()):
        service.mongo[service.db][collection].create_index(list(yaml.safe_load(keys).items()))
    report = check_definition(adapt(definition, service.db), settings=Graphql())
    assert (report.errors, report.warnings) == ((), ())
    await service.store(adapt(definition, service.db))
    assert exchanges
    return exchanges


@pytest.mark.parametrize("page", PAGES)
async def test_the_queries_of_a_page_have_the_answers_below_them(
    mongo_client: Mongo, mongo_uri: str, page: str
) -> None:
    app = json.loads(read_blocks(page)[1])["_id"]
    async with running(mongo_client, mongo_uri) as service:
        for _, query, answer in await prepare(service, page):
            assert (await service.query(app, query)).json == answer, query


@pytest.mark.parametrize("page", GUARDED)
async def test_each_caller_of_a_page_gets_the_answer_below_the_query(
    mongo_client: Mongo, mongo_uri: str, page: str
) -> None:
    db = new_name()
    (settings,) = [
        code for name, code in BLOCK.findall((ROOT / page).read_text()) if name == "yaml"
    ]
    own = yaml.safe_load(settings.replace("docgraph.", f"{db}."))
    app = json.loads(read_blocks(page)[1])["_id"]
    users = {"fullAuthorizer": {"enabled": False}}
    async with running(mongo_client, mongo_uri, own, users, db=db) as service:
        for caller, query, answer in await prepare(service, page):
            auth: Any = None if caller is None else (caller, "a secret of the page")
            reply = await service.request(
                "POST", f"/graphql/{app}", json={"query": query}, auth=auth
            )
            assert reply.json == answer, (caller, query)
