"""Strict decoding: all mistakes at once, each with its place and the way out."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from docgraph.auth.authenticators.sections import FileRealmAuthenticator
from docgraph.auth.mechanisms.sections import JwtAuthenticationMechanism
from docgraph.config import ConfigSources, PluginConfig, decode, load, peek
from docgraph.config.section import Section, View
from docgraph.exchange.errors import ConfigError, Problem
from docgraph.graphql.sections import Graphql
from docgraph.runtime.sections import Core
from docgraph.server.prepare import SECTIONS
from docgraph.server.sections import ConnectionOptions, HttpsListener
from tests.unit.config.harness import (
    decode_text,
    load_text,
    messages_of,
    problems_of,
)

TEN_MISTAKES = """\
graphql:
  max-limt: 500
  default-limit: abc
  query-time-limit: -5
  verbose: yes
  json-mode: canonicall
http-listner:
  port: 1
https-listener:
  enabled: true
  certificate: cert.pem
logging:
  level: [info]
core:
  workers: "2"
  max-limit: 5
"""


def test_ten_mistakes_in_one_file_give_ten_messages(tmp_path: Path) -> None:
    assert messages_of(tmp_path, TEN_MISTAKES) == [
        "docgraph.yml:2:3: /graphql/max-limt: unknown option (did you mean 'max-limit'?)",
        "docgraph.yml:3:18: /graphql/default-limit: expected a whole number, got text 'abc'",
        "docgraph.yml:4:21: /graphql/query-time-limit: must be between 0 and 86400000, got -5",
        "docgraph.yml:5:12: /graphql/verbose: expected true or false, got text 'yes' "
        "(write true, without quotes)",
        "docgraph.yml:6:14: /graphql/json-mode: expected 'canonical', 'plain', 'relaxed', "
        "'rest' or 'standard', got text 'canonicall' (did you mean 'canonical'?)",
        "docgraph.yml:7:1: /http-listner: unknown section (did you mean 'http-listener'?)",
        "docgraph.yml:10:3: /https-listener/enabled: https-listener is on and has no key "
        "(set /https-listener/key to the path of a PEM file)",
        "docgraph.yml:13:10: /logging/level: expected 'debug', 'error', 'info' or 'warning', "
        "got a list",
        "docgraph.yml:15:12: /core/workers: expected a whole number, got text '2' "
        "(write 2, without quotes)",
        "docgraph.yml:16:3: /core/max-limit: unknown option (it belongs at /graphql/max-limit)",
    ]


def test_mistakes_of_all_sources_come_together(tmp_path: Path) -> None:
    (tmp_path / "docgraph.yml").write_text("core:\n  workers: x\n  workers: y\n")
    (tmp_path / "o.conf").write_text("/core/nam -> x\nbroken\n")
    sources = ConfigSources(
        overrides_file=Path("o.conf"),
        settings=("/graphql/uri=5",),
        environ={"DOCGRAPH_OVERRIDES": "/nothing -> 1", "DOCGRAPH_MONGO": "x"},
        directory=tmp_path,
    )

    with pytest.raises(ConfigError) as caught:
        decode(load(sources), SECTIONS)

    assert {problem.origin for problem in caught.value.problems} == {
        "environment",
        "docgraph.yml:2:12",
        "docgraph.yml:3:3",
        "o.conf:1:1",
        "o.conf:2:1",
        "DOCGRAPH_OVERRIDES",
        "--set",
    }


def test_a_syntax_error_does_not_hide_the_mistakes_of_other_sources(tmp_path: Path) -> None:
    problems = problems_of(
        tmp_path, "http-listener: {enabled: false}\na: b: c\n", settings=("/core/workers=x",)
    )

    # The rule about listeners is silent: nobody knows what the rest of the file says.
    assert [problem.origin for problem in problems] == ["docgraph.yml:2:5", "--set"]


def test_names_are_matched_whatever_their_case_and_hyphens(tmp_path: Path) -> None:
    [first, second] = messages_of(tmp_path, "graphql: {maxLimit: 1, query_time_limit: 1}")

    assert "did you mean 'max-limit'?" in first
    assert "did you mean 'query-time-limit'?" in second


def test_few_valid_names_are_listed(tmp_path: Path) -> None:
    [message] = messages_of(tmp_path, "cors: {zzz: 1}")

    assert message == "docgraph.yml:1:8: /cors/zzz: unknown option (valid here: allow-origins)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("core: 5", "/core: expected a mapping of options, got a number"),
        ("core: {workers: }", "/core/workers: expected a whole number, got nothing"),
        ("core: {workers: true}", "/core/workers: expected a whole number, got true"),
        ("core: {workers: 1.5}", "/core/workers: expected a whole number, got the number 1.5"),
        ("core: {name: 5}", "/core/name: expected 1 to 64 printable characters, got the number 5"),
        ("core: {name: ''}", "/core/name: expected 1 to 64 printable characters, got text ''"),
        (
            "core: {tracing-headers: x}",
            "/core/tracing-headers: expected a list of texts, got text 'x'",
        ),
        (
            "otel: {headers: {tenant: books, 'a b': c}}",
            "/otel/headers: expected the name of a header before the colon, got another",
        ),
        (
            "core: {tracing-headers: [ok, 'a b']}",
            "/core/tracing-headers[2]: expected the name of a header, got text 'a b'",
        ),
        ("http-listener: {port: 70000}", "/http-listener/port: must be between 0 and 65535"),
        ("graphql: {uri: x}", "/graphql/uri: expected a path that begins with '/', got text 'x'"),
        (
            "graphql: {introspection: none}",
            "/graphql/introspection: expected 'all', 'authenticated' or 'off', got text 'none'",
        ),
        (
            "graphql: {max-body-size: 1 MX}",
            "/graphql/max-body-size: expected a size such as 65536, '64 KiB' or '1 MiB'",
        ),
        ("graphql: {max-body-size: 0}", "/graphql/max-body-size: must be between 1 and"),
        ("mongo: {mongo-mounts: []}", "/mongo/mongo-mounts: must not be empty"),
        ("mongo: {mongo-mounts: [{what: /a}]}", "/mongo/mongo-mounts[1]: 'where' is missing"),
        (
            "digestAuthMechanism: {algorithms: [MD5, SHA1]}",
            "/digestAuthMechanism/algorithms[2]: expected 'MD5' or 'SHA-256', got text 'SHA1'",
        ),
        (
            "dbRealmAuthenticator: {minimum-password-strength: 5}",
            "/dbRealmAuthenticator/minimum-password-strength: must be between 0 and 4, got 5",
        ),
        (
            "cors: {allow-origins: ['https://a.example/']}",
            "/cors/allow-origins[1]: expected an origin such as 'https://example.org'",
        ),
        ('authCookieSetter: {name: "a\\nb"}', "/authCookieSetter/name: expected letters"),
        ('basicAuthMechanism: {realm: "x\\n"}', "/basicAuthMechanism/realm: expected printable"),
    ],
)
def test_wrong_values_say_what_was_expected(tmp_path: Path, text: str, expected: str) -> None:
    [message] = messages_of(tmp_path, text)

    assert expected in message


def test_sizes_are_bytes_or_texts(tmp_path: Path) -> None:
    text = "connection-options: {max-url-size: 4 KiB, max-header-size: 4096, max-body-size: 2 MB}"

    options = decode_text(tmp_path, text).get(ConnectionOptions)

    assert (options.max_url_size, options.max_header_size) == (4096, 4096)
    assert options.max_body_size == 2_000_000


def test_unions_take_each_of_their_forms(tmp_path: Path) -> None:
    assert (
        decode_text(tmp_path, "graphql: {introspection: off}").get(Graphql).introspection == "off"
    )
    by_roles = decode_text(tmp_path, "graphql: {introspection: [admin]}").get(Graphql)
    assert by_roles.introspection == ("admin",)


def test_names_of_the_specification_are_kept_in_camel_case(tmp_path: Path) -> None:
    text = (
        "jwtAuthenticationMechanism: {base64Encoded: true, usernameClaim: u, fixedRoles: [a, b]}\n"
        "aggregationSecurity: {stageBlacklist: [$facet], allowCrossDatabaseOperations: true}\n"
    )

    jwt = decode_text(tmp_path, text).get(JwtAuthenticationMechanism)

    assert (jwt.base64_encoded, jwt.username_claim, jwt.fixed_roles) == (True, "u", ("a", "b"))


def test_a_deprecated_option_is_understood_with_a_warning(tmp_path: Path) -> None:
    decoded = decode_text(tmp_path, "graphql:\n  app-def-cache-ttl: 1000\n")

    assert decoded.get(Graphql).app_cache_ttr == 1000
    assert decoded.warnings == (
        Problem(
            "docgraph.yml:2:3",
            "/graphql/app-def-cache-ttl",
            "a deprecated option",
            "use 'app-cache-enabled' and 'app-cache-ttr' instead",
        ),
    )


def test_a_deprecated_option_yields_to_its_successor(tmp_path: Path) -> None:
    text = "graphql: {app-def-cache-ttl: 1000, app-cache-ttr: 2000}"

    assert decode_text(tmp_path, text).get(Graphql).app_cache_ttr == 2000


def test_free_mappings_are_taken_as_they_are(tmp_path: Path) -> None:
    text = "fileRealmAuthenticator: {users: [{userid: a, password: b, roles: [r], age: 3}]}"

    realm = decode_text(tmp_path, text).get(FileRealmAuthenticator)

    assert realm.users == ({"userid": "a", "password": "b", "roles": ["r"], "age": 3},)


class Greeter(PluginConfig, frozen=True):
    """A plugin's own section."""

    greeting: Annotated[str, msgspec.Meta(description="the text")] = "hello"
    ratio: float = 0.5


