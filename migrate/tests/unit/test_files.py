"""Six plausible configurations of RESTHeart: the new file starts, and protects as much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner, Result

from docgraph.exchange import ConfigError
from docgraph.tools.configuration import check_file
from docgraph_migrate.command import migrate

FILES = Path(__file__).parent / "restheart"
LESS, MORE, ANSWERS = (
    "less is protected than before",
    "more is refused than before",
    "answers differ",
)


class Migrated(NamedTuple):
    """The new file, and the ids of the report by list."""

    file: dict[str, Any]
    less: list[str]
    more: list[str]
    answers: list[str]
    code: int


def run(tmp_path: Path, *options: str) -> Result:
    command = ["restheart", *options, "--offline", "--json"]
    return CliRunner().invoke(migrate, [*command, "--output", str(tmp_path / "docgraph.yml")])


def convert(tmp_path: Path, *options: str) -> Migrated:
    result = run(tmp_path, *options)
    assert result.exit_code in (0, 3), (result.output, result.exception)
    new = tmp_path / "docgraph.yml"
    check_file(new)
    rows = json.loads(result.stdout)
    less, more, answers = (
        [row["id"] for row in rows if row["list"] == name] for name in (LESS, MORE, ANSWERS)
    )
    return Migrated(yaml.safe_load(new.read_text()), less, more, answers, result.exit_code)


def convert_file(tmp_path: Path, name: str) -> Migrated:
    return convert(tmp_path, str(FILES / f"{name}.yml"))


def test_a_browser_application(tmp_path: Path) -> None:
    """Items 4, 5 and 6: secure cookies of 15 minutes, the list of origins, five attempts."""
    found = convert_file(tmp_path, "browser")
    setter = found.file["authCookieSetter"]
    assert setter == {
        "enabled": True,
        "name": "rh_auth",
        "domain": "app.example.org",
        "expires-ttl": 900,
    }  # and `secure`, which is the default of docgraph
    origins = ["https://restheart.org", "http://localhost"]
    assert found.file["originVetoer"] == {"enabled": True, "whitelist": origins}
    assert found.file["bruteForceAttackGuard"] == {"max-failed-attempts": 5}
    assert (found.less, found.code) == (["missing-origin:originVetoer.allow-missing-origin"], 3)
    assert "secure-cookie:authCookieSetter.secure" in found.more


def test_tokens_of_a_provider(tmp_path: Path) -> None:
    """Item 11: foreign claims turn cookies off, which carried a token that nothing accepted."""
    found = convert_file(tmp_path, "foreign-jwt")
    mechanism = found.file["jwtAuthenticationMechanism"]
    assert (mechanism["usernameClaim"], mechanism["rolesClaim"]) == ("email", "groups")
    assert "algorithm" not in mechanism  # HS256, as jwtTokenManager
    assert "authCookieSetter" not in found.file
    assert {one.partition(":")[0] for one in found.more} >= {"cookies-off", "algorithm", "jwt-exp"}
    assert found.less == []


def test_users_and_rules_of_files(tmp_path: Path) -> None:
    found = convert_file(tmp_path, "files-only")
    rules = found.file["fileAclAuthorizer"]["permissions"]
    assert [rule["role"] for rule in rules] == ["admin", "user"]  # one cannot be read
    assert "rule-not-used:fileAclAuthorizer.permissions[1]" in found.more
    assert found.file["mongo"]["mongo-mounts"] == [{"what": "/restheart", "where": "/data"}]
    admin, ann = found.file["fileRealmAuthenticator"]["users"]
    assert admin["password"] != "secret"
    assert ann["password"] == "a-good-password"
    assert any(one.startswith("new-password:") for one in found.more)
    assert "acl" not in found.file or "order" not in found.file["acl"]


def test_cookies_without_a_setter(tmp_path: Path) -> None:
    found = convert_file(tmp_path, "no-setter")
    assert "authCookieHandler" not in found.file
    assert "cookies-off:authCookieSetter.enabled" in found.more
    keys = [found.file[name]["key"] for name in ("jwtTokenManager", "jwtAuthenticationMechanism")]
    assert keys[0] == keys[1] != "short-key"
    assert "new-key:jwtConfigProvider.key" in found.more
    assert found.less == []


def test_rules_of_two_sources(tmp_path: Path) -> None:
    """Item 7 and 9: no root role, and the file decides first."""
    found = convert_file(tmp_path, "two-sources")
    assert found.file["acl"] == {"first-role-wins": True, "order": "file-first"}
    assert found.file["dbAclAuthorizer"]["root-role"] is None
    assert "jwtTokenManager" not in found.file
    assert found.file["rndTokenManager"] == {"enabled": False}


def test_version_8_with_its_published_key(tmp_path: Path) -> None:
    found = convert_file(tmp_path, "old")
    key = found.file["jwtTokenManager"]["key"]
    assert key == found.file["jwtAuthenticationMechanism"]["key"] != "secret"
    assert found.file["authCookieSetter"]["expires-ttl"] == 3600
    assert "create-user-document" not in found.file["dbRealmAuthenticator"]
    assert found.file["originVetoer"]["allow-missing-origin"] is False
    assert found.less == ["bound:mongoRealmAuthenticator.bcrypt-complexity"]
    assert found.code == 3
    assert "bound:graphql.app-cache-ttr" in found.answers


@pytest.mark.parametrize("version", ["8", "9"])
def test_the_default_file_of_each_version_has_no_line_for_what_is_off(
    tmp_path: Path, version: str
) -> None:
    """An installation with overrides only has the default file."""
    override = tmp_path / "over.yml"
    override.write_text("/mongo/max-pagesize: 500\n")
    found = convert(tmp_path, "-o", str(override), "--from-version", version)
    assert found.file["mongo"]["max-pagesize"] == 500
    assert found.file["basicAuthMechanism"] == {"realm": "RESTHeart Realm"}
    assert "root-role" not in found.file["dbAclAuthorizer"]  # admin in both
    is_old = version == "8"
    assert ("jwtTokenManager" in found.file) is not is_old
    assert found.less == []
    assert len(found.more) + len(found.answers) < 15, (found.more, found.answers)


def test_an_override_that_is_given_as_the_file_is_refused(tmp_path: Path) -> None:
    override = tmp_path / "over.yml"
    override.write_text("/mongo/max-pagesize: 500\n")
    result = run(tmp_path, str(override))
    assert isinstance(result.exception, ConfigError)
    assert f"docgraph migrate restheart -o {override}" in str(result.exception)
    assert not (tmp_path / "docgraph.yml").exists()


def test_json_with_comments_is_read(tmp_path: Path) -> None:
    override = tmp_path / "over.jsonc"
    override.write_text(
        '{ // of the team\n  "/mongo/uri": "/a//b", /* twice */ "/graphql/uri": "/g" }'
    )
    second = tmp_path / "more.conf"
    second.write_text("/graphql/uri->'/gq'\n")
    found = convert(tmp_path, "-o", str(override), "-o", str(second))
    assert found.file["mongo"]["uri"] == "/a//b"
    assert found.file["graphql"]["uri"] == "/gq"


def test_a_file_that_cannot_work_is_not_written_and_its_line_is_named(tmp_path: Path) -> None:
    old = tmp_path / "restheart.yml"
    old.write_text(
        "mongoRealmAuthenticator:\n"
        '  create-user-document: \'{"_id": "a", "password": "plain", "roles": []}\'\n'
    )
    result = run(tmp_path, str(old))
    assert isinstance(result.exception, ConfigError)
    (problem,) = result.exception.problems
    assert problem.origin == f"{old}:2:3"
    assert problem.hint
    assert not (tmp_path / "docgraph.yml").exists()


def test_a_corrected_file_can_be_compared_again(tmp_path: Path) -> None:
    old = FILES / "old.yml"
    first = run(tmp_path, str(old))
    assert first.exit_code == 3
    new = tmp_path / "docgraph.yml"
    before = new.read_text()
    accept = ("--accept", "bound:mongoRealmAuthenticator.bcrypt-complexity")
    again = run(tmp_path, str(old), "--config", str(new), *accept)
    assert again.exit_code == 0, (again.output, again.exception)
    assert new.read_text() == before


def test_rules_that_never_matched_there_are_in_the_first_list(tmp_path: Path) -> None:
    """Item 10, for rules of a file; those of the database have a test with one."""
    rules = [
        {"role": "$authenticated", "predicate": "path('/a')"},
        {"role": "user", "predicate": "path('/b') and equals(@qparams['x'], 'y')"},
        {"role": "user", "predicate": "path('/c') and bson-request-prop-equals(key=a, value=1)"},
        {"role": "user", "predicate": "path('/d')"},
    ]
    old = tmp_path / "restheart.yml"
    old.write_text(yaml.safe_dump({"fileAclAuthorizer": {"enabled": True, "permissions": rules}}))
    found = convert(tmp_path, str(old), "--from-version", "9")
    assert [one.partition(":")[0] for one in found.less] == ["idle-rule"] * 3, found
