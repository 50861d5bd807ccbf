"""`docgraph migrate restheart`: the configuration file, its overrides and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from docgraph.config import ConfigSources
from docgraph.exchange import ConfigError
from docgraph.server.prepare import SECTIONS, load_tree, prepare
from docgraph_migrate.command import migrate
from docgraph_migrate.convert import Conversion, renumber
from docgraph_migrate.restheart_config import load_actions, load_defaults, load_restheart
from docgraph_migrate.steps import run_conversion

# The defaults that the table does not have, since they are long.
_LONG: dict[tuple[str, str], Any] = {
    ("mongo", "etag-check-policy"): {
        "db": "REQUIRED_FOR_DELETE",
        "coll": "REQUIRED_FOR_DELETE",
        "doc": "OPTIONAL",
    },
}


def build_shipped(version: int = 9) -> dict[str, Any]:
    """The file that RESTHeart ships: every option with its default."""
    shipped: dict[str, Any] = {}
    for (section, option), row in load_actions().items():
        value = _LONG.get((section, option), row.default)
        if option:
            shipped.setdefault(section, {})[option] = value
    if version == 8:
        for section, options in load_defaults()["shipped-8"].items():
            shipped[section] |= options
        del shipped["jwtConfigProvider"], shipped["aggregationSecurity"]
        del shipped["accountsConfig"], shipped["oauthConfig"]
    return shipped


class Migration:
    """One run of the command in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.output = directory / "docgraph.yml"

    def run(self, config: dict[str, Any] | str, *options: str, rho: str = "") -> Result:
        text = config if isinstance(config, str) else yaml.safe_dump(config)
        (self.directory / "restheart.yml").write_text(text)
        command = ["restheart", str(self.directory / "restheart.yml"), "--json", "--offline"]
        command += ["--output", str(self.output), *options]
        return CliRunner(env={"RHO": rho}).invoke(migrate, command)

    def convert(self, config: dict[str, Any] | str, *options: str, rho: str = "") -> dict[str, Any]:
        result = self.run(config, *options, rho=rho)
        assert result.exit_code in (0, 3), (result.output, result.exception)
        written: dict[str, Any] = yaml.safe_load(self.output.read_text()) or {}
        return written

    def list_problems(self) -> list[str]:
        """What `config check` says about the written file."""
        tree = load_tree(ConfigSources(file=self.output, environ={}, directory=self.directory))
        return [str(one) for one in prepare(tree).config.warnings]


def find_less(result: Result) -> list[dict[str, Any]]:
    """The first list of a report."""
    rows = json.loads(result.stdout)
    return [row for row in rows if row["list"] == "less is protected than before"]


@pytest.fixture
def migration(tmp_path: Path) -> Migration:
    return Migration(tmp_path)


@pytest.mark.parametrize("version", [8, 9])
def test_the_shipped_file_becomes_one_without_mistakes(migration: Migration, version: int) -> None:
    written = migration.convert(build_shipped(version))
    assert migration.list_problems() == []
    assert written["mongo"] == {"mongo-mounts": [{"what": "/restheart", "where": "/"}]}
    assert written["graphql"] == {"db": "restheart", "serve-by-id": True, "json-mode": "rest"}
    assert written["acl"] == {"first-role-wins": True}
    assert written["authentication"] == {"anonymous-fallback": True}
    assert written["dbRealmAuthenticator"] == {"users-db": "restheart"}
    assert written["dbAclAuthorizer"] == {"acl-db": "restheart"}
    assert written["basicAuthMechanism"] == {"realm": "RESTHeart Realm"}


def test_absent_sections_have_the_defaults_of_the_plugins(migration: Migration) -> None:
    """Issue 48, 7 and 8: they are not those of the default file."""
    written = migration.convert("{}")
    for off in ("basicAuthMechanism", "tokenBasicAuthMechanism", "rndTokenManager"):
        assert written[off] == {"enabled": False}
    for absent in ("jwtTokenManager", "jwtAuthenticationMechanism", "authCookieSetter"):
        assert absent not in written
    assert written["dbAclAuthorizer"]["root-role"] is None
    assert written["mongo"]["mongo-mounts"][0]["what"] == "/restheart"


