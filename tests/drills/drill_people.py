"""L17, L18, L19: thousands of people with rows of their own on one change stream, one worker.

    make drill-people               PEOPLE=10000 SECONDS=20 is the size of the requirement

Everybody gets their own messages, in order, and nobody else's; there is one cursor. 10 000 clients
need `ulimit -n` of more than 10 000 for the server and for this program.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from bench import people
from bench.contest import running_database, running_docgraph

PEOPLE = int(os.environ.get("PEOPLE", "10000"))
SECONDS = float(os.environ.get("SECONDS", "20"))
OWN, DATABASE, FAST = people.CROWDS
MOST_KIB = 50.0  # of memory for a client

pytestmark = pytest.mark.timeout(SECONDS * 3 + PEOPLE / 20 + 240)


def measure(crowd: people.Crowd) -> people.CrowdOutcome:
    with (
        running_database() as uri,
        running_docgraph(uri, people.build_config(crowd)) as docgraph,
    ):
        outcome = people.measure(docgraph, uri, crowd, SECONDS)
    print()
    people.print_outcome(crowd, outcome)
    assert outcome.is_complete
    assert outcome.cursors == 1
    return outcome


def test_l17_people_with_rows_of_their_own() -> None:
    crowd = replace(OWN, people=PEOPLE)
    outcome = measure(crowd)
    assert outcome.told.percentile(0.99) < crowd.bar
    assert outcome.memory_kib < MOST_KIB


def test_l18_people_about_whose_rows_the_database_decides() -> None:
    crowd = replace(DATABASE, people=min(PEOPLE, DATABASE.people))
    outcome = measure(crowd)
    assert outcome.told.percentile(0.99) < crowd.bar


def test_l19_one_listener_of_a_busy_collection() -> None:
    """Bounded in memory: what it is behind is reported as its lag, or it is closed."""
    measure(FAST)
