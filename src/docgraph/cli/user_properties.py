"""Properties of users on the command line: `--property NAME=VALUE`, `--without NAME`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import click

from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.exchange import DocgraphError, Document, StartupError

property_option: Callable[[Any], Any] = click.option(
    "--property",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of the user document: JSON, or a text without quotes; repeatable.",
)


def read_properties(given: Iterable[str], settings: DbRealmAuthenticator) -> Document:
    """Return the values by their paths in dot notation; raise for those that cannot be set."""
    values: Document = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator:
            raise _mistake(text, "expected NAME=VALUE")
        if name in values:
            raise _mistake(name, "is given twice")
        values[name] = _read_value(name, value)
    check_names(values, settings)
    return values


def check_names(names: Iterable[str], settings: DbRealmAuthenticator) -> None:
    """Raise for names that are no paths, that overlap, or that have commands of their own."""
    names = list(names)
    for name in names:
        if not all(part and not part.startswith("$") for part in name.split(".")):
            raise _mistake(name, "is not the name of a property")
        if _overlap(name, settings.prop_id) or _overlap(name, "_id"):
            raise _mistake(name, "the id of a user cannot be changed; add another user")
        secrets = (settings.prop_password, settings.prop_ha1)
        if any(secret and _overlap(name, secret) for secret in secrets):
            raise _mistake(name, "set a password with `docgraph users passwd`")
    for name, other in combinations(names, 2):
        if _overlap(name, other):
            raise _mistake(other, f"is a part of {name!r}, or the other way around")


def _overlap(name: str, other: str) -> bool:
    """Return whether one of two paths is the other or contains it."""
    return f"{name}.".startswith(f"{other}.") or f"{other}.".startswith(f"{name}.")


def _read_value(name: str, text: str) -> Any:
    """Return the JSON value; what does not begin like a JSON text, list or object is a text."""
    from docgraph.codec import decode

    try:
        return decode(text)
    except DocgraphError as error:
        if text.startswith(('"', "'", "[", "{")):
            raise _mistake(name, f"the value is not valid JSON: {error.message}") from None
        return text


def _mistake(name: str, what: str) -> StartupError:
    return StartupError(f"--property or --without {name!r}: {what}")
