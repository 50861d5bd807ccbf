"""The rules of the index, one by one; the database checks them in `tests/properties`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from docgraph.graphql.freshness.change_facts import EVERYTHING, ChangeFacts, split_path
from docgraph.graphql.freshness.dependency import Dependency, merge_dependencies
from docgraph.graphql.freshness.invalidation_index import InvalidationIndex

NS = "shop.posts"


class Watched:
    """An index with named registrations, and the names that were notified."""

    def __init__(self) -> None:
        self.index = InvalidationIndex()
        self.changed: list[str] = []

    def add(self, name: str, *dependencies: Dependency) -> Any:
        return self.index.add(dependencies, lambda: self.changed.append(name))

    def apply(self, operation: str, id_: Hashable = 1, **parts: Any) -> list[str]:
        """Apply a change; return who was notified."""
        touched = frozenset(split_path(path) for path in parts.pop("touched", ()))
        self.changed.clear()
        count = self.index.apply(ChangeFacts(operation, NS, id_, touched=touched, **parts))
        assert count == len(self.changed)
        return sorted(self.changed)


def by(*, ids: set[Hashable] = frozenset(), is_open: bool = False, **keys: Any) -> Dependency:  # type: ignore[assignment]
    """A dependency with keys; `a__b` is the path `a.b`."""
    fixed = {path.replace("__", "."): frozenset([value]) for path, value in keys.items()}
    return Dependency(NS, frozenset(ids), fixed, is_open)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_an_insertion_concerns_its_keys(watched: Watched) -> None:
    watched.add("one", by(a=1))
    watched.add("two", by(a=2))
    watched.add("open", by(a=2, is_open=True))
    watched.add("both", by(a=1, b=1))
    watched.add("whole", Dependency(NS))
    watched.add("other", Dependency("shop.users"))
    assert watched.apply("insert", document={"_id": 1, "a": 1, "b": 2}) == ["one", "whole"]


def test_an_update_concerns_ids_and_current_keys(watched: Watched) -> None:
    watched.add("holds", by(a=2, ids={1}))
    watched.add("now", by(a=1))
    watched.add("elsewhere", by(a=3, ids={7}, is_open=True))
    assert watched.apply("update", document={"a": 1, "n": 5}, touched=["n"]) == ["holds", "now"]


def test_an_update_of_a_key_concerns_all_of_the_path(watched: Watched) -> None:
    watched.add("one", by(a__b=1))
    watched.add("two", by(a__b=2, is_open=True))
    watched.add("other", by(c=3))
    document = {"a": [{"b": 9}], "c": 4}
    assert watched.apply("update", document=document, touched=["a.0.b"]) == ["one", "two"]


def test_two_updates_of_two_keys_cannot_hide_each_other(watched: Watched) -> None:
    """The document is looked up after both: neither event shows a value of the dependency."""
    watched.add("count", by(a=1, b=1, is_open=True))
    now = {"a": 2, "b": 2}
    found = watched.apply("update", document=now, touched=["a"])
    found += watched.apply("update", document=now, touched=["b"])
    assert found == ["count"]


def test_a_deletion_concerns_ids_and_open_dependencies(watched: Watched) -> None:
    watched.add("holds", by(a=1, ids={1, 2}))
    watched.add("open", by(a=2, is_open=True))
    watched.add("closed", by(a=1, ids={3}))
    watched.add("whole", Dependency(NS))
    assert watched.apply("delete") == ["holds", "open", "whole"]


def test_an_update_without_document_is_a_deletion_too(watched: Watched) -> None:
    watched.add("holds", by(a=1, ids={1}))
    watched.add("open", by(a=2, is_open=True))
    watched.add("closed", by(a=1))
    watched.add("touched", by(b=1))
    found = watched.apply("update", document=None, touched=["b"])
    assert found == ["holds", "open", "touched"]


def test_a_replacement_is_a_deletion_and_an_insertion(watched: Watched) -> None:
    watched.add("holds", by(a=1, ids={1}))
    watched.add("open", by(a=5, is_open=True))
    watched.add("new", by(a=2))
    watched.add("closed", by(a=3))
    assert watched.apply("replace", document={"a": 2}) == ["holds", "new", "open"]


def test_an_id_finds_its_dependencies_without_documents(watched: Watched) -> None:
    watched.add("one", by(_id=1, ids={1}))
    watched.add("two", by(_id=2, ids={2}))
    assert watched.apply("update", touched=[""]) == ["one"]
    assert watched.apply("delete", 2) == ["two"]
    watched.add("missing", by(_id=3, ids={3}))
    assert watched.apply("insert", 3, document={"_id": 3}) == ["missing"]


@pytest.mark.parametrize("operation", ["insert", "replace", "other"])
def test_unknown_documents_and_events_concern_the_collection(
    watched: Watched, operation: str
) -> None:
    watched.add("key", by(a=1))
    watched.add("other", Dependency("shop.users"))
    assert watched.apply(operation) == ["key"]


def test_everything_concerns_everything(watched: Watched) -> None:
    watched.add("key", by(a=1))
    watched.add("other", Dependency("shop.users"))
    assert watched.index.apply(EVERYTHING) == 2
    assert sorted(watched.changed) == ["key", "other"]
    assert (len(watched.index), watched.index.bytes, watched.index.namespaces) == (
        0,
        0,
        frozenset(),
    )


def test_a_registration_is_notified_once(watched: Watched) -> None:
    watched.add("one", by(a=1), Dependency("shop.users"), by(a=1, is_open=True))
    assert watched.apply("insert", document={"a": 1}) == ["one"]
    assert watched.apply("insert", document={"a": 1}) == []


def test_what_is_removed_is_not_notified(watched: Watched) -> None:
    one = watched.add("one", by(a=1, ids={1}), Dependency("shop.users"))
    watched.add("two", by(a=1, ids={1}))
    watched.index.remove(one)
    watched.index.remove(one)
    assert watched.apply("delete") == ["two"]
    assert (len(watched.index), watched.index.bytes, watched.index.namespaces) == (
        0,
        0,
        frozenset(),
    )


def test_registrations_are_entered_in_portions(watched: Watched) -> None:
    names = "abcde"
    first, *_ = [watched.add(name, by(a=name)) for name in names]
    assert watched.index.namespaces == {NS}
    assert watched.index.flush(2)
    watched.index.remove(first)
    assert watched.index.flush(2)
    assert not watched.index.flush(2)
    assert [watched.apply("insert", document={"a": one}) for one in names] == [
        [],
        *map(list, "bcde"),
    ]


def test_a_notification_may_register_again(watched: Watched) -> None:
    def again() -> None:
        watched.add("again", by(a=1))

    watched.index.add([by(a=1)], again)
    assert watched.index.apply(ChangeFacts("insert", NS, 1, {"a": 1})) == 1
    assert watched.apply("insert", document={"a": 1}) == ["again"]


def test_a_path_that_often_changes_is_no_anchor(watched: Watched) -> None:
    """A status that every update touches must not outdate the answers of all tenants."""
    watched.add("status", by(status="open"))
    watched.apply("update", document={"tenant": 9, "status": "done"}, touched=["status"])
    watched.add("mine", by(status="open", tenant=1))
    document = {"tenant": 2, "status": "done"}
    assert watched.apply("update", document=document, touched=["status"]) == []
    assert watched.apply("update", document={"tenant": 1}, touched=["status"]) == ["mine"]


def test_dependencies_of_one_kind_are_merged() -> None:
    merged = merge_dependencies(
        [by(a=1, ids={1}), by(a=2, ids={2}), by(b=1), by(a=3, is_open=True)]
    )
    assert merged == (
        Dependency(NS, frozenset({1, 2}), {"a": frozenset({1, 2})}, is_open=False),
        by(b=1),
        by(a=3, is_open=True),
    )
    assert merge_dependencies([by(a=1), Dependency(NS), by(b=1)]) == (Dependency(NS),)


def test_a_dependency_as_text_names_no_values() -> None:
    text = "shop.posts: changes by a (1 value); every deletion"
    assert by(a="secret", is_open=True).render() == text
    assert Dependency(NS).render() == "shop.posts: every change"