def test_the_written_file_is_private_and_replaces_none(migration: Migration) -> None:
    migration.convert("{}")
    assert migration.output.stat().st_mode & 0o777 == 0o600
    before = migration.output.read_text()
    result = migration.run({"mongo": {"max-pagesize": 7}})
    assert result.exception is not None
    assert "exists already" in str(result.exception)
    assert migration.output.read_text() == before


def test_options_that_were_chosen_are_taken_over(migration: Migration) -> None:
    written = migration.convert(
        "mongo: {default-pagesize: 1_0, max-pagesize: 5_000}\n"
        "mongoRealmAuthenticator: {users-db: people, cache-enabled: yes}\n"
        "connection-options: {MAX_ENTITY_SIZE: 2_000_000, MAX_PARAMETERS: 1000}\n"
        "basicAuthMechanism: {enabled: true, authenticator: fileRealmAuthenticator}\n"
        "fileRealmAuthenticator: {enabled: yes, users: [{userid: ann, password: x1}]}\n"
        "logging: {log-level: DEBUG}\n"
    )
    assert written["mongo"] | {"mongo-mounts": ...} == {
        "mongo-mounts": ...,
        "default-pagesize": 10,
        "max-pagesize": 5000,
    }
    assert written["dbRealmAuthenticator"] == {"users-db": "people", "cache-enabled": True}
    assert written["connection-options"] == {"max-body-size": 2_000_000}
    assert written["basicAuthMechanism"] == {
        "authenticator": "fileRealmAuthenticator",
        "realm": "RESTHeart Realm",
    }
    assert written["logging"] == {"level": "debug"}


def test_overrides_win_over_the_file_and_the_variable_over_both(migration: Migration) -> None:
    overrides = migration.directory / "over.yml"
    overrides.write_text("/mongo/max-pagesize: 200\n/graphql/max-limit: 300\n")
    config = {
        "mongo": {"max-pagesize": 150},
        "fileRealmAuthenticator": {
            "enabled": True,
            "users": [{"userid": "ann", "password": "x"}, {"userid": "bob", "password": "y"}],
        },
    }
    rho = "/graphql/max-limit->400;/fileRealmAuthenticator/users[userid='bob']/password->'z'"
    written = migration.convert(config, "-o", str(overrides), "--env", rho=rho)
    assert written["mongo"]["max-pagesize"] == 200
    assert written["graphql"]["max-limit"] == 400
    users = written["fileRealmAuthenticator"]["users"]
    assert [(one["userid"], one["password"]) for one in users] == [("ann", "x"), ("bob", "z")]


def test_a_path_of_an_override_can_select_elements_in_elements(migration: Migration) -> None:
    rules = [{"role": "a", "predicate": "path('/x')", "_lists": [{"n": "1"}, {"n": "2", "v": 3}]}]
    other = {"role": "z", "predicate": "path('/z')"}
    config = {"fileAclAuthorizer": {"enabled": True, "permissions": [other, *rules]}}
    path = """/fileAclAuthorizer/permissions[role='a']/_lists[n="2"]/v"""
    written = migration.convert(config, "--env", rho=f"{path}->5")
    changed = next(one for one in written["fileAclAuthorizer"]["permissions"] if one["role"] == "a")
    assert changed["_lists"] == [{"n": "1"}, {"n": "2", "v": 5}]


@pytest.mark.parametrize("name", ["over.conf", "over.yml"])
def test_an_override_that_is_not_utf_8_is_an_error_that_names_it(
    migration: Migration, name: str
) -> None:
    (migration.directory / name).write_bytes(b"/mongo/x->\xff")
    result = migration.run("{}", "-o", str(migration.directory / name))
    assert isinstance(result.exception, ConfigError)
    assert f"{name} cannot be read: not UTF-8" in str(result.exception.problems)


