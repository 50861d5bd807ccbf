"""The tutorial on one's own data: its files and rules, and who gets which of the answers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.sections import Graphql
from tests.databases import new_name
from tests.docs.test_examples import fenced
from tests.http.harness import Mongo, Reply, Service, running
from tests.http.hosts import module_application
from tests.programs import run_program

pytestmark = pytest.mark.anyio

PAGE = "docs/tutorial/your-own-data.md"
SETTINGS, MAPPINGS, APP = map(yaml.safe_load, fenced(PAGE, "yaml"))
(SCHEMA, *_), (FILL, *_) = fenced(PAGE, "graphql"), fenced(PAGE, "python")
ANSWER = json.loads(fenced(PAGE, "json")[0])
(QUERY,) = [
    json.loads(re.findall(r"-d '(.*)'", text)[0])["query"]
    for text in fenced(PAGE, "sh")
    if "curl" in text
]
PEOPLE = {
    "fileRealmAuthenticator": {
        "enabled": True,
        "users": [
            {"userid": name, "password": "secret", "roles": [role]}
            for name, role in re.findall(
                r"users add (\w+) --role (\w+)", "".join(fenced(PAGE, "sh"))
            )
        ],
    },
    "basicAuthMechanism": {"authenticator": "fileRealmAuthenticator"},
    "fullAuthorizer": {"enabled": False},
}


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    db = new_name()
    rules = json.loads(
        json.dumps(SETTINGS["fileAclAuthorizer"]).replace("shop.customers", f"{db}.customers")
    )
    own = {"fileAclAuthorizer": rules, "graphql": {**SETTINGS["graphql"], "db": db}}
    async with running(mongo_client, mongo_uri, own, PEOPLE, db=db) as service:
        await fill(mongo_uri, db)
        definition = {**APP, "schema": SCHEMA, "mappings": MAPPINGS}
        await service.store(
            json.loads(json.dumps(definition).replace('"db": "shop"', f'"db": "{db}"'))
        )
        yield service


async def fill(uri: str, db: str) -> None:
    """Run the program of the page that makes the data."""
    program = FILL.replace('client["shop"]', f'client["{db}"]')
    done = await run_program(sys.executable, "-c", program, uri)
    assert done.returncode == 0, done.stderr


async def ask(service: Service, query: str, user: str | None) -> Reply:
    auth: Any = None if user is None else (user, "secret")
    return await service.request("POST", "/graphql/shop", json={"query": query}, auth=auth)


async def test_the_definition_has_neither_errors_nor_warnings() -> None:
    definition = {**APP, "schema": SCHEMA, "mappings": MAPPINGS}

    report = check_definition(definition, settings=Graphql())

    assert (report.errors, report.warnings) == ((), ())


async def test_sales_get_the_answer_of_the_page_without_archived_rows(service: Service) -> None:
    assert (await ask(service, QUERY, "sam")).json == ANSWER


async def test_managers_get_all_rows(service: Service) -> None:
    reply = await ask(service, QUERY, "mara")

    names = [one["name"] for one in reply.data["customers"]]
    assert names == [*(one["name"] for one in ANSWER["data"]["customers"]), "Kim"]


async def test_a_hidden_field_is_there_for_managers_only(service: Service) -> None:
    query = "{ customers(limit: 1) { email } }"

    assert (await ask(service, query, "mara")).data == {
        "customers": [{"email": "ines@example.org"}]
    }
    assert (await ask(service, query, "sam")).code == "invalid-query"


async def test_nobody_else_gets_in(service: Service) -> None:
    assert (await ask(service, QUERY, None)).status == 401


async def test_the_query_of_the_typed_client_gives_its_answer(service: Service) -> None:
    (query,) = re.findall(r"graphql\(`\n(.*?)`\)", "".join(fenced(PAGE, "ts")), re.DOTALL)

    reply = await ask(service, query, "sam")

    assert [one["total"] for one in reply.data["customers"][0]["orders"]] == ["5.00", "19.90"]
