"""Tests of the desk with pytest: `pytest` in this directory."""

from docgraph.testing import AppClient, RunningApp

TICKETS = "{ tickets(first: 2, where: {status: {eq: OPEN}}) { nodes { title changedBy } } }"
ADA = {"userid": "ada", "team": "blue"}


def test_a_team_sees_its_open_tickets(docgraph_client: AppClient) -> None:
    answer = docgraph_client.query(TICKETS, as_user=ADA, roles=["agent"])
    docgraph_client.assert_answer(answer, "snapshots/open.json")


def test_one_command_finds_them(docgraph_client: AppClient) -> None:
    answer = docgraph_client.query(TICKETS, as_user=ADA, roles=["agent"])
    assert answer.commands == 1
    assert answer.documents_examined <= 20


def test_an_index_finds_them(docgraph_app: RunningApp, docgraph_client: AppClient) -> None:
    docgraph_app.mongo["docgraph"]["tickets"].create_index({"team": 1, "opened": -1, "_id": -1})
    answer = docgraph_client.query(TICKETS, as_user=ADA, roles=["agent"])
    assert answer.plans == {"IXSCAN { team: 1, opened: -1, _id: -1 }"}


def test_the_server_sets_the_team(docgraph_client: AppClient) -> None:
    ticket, caller = {"title": "No coffee"}, {"userid": "bob", "team": "red"}
    answer = docgraph_client.request("POST", "/tickets", ticket, as_user=caller, roles=["agent"])
    assert answer.status == 201
    listed = docgraph_client.query(TICKETS, as_user=caller, roles=["agent"]).data["tickets"]
    assert listed["nodes"][0] == {"title": "No coffee", "changedBy": "bob"}


def test_others_see_nothing(docgraph_client: AppClient) -> None:
    assert docgraph_client.query(TICKETS).status == 401
    assert docgraph_client.query(TICKETS, as_user=ADA).status == 403