def test_sections_of_plugins_are_as_strict_as_ours(tmp_path: Path) -> None:
    sections: dict[str, type[Section]] = {**SECTIONS, "greeter": Greeter}

    right = decode_text(tmp_path, "greeter: {enabled: true, ratio: 1}", sections=sections)
    wrong = messages_of(tmp_path, "greeter: {greting: x, ratio: y}", sections=sections)

    assert right.sections["greeter"] == Greeter(enabled=True, ratio=1.0)
    assert wrong == [
        "docgraph.yml:1:11: /greeter/greting: unknown option (did you mean 'greeting'?)",
        "docgraph.yml:1:30: /greeter/ratio: expected a number, got text 'y'",
    ]


class Bounded(PluginConfig, frozen=True):
    """A section with every kind of bound."""

    least: Annotated[int, msgspec.Meta(ge=2)] = 2
    most: Annotated[int, msgspec.Meta(le=9)] = 9
    above: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    below: Annotated[float, msgspec.Meta(lt=1)] = 0.5
    word: Annotated[str, msgspec.Meta(min_length=1, max_length=3)] = "abc"
    words: Annotated[list[str], msgspec.Meta(min_length=1, max_length=2)] = msgspec.field(
        default_factory=lambda: ["a"]
    )


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("least: 2", "least: 1", "must be at least 2, got 1"),
        ("most: 9", "most: 10", "must be at most 9, got 10"),
        ("above: 0.1", "above: 0", "must be greater than 0, got 0"),
        ("below: 0.9", "below: 1", "must be less than 1, got 1"),
        ("word: abc", "word: abcd", "longer than 3 characters"),
        ("word: a", 'word: ""', "must not be empty"),
        ("words: [a, b]", "words: [a, b, c]", "more than 2 entries: 3"),
        ("words: [a]", "words: []", "must not be empty"),
    ],
)
def test_bounds_of_plugins_are_kept(tmp_path: Path, good: str, bad: str, message: str) -> None:
    sections: dict[str, type[Section]] = {**SECTIONS, "bounded": Bounded}
    decode_text(tmp_path, f"bounded: {{{good}}}", sections=sections)

    (found,) = messages_of(tmp_path, f"bounded: {{{bad}}}", sections=sections)

    assert found.endswith(f"/bounded/{bad.partition(':')[0]}: {message}")


