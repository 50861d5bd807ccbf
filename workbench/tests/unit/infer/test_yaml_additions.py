"""Entries are added to a YAML text, and every line that a user wrote stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from docgraph.exchange import StartupError
from docgraph_workbench.infer.yaml_additions import add_entries

FILE = Path("mappings.yml")
TEXT = """# ours
Query:
    posts:  # the best
        db: d
        collection: posts

# people
Author: {id: _id}
Post:
    id: _id
    # by hand
    title: head.line
"""


def test_entries_come_last_in_the_block_of_their_key() -> None:
    added = add_entries(TEXT, {"Query": {"post": {"db": "d"}}, "Post": {"x": "y.z"}}, FILE)

    expected = TEXT.replace(
        "        collection: posts\n", "        collection: posts\n    post: {db: d}\n"
    )
    assert added == f"{expected}    x: y.z\n"


def test_new_keys_come_last() -> None:
    added = add_entries(TEXT, {"Tag": {"id": "_id", "find": {"$arg": "n"}}}, FILE)

    assert added.startswith(TEXT)
    assert yaml.safe_load(added)["Tag"] == {"id": "_id", "find": {"$arg": "n"}}


def test_an_entry_in_one_line_is_written_anew() -> None:
    added = add_entries(TEXT, {"Author": {"name": "first name"}}, FILE)

    assert yaml.safe_load(added)["Author"] == {"id": "_id", "name": "first name"}
    assert added.replace('Author: {id: _id, name: "first name"}', "Author: {id: _id}") == TEXT


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", {"A": {"b": "c"}}),
        ("# nothing yet\n", {"A": {"b": "c"}}),
        ("A:\n", {"A": {"b": "c"}}),
        ("A: {}", {"A": {"b": "c"}}),
        ("A:\n  x: &y {z: 1}\n  w: *y\nB: {q: 1}", {"A": {"b": 1}, "B": {"b": {"c": [1, None]}}}),
    ],
)
def test_what_is_written_reads_back_as_both(text: str, entries: Any) -> None:
    before: dict[str, Any] = yaml.safe_load(text) or {}

    after = yaml.safe_load(add_entries(text, entries, FILE))

    assert after == {
        key: {**(before.get(key) or {}), **entries.get(key, {})} for key in {**before, **entries}
    }


def test_json_stays_json() -> None:
    added = add_entries('{"A": {"x": "y"}}', {"A": {"b": "c"}}, Path("mappings.json"))

    assert yaml.safe_load(added) == {"A": {"x": "y", "b": "c"}}
    assert added.startswith("{\n")


def test_a_file_that_nothing_can_be_added_to_is_left_alone() -> None:
    with pytest.raises(StartupError, match="nothing can be added"):
        add_entries("{A: {x: y}}", {"B": {"b": "c"}}, FILE)
