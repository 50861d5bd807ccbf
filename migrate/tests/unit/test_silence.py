"""Decision 61: what would permit more has a line in the first list, or is written as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from docgraph.exchange import ConfigError
from docgraph_migrate.command import migrate
from docgraph_migrate.survey import check_hashes

FILES = Path(__file__).parent / "restheart"
KEY = "a-key-of-more-than-thirty-two-bytes-for-the-tests"
Rows = list[dict[str, Any]]


class Converted(NamedTuple):
    """The new file, and the rows of the report."""

    file: dict[str, Any]
    rows: Rows

    def list_codes(self, name: str = "less") -> set[str]:
        """The codes of a list that begins with this word."""
        return {row["id"].partition(":")[0] for row in self.rows if row["list"].startswith(name)}


def convert(
    directory: Path, config: dict[str, Any] | None, *options: str, version: str = "9", rho: str = ""
) -> Converted:
    """Convert a configuration, or overrides only; raise what stops the command."""
    command = ["restheart", "--offline", "--json", "--output", str(directory / "new.yml")]
    if config is not None:
        (directory / "old.yml").write_text(yaml.safe_dump(config))
        command.append(str(directory / "old.yml"))
    command += ["--from-version", version] if version else []
    command += ["--env"] if rho else []
    (directory / "new.yml").unlink(missing_ok=True)
    result = CliRunner(env={"RHO": rho}).invoke(migrate, [*command, *options])
    if isinstance(result.exception, ConfigError):
        raise result.exception
    assert result.exit_code in (0, 3), (result.output, result.exception)
    return Converted(yaml.safe_load((directory / "new.yml").read_text()), json.loads(result.stdout))


JWT = {"jwtAuthenticationMechanism": {"enabled": True, "rolesClaim": "roles"}}


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"jwtConfigProvider": {"key": KEY, "audience": ["a", "b"]}, **JWT}, "any-audience"),
        (
            {"jwtConfigProvider": {"key": KEY}, "identityAuthMechanism": {"enabled": True}, **JWT},
            "identity-last",
        ),
        ({"mongoAclAuthorizer": {"no-such-option": 1}}, "unknown-option"),
        ({"globalPredicatesVetoer": {"enabled": True}}, "unknown-section"),
        ({"core": {"plugins-directory": "/opt/plugins"}}, "not-supported"),
    ],
)
def test_what_permits_more_is_in_the_first_list(
    tmp_path: Path, config: dict[str, Any], code: str
) -> None:
    assert convert(tmp_path, config).list_codes() == {code}


def test_requests_without_an_origin_are_in_the_first_list_unless_the_file_decides(
    tmp_path: Path,
) -> None:
    vetoer = {"enabled": True, "whitelist": ["https://app.example.org"]}

    silent = convert(tmp_path, {"originVetoer": vetoer})
    decided = convert(tmp_path, {"originVetoer": {**vetoer, "allow-missing-origin": True}})
    without_list = convert(tmp_path, {"originVetoer": {"enabled": True}})

    assert "missing-origin" in silent.list_codes()
    assert "missing-origin" not in decided.list_codes() | without_list.list_codes()


def test_one_audience_and_no_identity_have_no_line(tmp_path: Path) -> None:
    config = {"jwtConfigProvider": {"key": KEY, "audience": ["a"]}, **JWT}
    found = convert(tmp_path, config)
    assert found.list_codes() == set()
    mechanism = found.file["jwtAuthenticationMechanism"]
    assert mechanism["leeway"] == 0  # there, clocks may not differ


def test_tokens_of_version_8_keep_their_audience(tmp_path: Path) -> None:
    manager = {"enabled": True, "key": KEY, "issuer": "me", "audience": "mine"}
    found = convert(tmp_path, {"jwtTokenManager": manager}, version="")
    assert found.file["jwtTokenManager"]["audience"] == "mine"
    assert found.list_codes() == set()


@pytest.mark.parametrize(
    "section",
    ["ping", "database-probe", "metrics", "graphql", "mongo", "roles", "authTokenService"],
)
@pytest.mark.parametrize("is_secured", [False, True])
def test_a_service_that_needs_a_login_still_does(
    tmp_path: Path, section: str, is_secured: bool
) -> None:
    found = convert(tmp_path, {section: {"secured": is_secured}})
    default = section in {"metrics", "graphql", "mongo"}
    assert found.file.get(section, {}).get("secured", default) is is_secured


@pytest.mark.parametrize(
    ("config", "is_guessed"),
    [
        ({"mongo": {"max-pagesize": 5}}, True),
        ({"authCookieSetter": {"ttl": 5}}, False),
        ({"aggregationSecurity": {"enabled": True}}, False),
        ({"jwtTokenManager": {"key": KEY, "issuer": "me"}}, False),
    ],
)
def test_a_version_that_nothing_tells_is_in_the_first_list(
    tmp_path: Path, config: dict[str, Any], is_guessed: bool
) -> None:
    """The defaults of version 8 permit more."""
    assert ("version" in convert(tmp_path, config, version="").list_codes()) is is_guessed
    assert "version" not in convert(tmp_path, config, version="8").list_codes()


def test_a_disabled_user_of_a_file_is_not_enabled(tmp_path: Path) -> None:
    users = [
        {"userid": "admin", "password": None, "roles": ["admin"]},
        {"userid": "ann", "password": "a-password", "roles": ["user"]},
    ]
    config = {
        "fileRealmAuthenticator": {"enabled": True, "users": users},
        "basicAuthMechanism": {"enabled": True, "authenticator": "fileRealmAuthenticator"},
    }
    found = convert(tmp_path, config)
    assert found.file["fileRealmAuthenticator"]["users"] == users[1:]
    assert "new-password" not in found.list_codes("more")


def test_overrides_name_elements_of_the_lists_of_the_default_file(tmp_path: Path) -> None:
    rho = (
        "/fileRealmAuthenticator/enabled->true;"
        "/fileRealmAuthenticator/users[userid='admin']/password->'a-password';"
        "/basicAuthMechanism/authenticator->'fileRealmAuthenticator';"
        "/fileAclAuthorizer/enabled->true;"
        "/mongo/mongo-mounts[1]/where->'/api'"
    )
    found = convert(tmp_path, None, version="", rho=rho).file
    (user,) = found["fileRealmAuthenticator"]["users"]
    assert user == {"userid": "admin", "password": "a-password", "roles": ["admin"]}
    (rule,) = found["fileAclAuthorizer"]["permissions"]
    assert (rule["role"], rule["predicate"]) == ("admin", "path-prefix('/')")
    assert found["mongo"]["mongo-mounts"] == [{"what": "/restheart", "where": "/api"}]


def test_a_line_about_a_rule_has_its_position_in_the_old_file(tmp_path: Path) -> None:
    """A rule that sets properties of documents narrows, too; priorities change the order."""
    merge = {"mergeRequest": {"owner": "@user._id"}}
    rules = [
        {"role": "user", "predicate": "path('/a')", "priority": 9},
        "no rule",
        {"role": "user", "predicate": "no-such(1)", "priority": 1, "mongo": merge},
    ]
    config = {"fileAclAuthorizer": {"enabled": True, "permissions": rules}}
    with pytest.raises(ConfigError):
        convert(tmp_path, config)
    rules[1] = rules[0]
    found = convert(tmp_path, config)
    assert {row["id"] for row in found.rows if row["list"].startswith("less")} == {
        "rule-not-used:fileAclAuthorizer.permissions[2]"
    }


def test_rules_of_a_corrected_file_are_compared(tmp_path: Path) -> None:
    rules = [
        {"role": "$unauthenticated", "predicate": "path('/a')"},
        {"role": "user", "predicate": "path('/b')"},
    ]
    config = {"fileAclAuthorizer": {"enabled": True, "permissions": rules}}
    assert convert(tmp_path, config).list_codes() == {"public-rule"}
    new = tmp_path / "docgraph.yml"
    file = yaml.safe_load((tmp_path / "new.yml").read_text())
    file["fileAclAuthorizer"]["permissions"] = rules[1:]
    new.write_text(yaml.safe_dump(file))
    command = ["restheart", str(tmp_path / "old.yml"), "--offline", "--config", str(new)]
    result = CliRunner().invoke(migrate, [*command, "--from-version", "9"])
    assert result.exit_code == 0, result.output


def test_a_listener_without_a_certificate_stops_or_is_off(tmp_path: Path) -> None:
    listener = {"enabled": True, "keystore-path": "k.jks", "keystore-password": "hidden"}
    config: dict[str, Any] = {"https-listener": listener}
    found = convert(tmp_path, config)
    assert "https-listener" not in found.file
    assert "keystore" in found.list_codes("more")
    config["http-listener"] = {"enabled": False}
    with pytest.raises(ConfigError) as refused:
        convert(tmp_path, config)
    (problem,) = refused.value.problems
    assert (problem.path, "old.yml:" in problem.origin) == ("/https-listener/keystore-path", True)
    assert not (tmp_path / "new.yml").exists()


def test_digest_that_could_not_verify_hashed_passwords_is_off(tmp_path: Path) -> None:
    found = convert(tmp_path, {"digestAuthMechanism": {"enabled": True}})
    assert "digest-off" in found.list_codes("more")
    assert not found.file.get("digestAuthMechanism", {}).get("enabled")


def test_without_an_authorizer_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        convert(tmp_path, {"mongoAclAuthorizer": {"enabled": False}})
    (problem,) = refused.value.problems
    assert problem.path == "/mongoAclAuthorizer/enabled"
    assert "fullAuthorizer" not in str(problem)  # which would open everything


@pytest.mark.parametrize("name", sorted(one.name for one in FILES.iterdir()))
def test_each_line_has_a_location_an_example_and_a_remedy(tmp_path: Path, name: str) -> None:
    config = yaml.safe_load((FILES / name).read_text())
    for row in convert(tmp_path, config, version="").rows:
        assert all(row[key] for key in ("where", "what", "example", "remedy")), row
        assert "secret" not in row["example"], row
        assert "$2a$" not in row["example"], row


def test_users_whose_hashes_are_accepted_in_one_of_the_servers_only() -> None:
    rest = "a" * 53
    users = [
        {"_id": "both", "password": f"$2a$12${rest}"},
        {"_id": "here", "password": f"$2b$12${rest}"},
        {"_id": "there", "password": f"$2a$15${rest}"},
        {"_id": "none", "password": f"$2y$15${rest}"},
        {"_id": "plain", "password": "secret"},
        {"_id": "without"},
    ]
    found = {one.code: one.where for one in check_hashes(users, "password")}
    assert found == {"foreign-hash": "users here", "costly-hash": "users there"}
