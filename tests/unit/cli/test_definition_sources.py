"""Definitions as files: what is read, what is skipped and why, and that writing reads back."""

from __future__ import annotations

import json
import os
from errno import ENOSPC
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from docgraph.authoring.requests import read_draft
from docgraph.cli.apps import definitions
from docgraph.cli.apps.definitions import find_collisions
from docgraph.cli.apps.sources import find_definitions, write_definition
from docgraph.codec import decode
from docgraph.codec.bson_types import Decimal128, ObjectId
from docgraph.config.render import render_block
from docgraph.exchange import StartupError
from docgraph.graphql.definition.definition_diff import Change, ChangeKind

EXAMPLES = Path(__file__).parents[3] / "examples"
SCHEMA = "type Query {\n  items: [Item]\n}\n\ntype Item {\n  name: String\n}\n"
MAPPINGS = {"Query": {"items": {"db": "d", "collection": "items", "find": {"a": {"$arg": "b"}}}}}
YAML = "Query:\n  items: {db: d, collection: items, find: {a: {$arg: b}}}\n"


def save(directory: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def read_one(path: Path) -> Any:
    (found,) = find_definitions([path]).definitions
    return found.document if found.flaw is None else str(found.flaw)


@pytest.mark.parametrize(
    "files",
    [
        {"app.yml": "_id: store\n", "mappings.yml": YAML},
        {"app.json": {"_id": "store"}, "mappings.json": MAPPINGS},
        {"app.yaml": "{_id: store}", "mappings.yaml": YAML},
        {"app.yml": {"_id": "store", "mappings": MAPPINGS}},
    ],
)
def test_the_parts_of_a_definition_stand_in_files_of_their_own(
    tmp_path: Path, files: dict[str, Any]
) -> None:
    save(tmp_path / "shop", {"schema.graphql": SCHEMA, **files})

    assert read_one(tmp_path) == {"_id": "store", "schema": SCHEMA, "mappings": MAPPINGS}


def test_a_directory_names_its_app_where_nothing_else_does(tmp_path: Path) -> None:
    save(tmp_path / "shop", {"schema.graphql": SCHEMA, "mappings.yml": YAML})

    assert read_one(tmp_path / "shop") == {"_id": "shop", "schema": SCHEMA, "mappings": MAPPINGS}


@pytest.mark.parametrize("part", ["schema.graphql", "mappings.yml", "app.yml"])
def test_a_part_stands_for_its_directory(tmp_path: Path, part: str) -> None:
    files = {"schema.graphql": SCHEMA, "mappings.yml": YAML, "app.yml": "_id: store"}
    save(tmp_path, files)

    assert read_one(tmp_path / part)["_id"] == "store"


def test_a_definition_can_be_one_file_of_yaml(tmp_path: Path) -> None:
    mappings = indent(YAML, "  ")
    save(tmp_path, {"shop.yml": f"_id: shop\nschema: |\n  type Query\nmappings:\n{mappings}"})

    assert read_one(tmp_path) == {"_id": "shop", "schema": "type Query\n", "mappings": MAPPINGS}


def test_yaml_holds_as_much_as_a_document_does(tmp_path: Path) -> None:
    deep: Any = {"a": 1}
    for _ in range(40):
        deep = {"$and": [deep]}
    types = {f"T{number}": {"field": "a.b"} for number in range(11_000)}
    large = {**types, "Query": {"items": {"db": "d", "collection": "c", "find": deep}}}
    text = render_block(large)
    save(tmp_path / "shop", {"schema.graphql": SCHEMA, "mappings.yml": text})

    assert read_one(tmp_path)["mappings"] == large
    draft = read_draft({"mappings": text})
    assert (draft.flaws, draft.document) == ((), {"mappings": large})


def test_values_of_yaml_are_those_of_json(tmp_path: Path) -> None:
    text = (
        "schema: x\nmappings: {a: {$oid: 64b5f0a1c2d3e4f5a6b7c8d9}, b: no, c: 2024-01-01, d: 1.0}"
    )
    save(tmp_path, {"a.yml": text})

    mappings = read_one(tmp_path)["mappings"]

    id = ObjectId("64b5f0a1c2d3e4f5a6b7c8d9")
    assert mappings == {"a": id, "b": "no", "c": "2024-01-01", "d": 1.0}


def test_directories_are_gone_through_and_what_is_skipped_is_named(tmp_path: Path) -> None:
    definition = {"_id": "a", "schema": SCHEMA, "mappings": MAPPINGS}
    save(
        tmp_path,
        {
            "a.json": definition,
            "teams/one/schema.graphql": SCHEMA,
            "teams/one/queries.json": {"data": {}},
            "teams/two/b.yaml": definition,
            "teams/two/mappings.yml": YAML,
            "package.json": {"name": "x"},
            "rows.json": [],
            "README.md": "",
            ".git/config.json": definition,
            "node_modules/x.json": definition,
        },
    )
    (tmp_path / "linked").symlink_to(tmp_path / "teams")
    save(tmp_path, {"dump.json": "[" + " " * 16 * 1024 * 1024 + "]"})

    sources = find_definitions([tmp_path])

    names = [str(Path(one.name).relative_to(tmp_path)) for one in sources.definitions]
    assert names == ["a.json", "teams/one", "teams/two/b.yaml"]
    assert {str(path.relative_to(tmp_path)): why for path, why in sources.skipped} == {
        ".git": "not looked into",
        "README.md": "neither JSON nor YAML",
        "dump.json": "larger than a definition can be",
        "linked": "links to directories are not followed",
        "node_modules": "not looked into",
        "package.json": "has neither schema nor mappings",
        "rows.json": "a definition is an object",
        "teams/one/queries.json": "has neither schema nor mappings",
        "teams/two/mappings.yml": "there is no schema.graphql beside it",
    }


def test_what_is_named_twice_is_read_once(tmp_path: Path) -> None:
    save(tmp_path / "shop", {"schema.graphql": SCHEMA, "mappings.yml": YAML})
    save(tmp_path, {"a.json": {"schema": SCHEMA}})

    paths = [tmp_path / "a.json", tmp_path, tmp_path / "shop", tmp_path / "shop" / "mappings.yml"]
    found = find_definitions(paths).definitions

    assert [Path(one.name).name for one in found] == ["a.json", "shop"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"app.yml": "", "mappings.yml": "[]"}, "app.yml must be an object"),
        ({"mappings.yml": YAML, "mappings.json": MAPPINGS}, "mappings.yml and mappings.json: keep"),
        ({"mappings.json": "{"}, "mappings.json: not valid JSON: line 1"),
        ({"mappings.yml": "a: b: c"}, "not valid YAML: mappings.yml:1:5"),
        ({"mappings.yml": "a: 1\na: 2"}, "'a' appears twice"),
        ({"mappings.yml": "a: {$oid: x}"}, "mappings.yml: an ObjectId is 24 hexadecimal digits"),
        (
            {"app.yml": "schema: x", "mappings.yml": YAML},
            "schema: is in app and in a file of its own",
        ),
        (
            {"app.yml": "mappings: {}", "mappings.yml": YAML},
            "mappings: is in app and in a file of its own",
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(
    tmp_path: Path, files: dict[str, Any], message: str
) -> None:
    save(tmp_path, {"schema.graphql": SCHEMA, **files})

    assert message in read_one(tmp_path)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "lost.json").symlink_to(tmp_path / "nowhere")

    sources = find_definitions([tmp_path])

    assert sources.definitions == []
    assert {path.name: why for path, why in sources.skipped} == {
        "lost.json": "not a file",
        "pipe.json": "not a file",
    }


