"""Names of databases that later modules use again."""

from __future__ import annotations

from tests import databases
from tests.http.harness import Mongo


def test_the_name_of_a_database_with_data_is_not_used_again(mongo_client: Mongo) -> None:
    empty, filled = databases.new_name(), databases.new_name()
    for name in (empty, filled):
        mongo_client[name].create_collection("things")
        databases.drop(mongo_client, name)
    mongo_client[filled].create_collection("late")

    databases.recycle()

    mongo_client[filled].drop_collection("late")
    assert (empty in databases._free, filled in databases._free) == (True, False)


def test_a_name_that_no_test_has_dropped_is_not_used_again() -> None:
    name = databases.new_name()

    databases.recycle()

    assert name not in databases._free
