"""`fileRealmAuthenticator`: users of the configuration or of a file."""

import hmac
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from docgraph.auth.authenticators.file_users import FileRealm
from docgraph.auth.authenticators.sections import FileRealmAuthenticator
from docgraph.auth.passwords import build_ha1
from docgraph.exchange import ConfigError
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import ConfigWarning
from docgraph.runtime import Blocking
from tests.expect import present

pytestmark = pytest.mark.anyio

ADA = {"userid": "ada", "password": "secret", "roles": ["admin", "user"], "team": "x"}
BOB = {"userid": "bob", "password": "secret"}


@pytest.fixture
async def blocking() -> AsyncIterator[Blocking]:
    pool = Blocking(1)
    yield pool
    await pool.close()


async def open_realm(
    blocking: Blocking, *users: dict[str, Any], file: Path | None = None
) -> FileRealm:
    section = FileRealmAuthenticator(
        enabled=True, users=users, conf_file=str(file) if file else None
    )
    realm = FileRealm(section, blocking)
    await realm.provision()
    return realm


async def problems_of(
    blocking: Blocking, *users: dict[str, Any], file: Path | None = None
) -> list[str]:
    with pytest.raises(ConfigError) as stopped:
        await open_realm(blocking, *users, file=file)
    return [str(problem) for problem in stopped.value.problems]


async def test_the_right_password_gives_the_account_with_everything_but_the_password(
    blocking: Blocking,
) -> None:
    """Decision 19: `@user.userid`, `@user.roles` and any extra key."""
    account = present(await (await open_realm(blocking, ADA, BOB)).verify("ada", "secret"))
    assert account.name == "ada"
    assert account.roles == ("admin", "user")
    assert account.kind == "file"
    assert account.properties == {"userid": "ada", "roles": ["admin", "user"], "team": "x"}


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("ada", "Secret"),
        ("ada", ""),
        ("Ada", "secret"),
        ("nobody", "secret"),
        ("", ""),
        ("ada", "\ud800"),
    ],
)
async def test_anything_else_gives_none(blocking: Blocking, user: str, password: str) -> None:
    assert await (await open_realm(blocking, ADA)).verify(user, password) is None


async def test_a_user_without_roles_has_none(blocking: Blocking) -> None:
    account = present(await (await open_realm(blocking, BOB)).find("bob"))
    assert account.roles == ()
    assert account.properties == {"userid": "bob", "roles": []}


async def test_a_user_whose_password_is_null_cannot_log_in_and_gives_a_warning(
    blocking: Blocking,
) -> None:
    seen: list[Event] = []
    subscribe(seen.append)
    try:
        realm = await open_realm(blocking, {"userid": "admin", "password": None, "roles": []})
    finally:
        unsubscribe(seen.append)
    assert await realm.verify("admin", "") is None
    assert await realm.verify("admin", "None") is None
    (warning,) = [one for one in seen if isinstance(one, ConfigWarning)]
    assert "'admin' has no password" in warning.message


async def test_an_unknown_user_takes_as_much_work_as_a_wrong_password(
    blocking: Blocking, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests: list[str] = []
    digest, compare = hmac.digest, hmac.compare_digest

    def count_digest(*given: Any) -> bytes:
        digests.append("digest")
        return digest(*given)

    def count_comparison(*given: Any) -> bool:
        digests.append("comparison")
        return bool(compare(*given))

    monkeypatch.setattr(hmac, "digest", count_digest)
    monkeypatch.setattr(hmac, "compare_digest", count_comparison)
    realm = await open_realm(blocking, ADA, {"userid": "off", "password": None})
    for user in ("ada", "eve", "off"):
        digests.clear()
        assert await realm.verify(user, "wrong") is None
        assert digests == ["digest", "digest", "comparison"]


async def test_digest_gets_what_it_needs(blocking: Blocking) -> None:
    realm = await open_realm(blocking, ADA, {"userid": "off", "password": None})
    expected = build_ha1("SHA-256", "ada", "docgraph", "secret")
    assert await realm.digest_secret("ada", "docgraph", "SHA-256") == expected
    assert await realm.digest_secret("eve", "docgraph", "MD5") is None
    assert await realm.digest_secret("off", "docgraph", "MD5") is None


# --- mistakes -------------------------------------------------------------------------------------


async def test_every_mistake_is_told_at_once_and_no_password_is_shown(blocking: Blocking) -> None:
    problems = await problems_of(
        blocking,
        {"userid": "ada", "password": "hunter2", "roles": "admin"},
        {"userid": 7, "password": "x"},
        {"userid": "bob", "password": 12345},
        {"userid": "eve"},
        {"password": "x"},
        {"userid": "joe", "password": "x", "roles": ["a", 1]},
        {"userid": "sue", "password": ""},
    )
    text = "\n".join(problems)
    assert len(problems) == 7
    for number in range(1, 8):
        assert f"/fileRealmAuthenticator/users[{number}]" in text
    assert "write it in quotes" in text
    assert "password: null" in text
    assert "hunter2" not in text
    assert "12345" not in text


async def test_two_users_of_one_id_stop_the_start(blocking: Blocking) -> None:
    (problem,) = await problems_of(blocking, ADA, BOB, {**ADA, "password": "other"})
    assert "a second user with the id 'ada'" in problem
    assert "users[3]/userid" in problem


# --- a file ---------------------------------------------------------------------------------------


async def test_a_file_wins_over_the_list_and_is_read_once(
    blocking: Blocking, tmp_path: Path
) -> None:
    file = tmp_path / "users.yml"
    file.write_text("users:\n  - {userid: zoe, password: p, roles: [a], age: 3}\n")
    realm = await open_realm(blocking, ADA, file=file)
    file.unlink()
    account = present(await realm.verify("zoe", "p"))
    assert account.properties == {"userid": "zoe", "roles": ["a"], "age": 3}
    assert await realm.verify("ada", "secret") is None


async def test_mistakes_in_a_file_come_with_line_and_column(
    blocking: Blocking, tmp_path: Path
) -> None:
    file = tmp_path / "users.yml"
    file.write_text("users:\n  - userid: a\n    password: x\n  - userid: a\n    password: 5\n")
    (problem,) = await problems_of(blocking, file=file)
    assert problem.startswith(f"{file}:5:5: /users[2]/password: expected text")
    file.write_text("users:\n  - userid: a\n    password: x\n  - userid: a\n    password: y\n")
    (problem,) = await problems_of(blocking, file=file)
    assert problem.startswith(f"{file}:4:5: /users[2]/userid: a second user")
    assert f"the first one is at {file}:2:5" in problem


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"users: {a: 1", "not closed"),
        (b"- a\n- b\n", "there is no list 'users'"),
        (b"", "there is no list 'users'"),
        (b"users: 5\n", "expected a list of users"),
        (b"users: []\nuser: []\n", "unknown key"),
        (b"users:\n  - 5\n", "expected a user"),
        (b"users: \xff\n", "not UTF-8"),
    ],
)
async def test_a_file_that_is_no_list_of_users_stops_the_start(
    blocking: Blocking, tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "users.yml"
    file.write_bytes(content)
    assert message in "\n".join(await problems_of(blocking, file=file))


async def test_a_missing_file_stops_the_start_and_is_named(
    blocking: Blocking, tmp_path: Path
) -> None:
    (problem,) = await problems_of(blocking, file=tmp_path / "none.yml")
    assert f"{tmp_path / 'none.yml'} cannot be read: No such file" in problem