class Tunnel(PluginConfig, frozen=True):
    """A plugin's own section, with a check."""

    entrance: str = "a"
    exit: str = "a"

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        if self.entrance == self.exit:
            yield view.blame("/tunnel/exit", "leads nowhere", None, "/tunnel/entrance")

    def give_advice(self, view: View) -> Iterator[Problem]:
        yield view.blame("/tunnel/exit", "may be dark")


def test_sections_of_plugins_check_themselves(tmp_path: Path) -> None:
    sections = {"tunnel": Tunnel}

    right = decode_text(tmp_path, "tunnel: {exit: b}", sections=sections)
    wrong = messages_of(tmp_path, "tunnel: {entrance: a}", sections=sections)

    assert [str(one) for one in right.warnings] == ["docgraph.yml:1:10: /tunnel/exit: may be dark"]
    assert wrong == ["docgraph.yml:1:10: /tunnel/entrance: leads nowhere"]


def test_the_struct_of_a_section_that_a_plugin_reuses_is_not_taken_for_ours(tmp_path: Path) -> None:
    sections: dict[str, type[Section]] = {**SECTIONS, "otherRealm": FileRealmAuthenticator}

    decode_text(
        tmp_path,
        "otherRealm: {enabled: true}\nbasicAuthMechanism: {authenticator: otherRealm}\n",
        sections=sections,
    )
    [message] = messages_of(tmp_path, "fileRealmAuthenticator: {enabled: true}", sections=sections)

    assert "fileRealmAuthenticator is on and has no users" in message


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("caller-limits: {limits: [{name: a, per: user, concurrent: 1}]}", "/caller-limits/limits"),
        ("otel: {headers: {authorization: x}}", "/otel/headers"),
        ("https-listener: {port: 4443}", "/https-listener/port"),
        ("fileAclAuthorizer: {permissions: []}", "/fileAclAuthorizer/permissions"),
        ("caller-limits: {enabled: false, limits: []}", None),
        ("https-listener: {}", None),
        ("graphql: {max-limit: 2000}", None),
    ],
)
def test_options_of_a_section_that_nothing_turns_on_are_a_warning(
    tmp_path: Path, text: str, warned: str | None
) -> None:
    warnings = decode_text(tmp_path, text).warnings

    assert [one.path for one in warnings] == ([] if warned is None else [warned])
    for one in warnings:
        section = one.path.split("/")[1]
        assert one.message == f"'{section}' is off, as nothing turns it on"
        assert one.hint == f"set /{section}/enabled to true, or to false if that is meant"


