"""Secrets are never shown: not by `config show`, not in messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from docgraph.config import PluginConfig, decode, show
from docgraph.config.options import is_secret, mask, mask_connection_string
from docgraph.server.prepare import SECTIONS
from tests.unit.config.harness import KEY, load_text, messages_of


class Mailer(PluginConfig, frozen=True):
    """A plugin whose author did not think of marking secrets."""

    smtp_password: str = ""
    api_key: str = ""
    keyboard: str = ""
    accounts: tuple[dict[str, str | int], ...] = ()


def test_no_secret_is_shown(tmp_path: Path) -> None:
    tree = load_text(
        tmp_path,
        f"""\
mclient:
  connection-string: mongodb://user:hunter2@db.example/x?tlsCertificateKeyFilePassword=hunter2
jwtAuthenticationMechanism: {{key: hunter2-{KEY}}}
jwtTokenManager: {{key: hunter2-{KEY}}}
digestAuthMechanism: {{key: hunter2}}
dbRealmAuthenticator: {{create-user: false, create-user-document: '{{"password": "hunter2"}}'}}
fileRealmAuthenticator: {{users: [{{userid: a, password: hunter2, PWD: hunter2, roles: []}}]}}
mailer: {{smtp-password: hunter2, api-key: hunter2, keyboard: qwerty,
  accounts: [{{secret: 7, size: 8}}]}}
""",
    )

    text = show(tree, decode(tree, {**SECTIONS, "mailer": Mailer}))

    assert "hunter2" not in text
    assert "mongodb://user:********@db.example/x?" in text
    assert "keyboard: qwerty" in text
    assert '{secret: "********", size: 8}' in text


@pytest.mark.parametrize(
    "text",
    [
        "jwtTokenManager: {key: [hunter2]}",
        "jwtTokenManager: {key: {hunter2: hunter2}}",
        "mclient: {connection-string: hunter2}",
        "mclient: {connection-string: 'user:hunter2@host'}",
        "core: {base-url: 'ftp://user:hunter2@host'}",
        "mailer: {api-key: [hunter2]}",
        'otel: {headers: {authorization: "hunter2\\n"}}',
        'otel: {headers: {"authorization Bearer hunter2": hunter2}}',
        'otel: {headers: {"": hunter2}}',
    ],
)
def test_messages_never_repeat_a_secret(tmp_path: Path, text: str) -> None:
    messages = messages_of(tmp_path, text, sections={**SECTIONS, "mailer": Mailer})

    assert messages
    assert not any("hunter2" in message for message in messages)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("mongodb://h/x", "mongodb://h/x"),
        ("mongodb://user@h/x", "mongodb://user@h/x"),
        ("mongodb://user:pw@h1,h2/x", "mongodb://user:********@h1,h2/x"),
        ("mongodb+srv://user:p@/:w@h/x?a=1", "mongodb+srv://user:********@h/x?a=1"),
        (
            "mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:t&w=1",
            "mongodb://h/?authMechanismProperties=********&w=1",
        ),
    ],
)
def test_passwords_in_addresses_are_masked(address: str, shown: str) -> None:
    assert mask_connection_string(address) == shown


@pytest.mark.parametrize(
    "name", ["password", "dbPassword", "pwd", "client-secret", "key", "apiKey"]
)
def test_names_betray_secrets(name: str) -> None:
    assert is_secret(name, {})


@pytest.mark.parametrize("name", ["keyboard", "monkey-business", "name", "keys-limit"])
def test_other_names_do_not(name: str) -> None:
    assert not is_secret(name, {})


def test_the_type_has_the_last_word() -> None:
    assert not is_secret("key", {"secret": False})
    assert is_secret("x", {"secret": True})


def test_switches_and_empty_values_are_shown() -> None:
    assert mask("password", False, {}) is False
    assert mask("password", None, {}) is None
    assert mask("password", "", {}) == ""