def test_merge_keys_are_applied(migration: Migration) -> None:
    """A restriction may come by one, and would be lost."""
    written = migration.convert(
        """
        base: &base {max-pagesize: 7, default-pagesize: 5}
        other: &other {max-pagesize: 8, cursor-batch-size: 3}
        mongo: {<<: [*base, *other], default-pagesize: 6}
        """
    )
    assert written["mongo"]["max-pagesize"] == 7
    assert written["mongo"]["default-pagesize"] == 6


def test_the_variable_counts_only_when_asked_for(migration: Migration) -> None:
    written = migration.convert("{}", rho="/graphql/max-limit->400")
    assert "max-limit" not in written["graphql"]


def test_the_report_has_what_is_not_supported_and_no_secret(migration: Migration) -> None:
    secret = "a-key-of-more-than-thirty-two-bytes-which-is-secret"
    result = migration.run(
        {
            "jwtConfigProvider": {"key": secret},
            "jwtTokenManager": {"enabled": True},
            "ajp-listener": {"enabled": True},
            "https-listener": {"enabled": True, "keystore-path": "k.jks", "keystore-password": "p"},
            "emails": {"enabled": True, "smtp-password": "hunter2"},
            "my-plugin": {"enabled": True},
        }
    )
    assert result.exit_code == 3, result.output
    report = {row["where"]: row["list"] for row in json.loads(result.stdout)}
    assert report["ajp-listener.enabled"] == "answers differ"
    assert report["https-listener.keystore-path"] == "more is refused than before"
    assert report["my-plugin"] == "less is protected than before"
    assert secret not in result.output
    assert "hunter2" not in result.output
    assert secret in migration.output.read_text()


def test_file_rules_keep_the_order_in_which_they_are_tried() -> None:
    """The lowest priority first, of equal ones the last in the list, none last."""
    rules = [
        {"_id": "none"},
        {"_id": "second", "priority": 1},
        {"_id": "first", "priority": 0},
        {"_id": "before-second", "priority": 1},
    ]
    tried = sorted(renumber(rules), key=lambda rule: -rule["priority"])
    assert [rule["_id"] for rule in tried] == ["first", "before-second", "second", "none"]
    assert len({rule["priority"] for rule in tried}) == len(rules)
    assert renumber(["no rule", {"_id": "rule"}])[1] == "no rule"  # it is not lost


def test_clients_of_version_9_find_their_token_endpoints(migration: Migration) -> None:
    written = migration.convert(build_shipped(9))
    expected = {"uri": "/token", "oauth-style": True, "token-headers": "service"}
    assert written["authTokenService"] == expected
    assert written["authCookieSetter"]["name"] == "rh_auth"


def test_a_disabled_provider_of_keys_leaves_tokens_off(migration: Migration) -> None:
    config = build_shipped()
    key = "a-key-of-more-than-thirty-two-bytes-which-is-secret"
    config["jwtConfigProvider"] |= {"enabled": False, "key": key}
    written = migration.convert(config)
    assert "jwtTokenManager" not in written
    assert "jwtAuthenticationMechanism" not in written


def test_version_8_has_the_token_endpoints_of_docgraph(migration: Migration) -> None:
    assert "authTokenService" not in migration.convert("{}")


def test_another_path_of_the_tokens_stays(migration: Migration) -> None:
    config = {"jwtConfigProvider": {}, "authTokenService": {"uri": "/login"}}
    expected = {"uri": "/login", "oauth-style": True, "token-headers": "service"}
    assert migration.convert(config)["authTokenService"] == expected


def test_a_disabled_token_service_stays_off(migration: Migration) -> None:
    config = {"jwtConfigProvider": {}, "authTokenService": {"enabled": False}}
    assert migration.convert(config)["authTokenService"] == {"enabled": False}


