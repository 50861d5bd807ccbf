"""A list that its limit cut is reported to callers who ask for it, and to agents always."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.graphql.execute import fetch_by_in
from docgraph.graphql.execute.result import MAX_CUT_LISTS, CutLists
from tests.http.harness import (
    Document,
    Mongo,
    Reply,
    Service,
    identity,
    listening_to_fields,
    running,
)
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, use

pytestmark = [pytest.mark.anyio, pytest.mark.json]

SCHEMA = """
type Query {
  authors(limit: Int, skip: Int): [Author]
  author(id: Int!): Author
  raw(limit: Int): [BsonDocument]
  perAuthor(limit: Int): [Group]
  pages: [Author!]!
  things: [Thing]
}
union Thing = Author | Post
type Author {
  _id: Int
  posts(limit: Int, skip: Int): [Post]
  older(limit: Int): [Post]
  own: [Post]
  tags: [Tag]
  best: Post
}
type Post { _id: Int siblings(limit: Int): [Post] bad: [Author!] author: Author }
type Tag { name: String }
type Group { author: Int count: Int }
"""
WINDOW = {"limit": {"$arg": ["limit", None]}, "skip": {"$arg": ["skip", 0]}}
OPERATIONS = [{"name": "list", "query": "query list($n: Int) { authors(limit: $n) { _id } }"}]


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    settings = {"graphql": {"default-limit": 5, "max-limit": 200, "verbose": True}}
    settings |= identity("admin")
    async with running(mongo_client, mongo_uri, AGENTS, settings) as one:
        authors = [{"_id": n, "tags": [{"name": "t"}] * 9, "most": n + 1} for n in range(8)]
        one.insert("authors", *authors)
        # author n has 2n posts
        posts = [(author, number) for author in range(8) for number in range(2 * author)]
        one.insert("posts", *({"_id": i, "author": a, "n": n} for i, (a, n) in enumerate(posts)))
        await one.define("blog", SCHEMA, build_mappings(one), operations=OPERATIONS)
        yield one


def build_mappings(one: Service) -> Document:
    own, order = {"author": {"$fk": "_id"}}, {"sort": {"_id": 1}}
    older = {"$expr": {"$lt": ["$author", {"$fk": "_id"}]}}
    limit = {"limit": WINDOW["limit"]}
    last = {"coll": "posts", "pipeline": [{"$match": {"_id": 55}}]}
    return {
        "Query": {
            "authors": one.find("authors", **order, **WINDOW),
            "author": one.find("authors", {"_id": {"$arg": "id"}}),
            "raw": one.find("posts", **order, **limit),
            "things": one.stages("authors", {"$match": {"_id": 7}}, {"$unionWith": last}),
            "pages": one.find("authors", **order, connection={}),
            "perAuthor": one.find("posts", group={"by": "author"}, **limit),
        },
        "Author": {
            "posts": one.find("posts", own, **order, **WINDOW),
            "older": one.find("posts", older, **order, **limit),
            "own": one.find("posts", own, **order, limit={"$fk": "most"}),
            "best": one.find("posts", own, **order),
        },
        "Thing": {"$typeResolver": {"Post": "field-exists(author)", "Author": "true"}},
        "Post": {
            "siblings": one.find("posts", {"author": {"$fk": "author"}}, **order, **limit),
            "author": one.find("authors", {"_id": {"$fk": "author"}}),
        },
    }


async def query(service: Service, text: str, limits: Any = True, **others: Any) -> Reply:
    body = {"query": text, "extensions": {"limits": limits}, **others}
    return await service.request("POST", "/graphql/blog", json=body)


def read_cuts(reply: Reply) -> dict[tuple[Any, ...], int] | None:
    """The limit of each list that was cut, by path; None: nothing is reported."""
    extensions = reply.json.get("extensions", {})
    if "limits" not in extensions:
        return None
    return {tuple(one["path"]): one["limit"] for one in extensions["limits"]}


@pytest.mark.parametrize(
    ("arguments", "length", "expected"),
    [
        ("(limit: 3)", 3, {("authors",): 3}),
        ("(limit: 7)", 7, {("authors",): 7}),
        ("(limit: 8)", 8, None),
        ("(limit: 9)", 8, None),
        ("", 5, {("authors",): 5}),
        ("(limit: 3, skip: 4)", 3, {("authors",): 3}),
        ("(limit: 3, skip: 5)", 3, None),
        ("(limit: 3, skip: 9)", 0, None),
    ],
)
async def test_a_root_list(
    service: Service, arguments: str, length: int, expected: dict[Any, int] | None
) -> None:
    text = f"{{ authors{arguments} {{ _id }} }}"
    found = await query(service, text)
    assert len(found.data["authors"]) == length
    assert read_cuts(found) == expected
    plain = await query(service, text, limits=False)
    assert plain.data == found.data
    assert read_cuts(plain) is None


WAYS = ("in", "lookup", "per-parent")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("arguments", ["(limit: 4)", "(limit: 3, skip: 2)", ""])
async def test_relations_in_every_way_of_fetching(
    service: Service, monkeypatch: pytest.MonkeyPatch, way: str, arguments: str
) -> None:
    async def never(*_: Any) -> None:
        return None

    if way != "in":
        monkeypatch.setattr(fetch_by_in, "FIRST_TRY", 1)
        monkeypatch.setattr(fetch_by_in, "LARGEST_TRY", 1)
    if way == "per-parent":
        monkeypatch.setattr(fetch_by_in, "fetch_by_lookup", never)
    limit, skip = {"(limit: 4)": (4, 0), "(limit: 3, skip: 2)": (3, 2), "": (5, 0)}[arguments]
    found = await query(service, f"{{ authors(limit: 8) {{ posts{arguments} {{ _id }} }} }}")
    lengths = [len(one["posts"]) for one in found.data["authors"]]
    assert lengths == [max(0, min(limit, 2 * n - skip)) for n in range(8)]
    assert read_cuts(found) == {
        ("authors", n, "posts"): limit for n in range(8) if 2 * n > limit + skip
    }


async def test_relations_with_a_query_of_their_own(service: Service) -> None:
    found = await query(service, "{ authors(limit: 8) { older(limit: 2) { _id } own { _id } } }")
    before = [n * (n - 1) for n in range(8)]  # posts of the authors before
    older = {("authors", n, "older"): 2 for n in range(8) if before[n] > 2}
    own = {("authors", n, "own"): n + 1 for n in range(8) if 2 * n > n + 1}
    assert read_cuts(found) == {**older, **own}


async def test_a_relation_of_one_parent_and_aliases(service: Service) -> None:
    found = await query(
        service,
        "{ a: author(id: 3) { few: posts(limit: 2) { _id } all: posts(limit: 6) { _id } } }",
    )
    assert read_cuts(found) == {("a", "few"): 2}


async def test_an_object_in_several_positions_is_reported_at_each(service: Service) -> None:
    text = "{ authors(skip: 7) { posts(limit: 2) { author { posts(limit: 1) { _id } } } } }"
    found = await query(service, text)
    inner: dict[tuple[Any, ...], int]
    inner = {("authors", 0, "posts", n, "author", "posts"): 1 for n in range(2)}
    assert read_cuts(found) == {("authors", 0, "posts"): 2, **inner}


async def test_an_object_in_several_positions_is_walked_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[Any] = []
    find = CutLists._find_columns

    def count(self: CutLists, blocks: Any) -> Any:
        walked.append(blocks)
        return find(self, blocks)

    monkeypatch.setattr(CutLists, "_find_columns", count)
    inner = "_id"
    for _ in range(3):  # 14 posts each: 2744 positions
        inner = f"posts(limit: 14) {{ author {{ {inner} }} }}"
    found = await query(
        service, f"{{ authors(skip: 7) {{ {inner} }} z: authors(limit: 1) {{ _id }} }}"
    )

    assert read_cuts(found) == {("z",): 1}
    assert len(walked) < 200


async def test_other_lists(service: Service) -> None:
    text = "{ raw(limit: 3) perAuthor(limit: 2) { author } authors(limit: 8) { tags { name } } }"
    found = await query(service, text)
    assert read_cuts(found) == {("raw",): 3, ("perAuthor",): 2}
    assert [len(found.data[key]) for key in ("raw", "perAuthor")] == [3, 2]
    assert read_cuts(await query(service, "{ perAuthor(limit: 7) { author } }")) is None


async def test_pages_say_it_themselves_but_not_for_their_items(service: Service) -> None:
    edges = "edges { node { posts(limit: 6) { _id } } }"
    text = f"{{ pages(first: 5) {{ pageInfo {{ hasNextPage }} {edges} }} }}"
    found = await query(service, text)
    assert found.data["pages"]["pageInfo"] == {"hasNextPage": True}
    assert read_cuts(found) == {("pages", "edges", 4, "node", "posts"): 6}


async def test_types_with_the_same_keys(service: Service) -> None:
    text = """{ things {
      ... on Author { x: posts(limit: 1) { author { posts(limit: 2) { _id } } } }
      ... on Post { x: siblings(limit: 1) { author { best { _id } } } }
    } }"""
    assert read_cuts(await query(service, text)) == {
        ("things", 0, "x"): 1,
        ("things", 0, "x", 0, "author", "posts"): 2,
        ("things", 1, "x"): 1,
    }


async def test_objects_are_not_lists(service: Service) -> None:
    found = await query(
        service, "{ authors(limit: 8) { best { _id } } author(id: 5) { best { _id } } }"
    )
    assert read_cuts(found) is None


async def test_lists_of_broken_values_are_reported_where_they_are(service: Service) -> None:
    found = await query(service, "{ authors(limit: 8) { posts(limit: 2) { _id bad { _id } } } }")
    assert read_cuts(found) == {("authors", n, "posts"): 2 for n in range(2, 8)}
    service.mongo[service.db]["posts"].update_one({"_id": 54}, {"$set": {"bad": [1]}})
    text = "{ authors(skip: 7) { posts(limit: 2, skip: 11) { bad { _id } } } }"
    found = await query(service, text)
    assert found.errors
    assert read_cuts(found) == {("authors", 0, "posts"): 2}


async def test_the_number_of_reports_is_bounded(service: Service) -> None:
    text = " ".join(f"p{n}: posts(limit: 1) {{ _id }}" for n in range(MAX_CUT_LISTS // 7 + 2))
    found = await query(service, f"{{ authors(limit: 8) {{ {text} }} }}")
    assert len(read_cuts(found) or ()) == MAX_CUT_LISTS


async def test_every_field_with_a_cut_list_is_reported(service: Service) -> None:
    text = " ".join(f"p{n}: posts(limit: 1) {{ _id }}" for n in range(MAX_CUT_LISTS // 7 + 2))
    last = "own { siblings(limit: 1) { _id } }"
    text = f"{{ authors(limit: 8) {{ {text} {last} }} z: authors(limit: 1) {{ _id }} }}"
    found = read_cuts(await query(service, text)) or {}

    assert found["z",] == 1
    assert len(found) == MAX_CUT_LISTS + 1
    fields = {tuple(step for step in path if isinstance(step, str)) for path in found}
    agent = (await use(service, "run_query", app="blog", query=text)).json
    assert fields == {tuple(one["path"]) for one in agent["limits"]}


async def test_a_report_costs_no_command(service: Service) -> None:
    text = "{ authors(limit: 3) { posts(limit: 2) { _id } } }"
    counts = []
    for limits in (False, True):
        with listening_to_fields() as commands:
            await query(service, text, limits)
        counts.append(len([one for one in commands if one.app == "blog"]))
    assert counts == [2, 2]


@pytest.mark.parametrize("name", ["older", "posts"])
async def test_documents_beyond_the_limit_are_not_counted(
    service: Service, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(fetch_by_in, "FIRST_TRY", 1)  # posts by $lookup
    limits = {"fetched-documents": 12, "estimated-documents": 1000}
    await service.define("small", SCHEMA, build_mappings(service), limits=limits)
    text = f"{{ authors(limit: 4, skip: 4) {{ {name}(limit: 2) {{ _id }} }} }}"
    for wanted in (False, True):
        body = {"query": text, "extensions": {"limits": wanted}}
        found = await service.request("POST", "/graphql/small", json=body)
        assert [len(one[name]) for one in found.data["authors"]] == [2] * 4
    more = {"query": text.replace("limit: 2", "limit: 3"), "extensions": {"limits": True}}
    found = await service.request("POST", "/graphql/small", json=more)
    assert found.code == "too-many-documents"


async def test_persisted_queries(service: Service) -> None:
    body = {"operation": "list", "variables": {"n": 2}, "extensions": {"limits": True}}
    found = await service.request("POST", "/graphql/blog", json=body)
    assert read_cuts(found) == {("authors",): 2}


@pytest.mark.parametrize("limits", [1, "true", None, []])
async def test_the_extension_is_a_boolean(service: Service, limits: Any) -> None:
    found = await query(service, "{ __typename }", limits)
    assert found.status == 400
    assert found.messages == ["'extensions.limits' must be a boolean"]


async def test_the_other_extensions_stay(service: Service) -> None:
    found = await query(service, "{ authors(limit: 3) { _id } }")
    assert {"plan", "limits"} <= found.json["extensions"].keys()


async def test_agents_get_it_always(service: Service) -> None:
    told = await use(service, "run_query", app="blog", query="{ authors(limit: 3) { _id } }")
    assert told.json["limits"] == [{"path": ["authors"], "limit": 3, "argument": "limit"}]
    told = await use(service, "blog__list", n=2)
    assert [one["limit"] for one in told.json["limits"]] == [2]
    told = await use(service, "run_query", app="blog", query="{ authors(limit: 8) { _id } }")
    assert "limits" not in told.json


@pytest.mark.parametrize("limits", [False, True])
async def test_documents_that_are_larger_than_a_portion(service: Service, limits: bool) -> None:
    text = "x" * 2 * 1024 * 1024
    service.insert("large", *({"_id": n, "text": text, "parent": 0} for n in range(2)))
    schema = """
    type Query { list: [Large] one: Large staged: [Large] pages: [Large!]! }
    type Large { _id: Int text: String inner: [Large] up: Large }
    """
    order = {"sort": {"_id": 1}}
    inner = service.find("large", {"parent": {"$fk": "_id"}}, **order)
    mappings = {
        "Query": {
            "list": service.find("large", **order),
            "one": service.find("large", {"_id": 0}),
            "staged": service.stages("large", {"$sort": {"_id": 1}}),
            "pages": service.find("large", **order, connection={}),
        },
        "Large": {"inner": inner, "up": service.find("large", {"_id": {"$fk": "parent"}})},
    }
    await service.define("large", schema, mappings)
    try:
        for field in ("list", "one", "staged"):
            body = {
                "query": f"{{ {field} {{ text up {{ text }} }} }}",
                "extensions": {"limits": limits},
            }
            found = (await service.request("POST", "/graphql/large", json=body)).data[field]
            first = found if field == "one" else found[0]
            assert first == {"text": text, "up": {"text": text}}
        nested = await service.query("large", "{ one { inner { text } } pages { nodes { text } } }")
        assert [len(one["text"]) for one in nested.data["one"]["inner"]] == [len(text)] * 2
        assert len(nested.data["pages"]["nodes"]) == 2
    finally:
        service.mongo[service.db].drop_collection("large")
