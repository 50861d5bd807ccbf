"""Rules in the configuration and in files: every mistake with its line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from docgraph.access.rule_authorizers import FileAclAuthorizer
from docgraph.access.rulebook import RuleBook
from docgraph.access.sections import FileAclAuthorizer as FileAclAuthorizerConfig
from docgraph.exchange import Account, ConfigError
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import ConfigWarning
from docgraph.runtime import Blocking
from tests.unit.access.harness import KNOWLEDGE, RESOLVERS, make_exchange

pytestmark = pytest.mark.anyio


@pytest.fixture
async def blocking() -> AsyncIterator[Blocking]:
    pool = Blocking(1, 4)
    yield pool
    await pool.close()


async def open_file(blocking: Blocking, **options: Any) -> FileAclAuthorizer:
    book = RuleBook(lambda: KNOWLEDGE, lambda: RESOLVERS)
    authorizer = FileAclAuthorizer(FileAclAuthorizerConfig(**options), book, blocking)
    await authorizer.provision()
    return authorizer


async def test_rules_of_a_file(blocking: Blocking, tmp_path: Path) -> None:
    file = tmp_path / "acl.yml"
    file.write_text(
        "permissions:\n"
        "  - roles: [user]\n"
        "    predicate: path('/books')\n"
        "    mongo:\n"
        '      readFilter: \'{"owner": "@user._id"}\'\n'
    )
    authorizer = await open_file(blocking, conf_file=str(file))
    decision = await authorizer.decide(make_exchange("GET", "/books"))
    assert decision.allowed
    assert decision.permission is not None
    assert decision.permission.read_filters == {"docgraph.books": {"owner": "ada"}}
    assert decision.permission.rule == "permissions[0] (file)"
    stranger = make_exchange("GET", "/books", account=Account("eve"))
    assert not (await authorizer.decide(stranger)).allowed


async def test_a_hundred_rules_cost_microseconds_each(blocking: Blocking) -> None:
    """Rules of other roles cost nothing, those of the caller are plain function calls."""
    rules = [
        {"role": "user", "predicate": f"path-prefix('/c{n}') and method(GET)"} for n in range(100)
    ]
    authorizer = await open_file(blocking, permissions=tuple(rules))
    exchange = make_exchange("GET", "/c99/x")
    assert (await authorizer.decide(exchange)).allowed
    asked = await authorizer.load()
    assert len(asked.of_roles(["user"])) == 100
    assert asked.of_roles(["other"]) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("permissions: 5\n", "/permissions: expected a list of permissions"),
        ("rules: []\n", "unknown key (the file has one key, 'permissions')"),
        ("rules: []\n", "acl.yml: /permissions: there is no list 'permissions'"),
        ("permissions: [5]\n", "/permissions[1]: expected a permission"),
        (
            "permissions:\n  - role: a\n    predicate: pth('/a')\n",
            "acl.yml:3:5: /permissions[1]/predicate: cannot be read: column 1: unknown predicate",
        ),
        (
            "permissions:\n  - role: a\n    predicate: 'true'\n    mongo:\n      readFilter: 5\n",
            "acl.yml:5:7: /permissions[1]/mongo/readFilter: must be an object",
        ),
        ("permissions: []\n", "requires either 'conf-file' or 'permissions' parameter"),
    ],
)
async def test_a_mistake_stops_the_start_with_its_line(
    blocking: Blocking, tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "acl.yml"
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        await open_file(blocking, conf_file=str(file))
    assert problem in str(raised.value)


async def test_an_operator_that_is_not_known_is_told_with_its_line(
    blocking: Blocking, tmp_path: Path
) -> None:
    file = tmp_path / "acl.yml"
    file.write_text(
        "permissions:\n"
        "  - role: a\n"
        "    predicate: 'true'\n"
        "    mongo:\n"
        "      readFilter: {n: {$gtt: 1}}\n"
    )
    seen: list[Event] = []
    subscribe(seen.append)
    try:
        await open_file(blocking, conf_file=str(file))
    finally:
        unsubscribe(seen.append)

    (warning,) = (one for one in seen if isinstance(one, ConfigWarning))
    assert warning.origin.endswith("acl.yml:5:24")
    assert warning.path == "/permissions[1]/mongo/readFilter/n/$gtt"
    assert warning.message == "docgraph does not know the operator $gtt"
    assert warning.hint == "did you mean $gt?"


async def test_a_file_that_is_not_there_stops_the_start(blocking: Blocking) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        await open_file(blocking, conf_file="/nonexistent/acl.yml")


async def test_every_mistake_of_inline_rules_is_told_at_once(blocking: Blocking) -> None:
    wrong = ({"role": "a"}, {"predicate": "true"})
    with pytest.raises(ConfigError) as raised:
        await open_file(blocking, permissions=wrong)
    assert len(raised.value.problems) == 2