@pytest.mark.parametrize(
    ("config", "needed", "is_kept"),
    [
        ({}, set(), False),
        ({}, {"authentication.anonymous-fallback"}, True),
        ({"fullAuthorizer": {"enabled": True, "authentication-required": False}}, set(), True),
        ({"fullAuthorizer": {"enabled": True}}, set(), False),
    ],
)
def test_options_that_open_something_are_set_only_where_they_are_needed(
    tmp_path: Path, config: dict[str, Any], needed: set[str], is_kept: bool
) -> None:
    file = tmp_path / "restheart.yml"
    file.write_text(yaml.safe_dump(config))
    conversion = Conversion(load_restheart(file), tmp_path, SECTIONS)
    run_conversion(conversion)
    conversion.drop_unneeded(needed)
    assert ("authentication" in conversion.sections) is is_kept
    assert "serve-by-id" not in conversion.sections["graphql"]
    assert conversion.sections["acl"] == {"first-role-wins": True}


def test_the_sections_are_converted_once(tmp_path: Path) -> None:
    file = tmp_path / "restheart.yml"
    file.write_text("mongo: {max-pagesize: 5_000}")
    config = load_restheart(file)
    assert config.sections is config.sections
    assert config.get("mongo", "max-pagesize") == 5000


def test_a_public_file_rule_applies_to_more_callers_and_is_reported(migration: Migration) -> None:
    rules = [
        {"roles": ["$unauthenticated"], "predicate": "path('/x')"},
        {"role": "user", "predicate": "path('/x')", "foo": 1, "mongo": {"readFilter": {"a": 1}}},
        {"role": "user", "predicate": "path('/y')"},
    ]
    config = {"fileAclAuthorizer": {"enabled": True, "permissions": rules}}
    result = migration.run(config, "--from-version", "9")
    assert result.exit_code == 3, result.output
    (left, public) = yaml.safe_load(migration.output.read_text())["fileAclAuthorizer"][
        "permissions"
    ]
    assert (left["predicate"], public["roles"]) == ("path('/y')", ["$unauthenticated"])
    reported = {row["id"].partition(":")[0] for row in find_less(result)}
    assert reported == {"public-rule", "rule-not-used"}  # the second is dropped: see its filter


@pytest.mark.parametrize("in_own_file", [False, True])
def test_quoted_texts_of_filters_stay_texts(migration: Migration, in_own_file: bool) -> None:
    """A filter of another type shows other rows."""
    rules = """
  permissions:
    - role: user
      predicate: path('/x')
      mongo: {readFilter: {a: {$ne: "yes"}, b: '1_0', c: yes, d: 1_0, e: !!str off}}
"""
    text = "fileAclAuthorizer:\n  enabled: yes" + rules
    if in_own_file:
        (migration.directory / "acl.yml").write_text(rules.replace("\n  ", "\n"))
        text = "fileAclAuthorizer: {enabled: yes, conf-file: acl.yml}"
    (rule,) = migration.convert(text)["fileAclAuthorizer"]["permissions"]
    expected = {"a": {"$ne": "yes"}, "b": "1_0", "c": True, "d": 10, "e": "off"}
    assert rule["mongo"]["readFilter"] == expected


@pytest.mark.parametrize("config", ["logging: 5", "mongo: []", "graphql: text", "core: null"])
def test_a_section_that_is_no_mapping_sets_nothing(migration: Migration, config: str) -> None:
    assert migration.convert(config)["graphql"]["db"] == "restheart"


def test_a_restriction_that_is_not_supported_is_the_exit_code(migration: Migration) -> None:
    version = ("--from-version", "9")
    result = migration.run({"graphql": {"restrict-mapping-db": True}}, *version)
    assert result.exit_code == 3, result.output
    assert [row["where"] for row in find_less(result)] == ["graphql.restrict-mapping-db"]
    migration.output.unlink()
    accept = ("--accept", "not-supported:graphql.restrict-mapping-db")
    config = {"graphql": {"restrict-mapping-db": True}}
    assert migration.run(config, *version, *accept).exit_code == 0
    migration.output.unlink()
    unknown = migration.run("{}", *version, "--accept", "cors:CORS")  # it is not of the first list
    assert unknown.exit_code == 2, unknown.output
    migration.output.unlink()
    config["graphql"]["restrict-mapping-db"] = False
    assert migration.run(config, *version).exit_code == 0
