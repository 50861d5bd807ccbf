"""`docgraph keys`: make, list, rotate and revoke API keys; only their text goes to stdout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from docgraph.cli.completion import complete_roles, complete_users
from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.terminal import make_printable, notice, print_table
from docgraph.cli.user_properties import property_option, read_properties
from docgraph.config import ConfigSources

if TYPE_CHECKING:
    from docgraph.auth.mechanisms.api_key import ApiKeyMechanism as Mechanism

_T = TypeVar("_T")
_COLUMNS = ("owner", "name", "roles", "notAfter", "lastUsedAt", "active", "_id")


@click.group()
def keys() -> None:
    """Make, list, rotate and revoke API keys, the credentials of machines."""


@keys.command()
@click.argument("name")
@click.option("--owner", required=True, shell_complete=complete_users, help="User who owns it.")
@click.option("--role", "roles", multiple=True, shell_complete=complete_roles, help="A role of it.")
@click.option("--until", required=True, type=click.DateTime(), help="Its end, in UTC.")
@click.option("--network", "networks", multiple=True, help="Where it is valid: 10.0.0.0/8.")
@click.option("--inherit", "inherits", multiple=True, help="A property of the owner; repeatable.")
@property_option
@configured
def add(sources: ConfigSources, until: datetime, given: tuple[str, ...], **order: Any) -> None:
    """Make a key, and print it: it cannot be shown again."""

    async def make(bench: Mechanism) -> str:
        from docgraph.auth.api_keys import KeyOrder

        order.update(notAfter=until, properties=read_properties(given, bench.users))
        owner = await bench.keys.find_owner(order["owner"])
        key, text = await bench.keys.make(KeyOrder.parse(order), owner)
        notice(make_printable(f"made the key {key['owner']}/{key['name']}: store it now"))
        return text

    click.echo(_run(sources, make))


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def list_(sources: ConfigSources, as_json: bool) -> None:
    """List the keys, without their secrets."""

    async def read_all(bench: Mechanism) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        while page := await bench.keys.list_page(after=rows[-1]["_id"] if rows else ""):
            rows += await bench.keys.describe(*page)
        return rows

    rows = _run(sources, read_all)
    if not as_json:
        rows = [{name: row.get(name) for name in _COLUMNS} for row in rows]
        rows = [{**row, "roles": ", ".join(row["roles"])} for row in rows]
    print_table(rows, as_json=as_json, if_empty="there are no keys")


@keys.command()
@click.argument("key")
@configured
def revoke(sources: ConfigSources, key: str) -> None:
    """End the KEY, an id or OWNER/NAME, on all instances."""
    _run(sources, lambda bench: bench.keys.revoke(key))
    notice(make_printable(f"revoked {key}: it ends within two seconds"))


@keys.command()
@click.argument("key")
@click.option("--hours", type=click.FloatRange(0, 744), default=24, show_default=True)
@configured
def rotate(sources: ConfigSources, key: str, hours: float) -> None:
    """Print another secret of the KEY, an id or OWNER/NAME; the old one is valid for --hours."""
    click.echo(_run(sources, lambda bench: bench.keys.rotate(key, hours)))


def _run(sources: ConfigSources, work: Callable[[Mechanism], Awaitable[_T]]) -> _T:
    """Run work with the keys of the configured database."""
    from docgraph.auth.tokens.revocation import CLOCK_SECONDS
    from docgraph.cli.application import work_on

    async def begin(app: Any) -> _T:
        mechanism: Mechanism = app.plugins.find("apiKeyMechanism")
        await app.store.set_clock(CLOCK_SECONDS)
        await mechanism.keys.revocations.read()
        return await work(mechanism)

    return work_on(prepare_sources(sources), begin)
