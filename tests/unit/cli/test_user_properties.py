"""`--property` and `--without` of `docgraph users`: values, and names that are refused."""

from __future__ import annotations

import pytest

from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.cli.user_properties import check_names, read_properties
from docgraph.exchange import StartupError

SETTINGS = DbRealmAuthenticator(prop_id="profile.email", prop_ha1="ha1")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=red", "red"),
        ("a=red=blue", "red=blue"),
        ("a=2026-01-01", "2026-01-01"),
        ("a=", ""),
        ("a=1", 1),
        ("a=null", None),
        ('a="1"', "1"),
        ('a={"b": [true]}', {"b": [True]}),
    ],
)
def test_a_value_is_json_or_a_text(text: str, value: object) -> None:
    assert read_properties([text], SETTINGS) == {"a": value}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["tenant"], "expected NAME=VALUE"),
        (["=x"], "not the name of a property"),
        (["a..b=x"], "not the name of a property"),
        (["a.$b=x"], "not the name of a property"),
        (["a=[1"], "not valid JSON"),
        (["a=1", "a=2"], "given twice"),
        (["a=1", "a.b=2"], "is a part of 'a'"),
        (["_id=x"], "the id of a user cannot be changed"),
        (["_id.x=x"], "the id of a user cannot be changed"),
        (["profile.email=x"], "the id of a user cannot be changed"),
        (["profile={}"], "the id of a user cannot be changed"),
        (["password.x=1"], "users passwd"),
        (["ha1=x"], "users passwd"),
    ],
)
def test_names_and_values_that_cannot_be_set_are_refused(given: list[str], reason: str) -> None:
    with pytest.raises(StartupError, match=reason.replace(".", r"\.")):
        read_properties(given, SETTINGS)


def test_names_to_remove_are_checked_as_well() -> None:
    check_names(["profile.name", "passwords"], SETTINGS)
    with pytest.raises(StartupError, match="users passwd"):
        check_names(["password"], SETTINGS)
