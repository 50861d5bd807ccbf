"""`examples/paging`: pages with a total and a keyset cursor, one command each."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId

from docgraph.cli.apps.sources import find_definitions
from docgraph.observe.engine_events import CommandFinished
from tests.http.harness import Document, Mongo, Service, listening, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[3] / "examples" / "paging" / "app"
(DEFINITION,) = find_definitions([EXAMPLE]).definitions
START = datetime(2024, 1, 1)
# Three posts of each moment, so that every page but the smallest ends among equals.
POSTS: list[Document] = [
    {
        "_id": ObjectId(f"{(number * 7) % 12:024x}"),
        "number": number,
        "title": f"post {number}",
        "published": START + timedelta(milliseconds=number // 3),
        "authorId": number % 2,
        "tags": ["even"] if number % 2 == 0 else [],
    }
    for number in range(12)
]
NEWEST = [
    post["title"]
    for post in sorted(POSTS, key=lambda post: (post["published"], post["_id"]), reverse=True)
]
PAGE = (
    "query ($tag: String, $first: Int!, $after: String) {"
    " posts(tag: $tag, first: $first, after: $after) { total next items { title } } }"
)


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as service:
        service.insert("posts", *POSTS)
        service.insert("authors", {"_id": 0, "name": "Ada"}, {"_id": 1, "name": "Bea"})
        await service.store(build_app(service.db))
        yield service


def build_app(db: str, name: str = "paging") -> Document:
    """The definition of the example on a database of the test."""
    definition: Document = copy.deepcopy(DEFINITION.document)
    for fields in definition["mappings"].values():
        for mapping in fields.values():
            if isinstance(mapping, dict):
                mapping["db"] = db
    return {**definition, "_id": name}


async def read_pages(service: Service, first: int, **variables: Any) -> list[Document]:
    """All pages from the first to the one without a next."""
    pages: list[Document] = []
    after: str | None = None
    while not pages or after is not None:
        cursor = {} if after is None else {"after": after}
        given = {"first": first, **variables, **cursor}
        pages.append((await service.query("paging", PAGE, given)).data["posts"])
        after = pages[-1]["next"]
    return pages


@pytest.mark.parametrize("first", [1, 2, 5, 12, 50])
async def test_pages_hold_every_item_once_in_order(service: Service, first: int) -> None:
    pages = await read_pages(service, first)

    assert [item["title"] for page in pages for item in page["items"]] == NEWEST
    assert {page["total"] for page in pages} == {12}
    assert all(len(page["items"]) == first for page in pages[:-1])


async def test_the_filter_holds_for_the_items_and_for_the_total(service: Service) -> None:
    pages = await read_pages(service, 4, tag="even")

    titles = [item["title"] for page in pages for item in page["items"]]
    assert titles == [title for title in NEWEST if int(title.split()[1]) % 2 == 0]
    assert {page["total"] for page in pages} == {6}


async def test_a_page_of_nothing_is_an_empty_page(service: Service) -> None:
    assert await read_pages(service, 4, tag="none") == [{"total": 0, "next": None, "items": []}]


async def test_a_page_with_total_and_cursor_is_one_command(service: Service) -> None:
    with listening(CommandFinished) as commands:
        await service.query("paging", PAGE, {"first": 2})

    assert len([one for one in commands if one.app == "paging"]) == 1


async def test_the_pages_of_all_authors_are_one_command(service: Service) -> None:
    query = "{ posts { items { author { name posts(first: 2) { total next items { title } } } } } }"
    with listening(CommandFinished) as commands:
        items = (await service.query("paging", query)).data["posts"]["items"]

    pages = {item["author"]["name"]: item["author"]["posts"] for item in items}
    assert {name: page["total"] for name, page in pages.items()} == {"Ada": 6, "Bea": 6}
    assert [one["title"] for one in pages["Bea"]["items"]] == [
        title for title in NEWEST if int(title.split()[1]) % 2
    ][:2]
    assert len([one for one in commands if one.app == "paging"]) == 3


async def test_a_cursor_that_nobody_can_read_is_an_error_of_the_field(service: Service) -> None:
    reply = await service.query("paging", PAGE, {"first": 2, "after": "yesterday_1"})

    assert reply.code == "rejected-by-database"


async def test_a_page_has_a_hundred_items_at_most(service: Service) -> None:
    many = [
        {"_id": ObjectId(), "title": "t", "published": START, "tags": ["many"], "authorId": 2}
        for _ in range(101)
    ]
    app = build_app(service.db, "many")
    service.insert("many", *many)
    app["mappings"]["Query"]["posts"]["collection"] = "many"
    await service.store(app)

    reply = await service.query("many", PAGE, {"first": 1000})

    assert len(reply.data["posts"]["items"]) == 100
    assert reply.data["posts"]["next"] is not None


async def test_the_total_counts_only_when_asked_as_the_page_says(service: Service) -> None:
    app = build_app(service.db, "counted")
    stages = app["mappings"]["Query"]["posts"]["stages"]
    (place,) = [place for place, stage in enumerate(stages) if "$unionWith" in stage]
    stages[place] = {"$ifarg": ["counted", stages[place]]}
    stages[place + 2] = {
        "$project": {"items": {"$first": "$parts.items"}, "total": {"$first": "$parts.total"}}
    }
    app["schema"] = app["schema"].replace("total: Int!", "total: Int")
    app["schema"] = app["schema"].replace("posts(tag: String", "posts(counted: Boolean tag: String")
    await service.store(app)

    reply = await service.query(
        "counted", "{ with: posts(counted: true) { total } without: posts { total } }"
    )

    assert reply.data == {"with": {"total": 12}, "without": {"total": None}}


@pytest.mark.parametrize(("tag", "count"), [("even", {"total": 6}), ("none", None)])
async def test_a_count_alone_is_a_field_of_its_own(
    service: Service, tag: str, count: Document | None
) -> None:
    match = {"$match": {"$ifarg": ["tag", {"tags": {"$arg": "tag"}}]}}
    counted = service.stages("posts", match, {"$count": "total"})
    schema = "type Query { postCount(tag: String): Count } type Count { total: Int! }"
    await service.define("count", schema, {"Query": {"postCount": counted}})

    reply = await service.query("count", f'{{ postCount(tag: "{tag}") {{ total }} }}')

    assert reply.json["data"] == {"postCount": count}
