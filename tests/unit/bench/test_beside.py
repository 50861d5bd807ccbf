"""Two versions are judged by pairs: the median of their quotients, and the spread."""

from __future__ import annotations

import pytest
from bench import related, row_filters
from bench.beside import PAIRS, Quotient, compare_pairs
from bench.twin import HANDLERS
from bench.workloads import ROW_FILTERS
from graphql import build_schema, parse, validate

from docgraph.graphql.apps.compiled_app import build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.sections import Graphql


def test_each_pair_is_compared_by_itself() -> None:
    """A machine that gets slower in the middle slows both of a pair."""
    quotient = compare_pairs([1.1, 2.2, 4.4, 1.1], [1.0, 2.0, 4.0, 1.0])
    assert quotient.median == pytest.approx(1.1)
    assert quotient.spread == pytest.approx(0)
    assert quotient.pairs == 4


def test_the_spread_is_the_distance_between_the_quartiles() -> None:
    quotient = compare_pairs([0.9, 1.0, 1.1, 1.2, 9.0], [1.0] * 5)
    assert quotient.median == pytest.approx(1.1)
    assert quotient.spread == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("median", "spread", "pairs", "verdict"),
    [
        (1.03, 0.01, PAIRS, "not slower"),
        (1.04, 0.01, PAIRS, "slower"),
        (1.04, 0.05, PAIRS, "not slower"),
        (1.06, 0.05, PAIRS, "slower"),
        (0.5, 0.0, PAIRS, "not slower"),
        (0.5, 0.0, PAIRS - 1, "not judged: 9 of 10 pairs"),
    ],
)
def test_not_slower_is_three_percent_or_the_spread(
    median: float, spread: float, pairs: int, verdict: str
) -> None:
    assert Quotient(median, spread, pairs).verdict == verdict


def test_lists_under_a_row_filter_are_asked_by_graphql_and_by_rest() -> None:
    schema = build_schema(row_filters.APP["schema"])
    by_graphql = [one for one in ROW_FILTERS if one.query]
    assert not any(validate(schema, parse(one.query)) for one in by_graphql)
    assert len(by_graphql) * 2 == len(ROW_FILTERS) == 2 * len(row_filters.FILTERS)
    assert {one.id for one in ROW_FILTERS} <= HANDLERS.keys()


def test_each_rung_across_relations_is_a_query_with_a_twin_and_a_bar() -> None:
    schema = build_app(decode_definition(related.APP), Graphql()).visible_to(()).schema
    assert not any(validate(schema, parse(one.query)) for one in related.WORKLOADS)
    names = {one.id for one in related.WORKLOADS}
    assert names == related.BARS.keys()
    assert names <= HANDLERS.keys()
