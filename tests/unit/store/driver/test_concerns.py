"""Which servers a read may be made from, by what is known of them."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import ReadPreference
from pymongo.hello import Hello
from pymongo.server_description import ServerDescription
from pymongo.topology_description import TOPOLOGY_TYPE, TopologyDescription

from docgraph.exchange.data import Consistency
from docgraph.exchange.errors import QueryError
from docgraph.store.driver.concerns import choose_preference

SECONDARY = Consistency(preference="secondary")
STANDALONE = {"isWritablePrimary": True}
PRIMARY = {"isWritablePrimary": True, "setName": "rs", "hosts": ["a:1"]}
MEMBER = {"secondary": True, "setName": "rs", "hosts": ["a:1"]}
ROUTER = {"isWritablePrimary": True, "msg": "isdbgrid"}


def one_server(hello: dict[str, Any]) -> TopologyDescription:
    place = ("a", 1)
    server = ServerDescription(place, Hello({"ok": 1, "maxWireVersion": 17, **hello}))
    return TopologyDescription(TOPOLOGY_TYPE.Single, {place: server}, None, None, None, None)


@pytest.mark.parametrize("hello", [STANDALONE, PRIMARY], ids=["standalone", "primary"])
def test_a_server_alone_that_is_no_secondary_is_not_taken_for_one(hello: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match="there is no secondary to read from"):
        choose_preference(SECONDARY, ReadPreference.PRIMARY, one_server(hello))


@pytest.mark.parametrize("hello", [MEMBER, ROUTER], ids=["secondary", "router"])
def test_a_server_alone_that_has_or_is_a_secondary_answers(hello: dict[str, Any]) -> None:
    chosen = choose_preference(SECONDARY, ReadPreference.PRIMARY, one_server(hello))

    assert chosen == ReadPreference.SECONDARY


@pytest.mark.parametrize("name", ["primary", "primaryPreferred", "secondaryPreferred", "nearest"])
def test_a_standalone_answers_every_other_preference(name: str) -> None:
    known = one_server(STANDALONE)

    assert choose_preference(Consistency(preference=name), ReadPreference.PRIMARY, known).name


def test_a_connection_to_one_server_that_prefers_secondaries_reads_from_it() -> None:
    settled = Consistency(concern="majority")

    chosen = choose_preference(settled, ReadPreference.SECONDARY, one_server(STANDALONE))

    assert chosen == ReadPreference.SECONDARY