def test_a_section_nobody_brings_is_unknown(tmp_path: Path) -> None:
    [message] = messages_of(tmp_path, "greeter: {enabled: true}")

    assert message.startswith("docgraph.yml:1:1: /greeter: unknown section")


def test_relative_paths_of_a_file_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "x.yml").write_text(
        "core: {data-directory: db, plugins-directory: p}\n"
        "https-listener: {certificate: c.pem, key: /abs/k.pem}\n"
        "fileRealmAuthenticator: {conf-file: users.yml}\n"
    )

    decoded = decode(
        load(ConfigSources(file=Path("conf/x.yml"), environ={}, directory=tmp_path)), SECTIONS
    )

    here = tmp_path / "conf"
    assert decoded.directory == here
    assert decoded.get(Core).data_directory == str(here / "db")
    assert decoded.get(Core).plugins_directory == str(here / "p")
    assert decoded.get(HttpsListener).certificate == str(here / "c.pem")
    assert decoded.get(HttpsListener).key == "/abs/k.pem"
    assert decoded.get(FileRealmAuthenticator).conf_file == str(here / "users.yml")


def test_relative_paths_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "x.yml").write_text("")
    settings = ("/core/data-directory=db", "/fileRealmAuthenticator/conf-file=users.yml")

    with_file = decode(
        load(
            ConfigSources(
                file=Path("conf/x.yml"), environ={}, settings=settings, directory=tmp_path
            )
        ),
        SECTIONS,
    )
    without = decode(
        load(ConfigSources(environ={}, settings=settings, directory=tmp_path)), SECTIONS
    )

    assert with_file.get(Core).data_directory == str(tmp_path / "db")
    assert with_file.get(Core).plugins_directory == str(tmp_path / "conf" / "plugins")
    assert with_file.get(FileRealmAuthenticator).conf_file == str(tmp_path / "conf" / "users.yml")
    assert without.get(Core).plugins_directory == str(tmp_path / "plugins")
    # With the default configuration: relative to the plugins directory.
    assert without.get(FileRealmAuthenticator).conf_file == str(tmp_path / "plugins" / "users.yml")


def test_peek_gives_a_section_before_the_others_are_right(tmp_path: Path) -> None:
    tree = load_text(tmp_path, "core: {workers: x, plugins-directory: p}\nnonsense: 1\n")

    core = peek(tree, Core)

    assert core.plugins_directory == str(tmp_path / "p")
    assert core.workers == 1


def test_a_decoded_configuration_can_be_pickled(tmp_path: Path) -> None:
    decoded = decode_text(tmp_path, "core: {workers: 2}\nping: {enabled: true}\n")

    assert pickle.loads(pickle.dumps(decoded)) == decoded  # noqa: S301 - as workers get it


def test_names_from_a_file_cannot_move_the_cursor(tmp_path: Path) -> None:
    [message] = messages_of(tmp_path, '"core\\e[2J\\n": 1')

    assert message.isprintable()


def test_a_section_shows_what_differs_and_no_secret_in_a_traceback() -> None:
    jwt = JwtAuthenticationMechanism(key="hunter2", leeway=5)

    assert repr(jwt) == "JwtAuthenticationMechanism(key='********', leeway=5)"
    assert "hunter2" not in f"{jwt}"
    assert repr(Graphql()) == "Graphql()"