def test_a_file_of_any_name_is_json_when_it_is_named(tmp_path: Path) -> None:
    save(tmp_path, {"definition": "{_id: 'a', /* lenient */ schema: '', mappings: {},}"})

    assert read_one(tmp_path / "definition") == {"_id": "a", "schema": "", "mappings": {}}


def test_a_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "schema.graphql").write_bytes(b"type Query { \xff }")

    assert read_one(tmp_path) == "schema.graphql is not UTF-8"


# --- writing --------------------------------------------------------------------------------------

ODD = {"a": ["1e3", "0o7", "no", "~", "", " x", "a: b", "# c", "é\n\t\U0001f600", "\u2028", "null"]}


@pytest.mark.parametrize(
    "document",
    [
        decode((EXAMPLES / "blog" / "app.json").read_bytes()),
        decode((EXAMPLES / "movies" / "app.json").read_bytes()),
        {"_id": "odd", "schema": "type Query\r\n", "mappings": ODD},
        {"_id": ObjectId(), "schema": "", "mappings": {"a": {"b": [[], {}, [[1], [{"c": 1.5}]]]}}},
        {"_id": "n", "schema": "x", "mappings": {"a": [Decimal128("1.50"), None, True, 2**40]}},
        {"_id": "w", "schema": "x", "mappings": {"a": [{"key": "x" * 99, "b": ["y" * 99]}]}},
    ],
)
@pytest.mark.parametrize("suffix", [".yml", ".json"])
def test_what_is_written_reads_back_as_itself(
    tmp_path: Path, document: dict[str, Any], suffix: str
) -> None:
    save(tmp_path, {f"mappings{suffix}": "", f"app{suffix}": ""})

    written = write_definition(document, tmp_path)

    names = {file.name for file in tmp_path.iterdir()}
    assert {file.name for file in written} == names
    assert names == {"schema.graphql", f"mappings{suffix}", f"app{suffix}"}
    assert read_one(tmp_path) == document


def test_a_new_directory_gets_yaml(tmp_path: Path) -> None:
    document = {"_id": "shop", "schema": SCHEMA, "mappings": MAPPINGS}

    write_definition(document, tmp_path / "new" / "shop")

    text = (tmp_path / "new" / "shop" / "mappings.yml").read_text()
    assert text == "Query: {items: {db: d, collection: items, find: {a: {$arg: b}}}}\n"
    assert (tmp_path / "new" / "shop" / "app.yml").read_text() == "_id: shop\n"


def test_what_is_no_definition_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(StartupError):
        write_definition({"_id": "x", "schema": 5}, tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_with_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(ENOSPC, "No space left on device")  # a write does not know its file

    monkeypatch.setattr(Path, "write_bytes", fail)

    with pytest.raises(StartupError, match=f"^{tmp_path}: No space left on device$"):
        write_definition({"_id": "x", "schema": SCHEMA, "mappings": MAPPINGS}, tmp_path)


def test_the_addresses_of_each_app_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def look(document: dict[str, Any]) -> set[str]:
        looked.append(document["_id"])
        return {document["_id"].rstrip("+")}

    monkeypatch.setattr(definitions, "claims_of", look)
    stored = [{"_id": f"app{number}"} for number in range(100)]
    found = [Change(one["_id"], ChangeKind.SAME, one, one) for one in stored]
    found.append(Change("app7+", ChangeKind.NEW, {}, {"_id": "app7+"}))

    assert list(find_collisions(found, prune=False)) == [("app7+", "app7")]
    assert len(looked) == 201
