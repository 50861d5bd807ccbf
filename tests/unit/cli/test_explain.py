"""A verdict on each command that a person understands."""

from __future__ import annotations

import pytest

from docgraph.cli.explain import check_commands
from docgraph.graphql.execute.cost_estimate import CostEstimate, FetchEstimate
from docgraph.store.driver.explain_recorder import Sent
from docgraph.store.query_plan import Execution, QueryPlan

SCAN, INDEX = QueryPlan(("COLLSCAN",), ()), QueryPlan(("FETCH", "IXSCAN"), ("a_1",))
SORT = QueryPlan(("SORT", "FETCH", "IXSCAN"), ("a_1",))
ESTIMATE = CostEstimate(
    (FetchEstimate("Query.a", "find", "", 5, "d.a", SCAN, True, 9, 9, True, ((("b", 1),),)),),
    0,
    0,
    1,
)
CREATE = 'db.getSiblingDB("d").getCollection("a").createIndex({"b": 1})'


@pytest.mark.parametrize(
    ("plan", "documents", "returned", "good", "verdict", "advice"),
    [
        (INDEX, 5, 5, True, "good: the index leads to what is returned", ""),
        (INDEX, 0, 5, True, "good: the index contains everything that is returned", ""),
        (SCAN, 5, 5, True, "good: only returned documents are examined", ""),
        (
            SCAN,
            9,
            5,
            True,
            "fine: goes through 9 documents to return 5: that is little now",
            CREATE,
        ),
        (SCAN, 90_000, 5, False, "slow: goes through 90000 documents to return 5", CREATE),
        (INDEX, 5_000, 5, False, "wasteful: the index leads to 5000 documents, of which 5", CREATE),
        (SORT, 5_000, 5_000, False, "slow: 5000 documents are sorted in memory", CREATE),
        (QueryPlan(("EOF",), ()), 0, 0, True, "good: nothing to examine", ""),
        (QueryPlan((), ()), 5, 5, True, "unknown: the database does not report", ""),
    ],
)
def test_a_verdict_says_what_is_good_and_what_an_index_would_mend(
    plan: QueryPlan, documents: int, returned: int, good: bool, verdict: str, advice: str
) -> None:
    sent = Sent("Query.a", "find", "d.a", Execution(plan, documents, documents, returned, 3))

    (judged,) = check_commands([sent], ESTIMATE)

    assert judged.is_good is good
    assert judged.verdict.startswith(verdict)
    assert judged.advice == advice
    assert judged.as_dict().get("createIndex", "") == advice


def test_what_an_aggregation_makes_of_many_documents_is_no_waste() -> None:
    sent = Sent("Query.b", "aggregate", "d.a", Execution(INDEX, 5_000, 5_000, 2, 3))

    (judged,) = check_commands([sent], ESTIMATE)

    assert judged.is_good
    made = "good: 2 results are made of 5000 documents that the index leads to"
    assert judged.verdict == made
