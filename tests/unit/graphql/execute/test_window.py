"""Sort, skip and limit of a query, within the bounds of the configuration (decision 12)."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.graphql.definition.mapping import QueryMapping
from docgraph.graphql.errors import FieldFailure
from docgraph.graphql.execute.window import Window, order_window, read_window
from docgraph.graphql.plan.plan_tree import Fetch
from docgraph.graphql.sections import Graphql
from docgraph.store.collection_stats import Index
from docgraph.variables import Scope
from tests.unit.graphql.planning_harness import make_app, make_plan

BOUNDS = Graphql(default_limit=20, max_limit=50)
SCHEMA = "type Query { things(n: Float, kind: String): [Thing] thing: Thing } type Thing { n: Int }"


def make_fetch(field: str = "things", **mapping: Any) -> Fetch:
    full = {"db": "d", "collection": "things", "find": {}, **mapping}
    app = make_app(SCHEMA, {"Query": {"things": full, "thing": full}})
    return make_plan(f"{{ {field} {{ n }} }}", app).tree({}).fetches[0]


def read(fetch: Fetch, **arguments: Any) -> Window:
    assert isinstance(fetch.mapping, QueryMapping)
    return read_window(fetch.mapping, Scope(arguments), BOUNDS, is_list=fetch.is_list)


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, 20), ({"limit": 7}, 7), ({"limit": 50}, 50), ({"limit": 0}, 20), ({"limit": 3.0}, 3)],
)
def test_a_list_has_the_limit_that_is_given_or_the_default(
    given: dict[str, Any], expected: int
) -> None:
    assert read(make_fetch(**given)).limit == expected


def test_a_single_document_has_a_limit_of_one() -> None:
    assert read(make_fetch("thing", limit=7)).limit == 1


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("limit", 51, "limit-too-high"),
        ("limit", -1, "negative-limit"),
        ("limit", 1.5, "bad-limit"),
        ("limit", True, "bad-limit"),
        ("skip", -1, "negative-skip"),
        ("skip", 0.5, "bad-skip"),
    ],
)
def test_what_no_number_of_documents_is_fails(option: str, value: Any, code: str) -> None:
    mapping: dict[str, Any] = {option: {"$arg": "n"}}
    fetch = make_fetch(**mapping)

    with pytest.raises(FieldFailure) as failure:
        read(fetch, n=value)

    assert failure.value.code == code


@pytest.mark.parametrize("value", [None, 0, 0.0])
def test_null_and_zero_are_no_limit_and_no_skip(value: Any) -> None:
    assert read(make_fetch(limit={"$arg": "n"}), n=value).limit == 20
    assert read(make_fetch(skip={"$arg": "n"}), n=value).skip == 0


def test_a_window_is_the_same_as_stages() -> None:
    window = read(make_fetch(sort={"n": -1}, skip=4, limit=3))

    assert window.end == 7
    assert window.stages == [{"$sort": {"n": -1}}, {"$skip": 4}, {"$limit": 3}]
    assert Window(None, 0, 5).stages == [{"$limit": 5}]


# --- ties -------------------------------------------------------------------------------------

# The database surely takes an index that leads to the values of the filter first.
OF_KIND = {"kind": {"$arg": "kind"}}
OF_N = Index((("kind", 1), ("n", 1)))
OF_N_AND_ID = Index((("kind", 1), ("n", 1), ("_id", 1)))


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        (None, {"n": 1, "_id": 1}),
        ([], {"n": 1, "_id": 1}),
        ([OF_N_AND_ID], {"n": 1, "_id": 1}),
        ([OF_N], {"n": 1}),
    ],
)
def test_a_sort_ends_with_the_id_where_no_index_is_lost_by_it(
    indexes: list[Index] | None, expected: dict[str, int]
) -> None:
    """Decision 12."""
    fetch = make_fetch(find=OF_KIND, sort={"n": 1})
    ordered = order_window(read(fetch), fetch, Scope(), indexes)

    assert ordered == Window(expected, 0, 20)
    assert list(ordered.sort or {}) == list(expected)


def test_without_a_sort_there_is_nothing_to_order() -> None:
    fetch = make_fetch()

    assert order_window(read(fetch), fetch, Scope(), []).sort is None


def test_other_indexes_and_other_sorts_are_worked_out_again() -> None:
    fetch = make_fetch(find=OF_KIND, sort={"n": 1})
    window = read(fetch)
    assert order_window(window, fetch, Scope(), [OF_N]).sort == {"n": 1}

    assert order_window(window, fetch, Scope(), [OF_N_AND_ID]).sort == {"n": 1, "_id": 1}
    backwards = window._replace(sort={"n": -1})
    assert order_window(backwards, fetch, Scope(), []).sort == {"n": -1, "_id": -1}


def test_conditions_of_another_caller_are_worked_out_again() -> None:
    """With a value for `kind` the database takes the index, and without one it does not."""
    fetch, indexes = make_fetch(sort={"n": 1}), [OF_N]
    window = read(fetch)
    for _ in range(2):
        ordered = order_window(window, fetch, Scope(), indexes, {"kind": {"$eq": "a"}})
        assert ordered.sort == {"n": 1}
        ordered = order_window(window, fetch, Scope(), indexes, {"size": {"$eq": "a"}})
        assert ordered.sort == {"n": 1, "_id": 1}
        assert order_window(window, fetch, Scope(), indexes).sort == {"n": 1, "_id": 1}


def test_sorts_of_callers_fill_no_memory() -> None:
    fetch = make_fetch(sort={"n": 1})
    for number in range(100):
        order_window(Window({f"f{number}": 1}, 0, 20), fetch, Scope(), [])

    assert 0 < len(fetch.orders) <= 32
