"""The pages on tokens, cookies and roles tell the truth: their configurations start and work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from docgraph.auth.tokens.account_claims import PropertyNames, build_claims
from docgraph.auth.tokens.token import TokenAccount
from tests.http.harness import Mongo, merge
from tests.http.tokens import KEY, RANDOM, SIGNED, open_workers

pytestmark = pytest.mark.anyio
DOCS = Path(__file__).parents[3] / "docs"
HS256 = {"key": KEY, "algorithm": "HS256"}
PAGES = ("reference/token-managers", "reference/cookies", "reference/roles", "how-to/log-in")


def read_blocks(page: str) -> list[dict[str, Any]]:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8").replace("<JWT_KEY>", f'"{KEY}"')
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]


BLOCKS = [(page, block) for page in PAGES for block in read_blocks(page)]


@pytest.mark.parametrize(
    ("page", "block"), BLOCKS, ids=[f"{page}:{next(iter(block))}" for page, block in BLOCKS]
)
async def test_a_configuration_of_a_page_starts(
    mongo_client: Mongo, mongo_uri: str, database: str, page: str, block: dict[str, Any]
) -> None:
    if "jwks" in block.get("jwtAuthenticationMechanism", {}):  # somebody else's address
        block = merge(block, {"jwtAuthenticationMechanism": {"jwks": None, **HS256}})
    async with open_workers(mongo_client, mongo_uri, database, block) as (worker,):
        reply = await worker.ask("/roles/ada", login="ada:secret")
        assert reply.status_code == 200
        assert reply.headers["auth-token-location"] == "/tokens/ada"


@pytest.mark.parametrize("manager", [RANDOM, SIGNED], ids=["random", "signed"])
async def test_the_table_of_the_token_service_holds(
    mongo_client: Mongo, mongo_uri: str, database: str, manager: dict[str, Any]
) -> None:
    text = (DOCS / "reference/token-managers.md").read_text()
    rows = dict(re.findall(r"^\| `(GET|POST|DELETE|OPTIONS)` \| (\d{3})", text, re.MULTILINE))
    async with open_workers(mongo_client, mongo_uri, database, merge(manager)) as (worker,):
        for method, status in rows.items():
            reply = await worker.ask("/tokens/ada", method=method, login="ada:secret")
            assert reply.status_code == int(status)
    assert set(rows) == {"GET", "POST", "DELETE", "OPTIONS"}


async def test_the_claims_of_the_page_are_the_claims_of_a_token() -> None:
    text = (DOCS / "reference/token-managers.md").read_text()
    section = text.split("## Claims of a JWT", 1)[1]
    account = TokenAccount("ada", ("user",), {}, "database")
    for claim in build_claims(account, PropertyNames(), with_session=True):
        assert f"`{claim}`" in section
