"""Mixes that cannot work: no start, and the blame on the option that somebody has set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.config.harness import KEY, decode_text, messages_of, problems_of

HASH = "$2b$12$" + "a" * 53
COOKIES = """\
authCookieSetter: {enabled: true}
authCookieHandler: {enabled: true}
authCookieRemover: {enabled: true}
"""
COOKIE_PARTS = ("/authCookieSetter", "/authCookieHandler", "/authCookieRemover")
SET_1 = f"""{COOKIES}
rndTokenManager: {{enabled: false}}
jwtTokenManager: {{enabled: true, key: {KEY}}}
jwtAuthenticationMechanism: {{enabled: true, key: {KEY}}}
"""
SET_2 = f"""{COOKIES}
rndTokenManager: {{enabled: false}}
jwtTokenManager: {{enabled: true, key: {KEY}}}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http-listener:\n  enabled: false\n", "2:3: /http-listener/enabled: no listener is on"),
        (
            "core:\n  probe-listener: {port: 8080}\n",
            "2:20: /core/probe-listener/port: http-listener uses port 8080, too",
        ),
        (
            "core:\n  probe-listener: {host: 0.0.0.0, port: 4443}\n"
            "https-listener: {enabled: true, certificate: c, key: k}\n",
            "2:35: /core/probe-listener/port: https-listener uses port 4443, too",
        ),
        (
            "https-listener:\n  enabled: true\n  certificate: c.pem\n",
            "2:3: /https-listener/enabled: https-listener is on and has no key",
        ),
        (
            "https-listener: {enabled: true, certificate: c, key: k,\n port: 8080}\n",
            "2:2: /https-listener/port: both listeners use 127.0.0.1:8080",
        ),
        (
            "graphql:\n  max-limit: 50\n",
            "2:3: /graphql/max-limit: 'default-limit' (100) is greater than 'max-limit' (50)",
        ),
        (
            "mongo:\n  default-pagesize: 2000\n",
            "2:3: /mongo/default-pagesize: 'default-pagesize' (2000) is greater than",
        ),
        ("mclient:\n  max-pool-size: 4\n", "2:3: /mclient/max-pool-size: 'min-pool-size' (5) is"),
        (
            "mclient:\n  connection-string: mongodb://localhost/?MAXPOOLSIZE=3\n",
            "2:3: /mclient/connection-string: maxPoolSize is below 4",
        ),
        (
            "connection-options:\n  max-connections-per-address: 3000\n",
            "2:3: /connection-options/max-connections-per-address: 'max-connections-per-address' "
            "(3000) is greater than 'max-connections' (2000)",
        ),
        (
            "core:\n  trusted-proxies: [10.0.0.0/8, '::1', proxy.example]\n",
            "2:40: /core/trusted-proxies[3]: 'proxy.example' is not an address or network",
        ),
    ],
)
def test_values_that_exclude_each_other(tmp_path: Path, text: str, expected: str) -> None:
    [message] = messages_of(tmp_path, text)

    assert f"docgraph.yml:{expected}" in message


def test_both_token_managers_on_is_no_start(tmp_path: Path) -> None:
    """Decision 29."""
    [message] = messages_of(tmp_path, f"jwtTokenManager:\n  enabled: true\n  key: {KEY}\n")

    assert message == (
        "docgraph.yml:2:3: /jwtTokenManager/enabled: rndTokenManager and jwtTokenManager are both "
        "on (set /rndTokenManager/enabled to false to use jwtTokenManager)"
    )


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("jwtTokenManager: {enabled: true}", "has no key"),
        ("jwtTokenManager: {enabled: true, key: short}", "shorter than 32 bytes"),
    ],
)
def test_the_jwt_token_manager_needs_a_strong_key(
    tmp_path: Path, section: str, expected: str
) -> None:
    """Decision 31."""
    [message] = messages_of(tmp_path, f"rndTokenManager: {{enabled: false}}\n{section}\n")

    assert expected in message


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", "has neither key nor jwks"),
        ("key: short", "shorter than the 32 bytes of HS256"),
        (f"key: {KEY}, algorithm: HMAC512", "shorter than the 64 bytes of HMAC512"),
        (f"key: {KEY}, algorithm: HS384", "shorter than the 48 bytes of HS384"),
        (f"key: {KEY}, rolesClaim: r, fixedRoles: [a]", "rolesClaim and fixedRoles are both set"),
        (f"key: {KEY}, rolesClaim: null", "neither rolesClaim nor fixedRoles is set"),
    ],
)
def test_jwt_mixes_that_are_refused(tmp_path: Path, options: str, expected: str) -> None:
    """Decision 31."""
    [message] = messages_of(tmp_path, f"jwtAuthenticationMechanism: {{enabled: true, {options}}}")

    assert expected in message
    assert "short," not in message
    assert KEY not in message


@pytest.mark.parametrize(
    "options",
    [
        f"key: {KEY}",
        "key: short, allow-weak-key: true",
        "jwks: https://example.org/keys.json",
        "key: public.pem, algorithm: RS256",
        f"key: {KEY}, fixedRoles: [a]",
        f"key: {KEY}, rolesClaim: r, fixedRoles: []",
        f"key: {KEY}, rolesClaim: r, fixedRoles: null",
        f"key: {KEY}, rolesClaim: null, fixedRoles: [a]",
    ],
)
def test_jwt_mixes_that_work(tmp_path: Path, options: str) -> None:
    """Decision 31: rolesClaim has a default, which yields to fixedRoles."""
    decode_text(tmp_path, f"jwtAuthenticationMechanism: {{enabled: true, {options}}}")


def test_rules_look_only_at_what_is_enabled(tmp_path: Path) -> None:
    decode_text(
        tmp_path,
        "jwtAuthenticationMechanism: {key: short, rolesClaim: r, fixedRoles: [a]}\n"
        "jwtTokenManager: {key: short}\n"
        "digestAuthMechanism: {authenticator: nobody}\n"
        "dbRealmAuthenticator: {create-user: false, create-user-document: nonsense}\n"
        "graphql: {enabled: false, max-limit: 1}\n",
    )


def test_identity_and_digest_exclude_each_other(tmp_path: Path) -> None:
    text = (
        "identityAuthMechanism: {enabled: true}\n"
        "digestAuthMechanism: {enabled: true, authenticator: fileRealmAuthenticator}\n"
        "fileRealmAuthenticator: {enabled: true, conf-file: users.yml}\n"
    )

    [problem] = problems_of(tmp_path, text)

    assert problem.origin == "docgraph.yml:1:25"
    assert "cannot be used together" in problem.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "digestAuthMechanism: {enabled: true, authenticator: fileRealmAuthentcator}",
            "there is no authenticator 'fileRealmAuthentcator' "
            "(did you mean 'fileRealmAuthenticator'?)",
        ),
        (
            "basicAuthMechanism: {authenticator: fileRealmAuthenticator}",
            "the authenticator 'fileRealmAuthenticator' is off",
        ),
        (
            "dbRealmAuthenticator: {enabled: false}",
            "/dbRealmAuthenticator/enabled: the authenticator 'dbRealmAuthenticator' is off",
        ),
    ],
)
def test_a_mechanism_names_an_authenticator_that_is_there(
    tmp_path: Path, text: str, expected: str
) -> None:
    [message] = messages_of(tmp_path, text)

    assert expected in message


def test_digest_cannot_verify_hashed_passwords(tmp_path: Path) -> None:
    """Decision 36."""
    [message] = messages_of(tmp_path, "digestAuthMechanism: {enabled: true}")

    assert "hashed with bcrypt" in message


@pytest.mark.parametrize("option", ["bcrypt-hashed-password: false", "prop-ha1: ha1"])
def test_digest_works_with_plain_passwords_or_stored_ha1(tmp_path: Path, option: str) -> None:
    """Decision 36."""
    decode_text(
        tmp_path,
        f"digestAuthMechanism: {{enabled: true}}\ndbRealmAuthenticator: {{{option}}}\n",
    )


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ('{"_id": "admin", "password": "hunter2"}', "the password is plain text"),
        ('{"_id": "admin"}', "the user has no text 'password'"),
        ("not json", "not the JSON text of an object"),
        ("[]", "not the JSON text of an object"),
    ],
)
def test_the_first_user_has_a_hashed_password(tmp_path: Path, document: str, expected: str) -> None:
    """Decision 35."""
    text = f"dbRealmAuthenticator:\n  create-user-document: '{document}'\n"

    [message] = messages_of(tmp_path, text)

    assert message.startswith("docgraph.yml:2:3: /dbRealmAuthenticator/create-user-document: ")
    assert expected in message
    assert "hunter2" not in message


def test_a_hashed_first_user_is_accepted(tmp_path: Path) -> None:
    """Decision 35."""
    document = f'{{"_id": "admin", "password": "{HASH}"}}'

    decode_text(tmp_path, f"dbRealmAuthenticator: {{create-user-document: '{document}'}}")


def test_file_plugins_need_a_file_or_a_list(tmp_path: Path) -> None:
    messages = messages_of(
        tmp_path, "fileRealmAuthenticator: {enabled: true}\nfileAclAuthorizer: {enabled: true}\n"
    )

    assert [message.split(": ")[2] for message in messages] == [
        "fileRealmAuthenticator is on and has no users (set conf-file or users)",
        "fileAclAuthorizer is on and has no permissions (set conf-file or permissions)",
    ]


@pytest.mark.parametrize("text", [COOKIES, SET_1, SET_2])
def test_the_three_option_sets_of_cookies_work(tmp_path: Path, text: str) -> None:
    """Decision 30."""
    decode_text(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("authCookieSetter: {enabled: true}", "cookies need authCookieHandler and"),
        (
            f"{COOKIES}rndTokenManager: {{enabled: false}}\n"
            "tokenBasicAuthMechanism: {enabled: false}\n",
            "cookies need a token manager",
        ),
        (
            f"{COOKIES}tokenBasicAuthMechanism: {{enabled: false}}\n",
            "no mechanism that is on can verify",
        ),
    ],
)
def test_cookies_without_one_of_the_sets_are_refused(
    tmp_path: Path, text: str, expected: str
) -> None:
    """Decision 30."""
    [message] = messages_of(tmp_path, text)

    assert expected in message


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("/jwtAuthenticationMechanism/key=another-key-of-more-than-32-bytes-length", "key"),
        ("/jwtAuthenticationMechanism/issuer=someone", "issuer"),
        ("/jwtAuthenticationMechanism/audience=someone", "audience"),
        ("/jwtAuthenticationMechanism/base64Encoded=true", "base64Encoded"),
    ],
)
def test_in_set_1_the_two_jwt_sections_agree(tmp_path: Path, option: str, name: str) -> None:
    """Decision 30."""
    [problem] = problems_of(tmp_path, SET_1, settings=(option,))

    assert problem.origin == "--set"
    assert problem.path == f"/jwtAuthenticationMechanism/{name}"
    assert "does not agree with jwtTokenManager" in problem.message


@pytest.mark.parametrize(
    ("option", "name", "written"),
    [
        ("usernameClaim=email", "usernameClaim", "the claim 'sub'"),
        ("rolesClaim=groups", "rolesClaim", "the claim 'roles'"),
        ("fixedRoles=[reader]", "fixedRoles", "the roles of the user"),
    ],
)
def test_in_set_1_the_claims_fit(tmp_path: Path, option: str, name: str, written: str) -> None:
    """Decision 30: both places are named."""
    setting = f"/jwtAuthenticationMechanism/{option}"
    [problem] = problems_of(tmp_path, SET_1, settings=(setting,))

    assert (problem.origin, problem.path) == ("--set", f"/jwtAuthenticationMechanism/{name}")
    assert re.search(r"/jwtTokenManager \(docgraph.yml:\d+:\d+\)", problem.message)
    assert written in problem.message


@pytest.mark.parametrize("option", ["usernameClaim=email", "rolesClaim=groups", "fixedRoles=[a]"])
@pytest.mark.parametrize("other", ["/authCookieSetter", "/jwtTokenManager"])
def test_claims_of_other_issuers_are_free_without_cookies_that_carry_jwts(
    tmp_path: Path, option: str, other: str
) -> None:
    """Decision 30: it is cookies with tokens of `jwtTokenManager` that must fit."""
    off = {
        "/authCookieSetter": [f"{one}/enabled=false" for one in COOKIE_PARTS],
        "/jwtTokenManager": ["/jwtTokenManager/enabled=false", "/rndTokenManager/enabled=true"],
    }[other]
    decode_text(tmp_path, SET_1, settings=(f"/jwtAuthenticationMechanism/{option}", *off))


@pytest.mark.parametrize("option", ["usernameClaim=sub", "rolesClaim=roles"])
def test_in_set_1_the_claims_that_are_written_may_be_named(tmp_path: Path, option: str) -> None:
    decode_text(tmp_path, SET_1, settings=(f"/jwtAuthenticationMechanism/{option}",))


def test_in_set_1_the_audience_may_be_one_of_several(tmp_path: Path) -> None:
    """Decision 31: a list means any of them."""
    decode_text(
        tmp_path,
        SET_1,
        settings=(
            "/jwtAuthenticationMechanism/audience=[a, b]",
            "/jwtTokenManager/audience=b",
            "/jwtAuthenticationMechanism/issuer=docgraph",
        ),
    )


def test_a_section_with_mistakes_does_not_make_rules_guess(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, f"{COOKIES}rndTokenManager: {{ttl: x}}\n")

    assert [problem.path for problem in problems] == ["/rndTokenManager/ttl"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("identityAuthMechanism: {enabled: true}", "/identityAuthMechanism/enabled"),
        (
            "aggregationSecurity: {allowJavaScriptExecution: true}",
            "/aggregationSecurity/allowJavaScriptExecution",
        ),
        ("connection-options: {max-connections: 31}", "/connection-options/max-connections"),
        ("rndTokenManager: {enabled: false}", "/rndTokenManager/enabled"),
        ("tokenBasicAuthMechanism: {enabled: false}", "/tokenBasicAuthMechanism/enabled"),
    ],
)
def test_what_works_and_surprises_is_a_warning(tmp_path: Path, text: str, path: str) -> None:
    """Decision 20a for JavaScript, which is refused always."""
    [warning] = decode_text(tmp_path, text).warnings

    assert warning.path == path
    assert warning.origin.startswith("docgraph.yml:1:")


def test_without_a_token_manager_the_warning_names_the_option_to_change(tmp_path: Path) -> None:
    """Whichever option was set: that one is off already, and another one is to be turned off."""
    [warning] = decode_text(tmp_path, "rndTokenManager: {enabled: false}").warnings

    assert warning.path == "/rndTokenManager/enabled"
    assert "tokenBasicAuthMechanism" in warning.message
    assert "set /tokenBasicAuthMechanism/enabled to false" in str(warning.hint)


def test_set_1_of_the_cookie_options_without_token_basic_is_a_warning(tmp_path: Path) -> None:
    """Decision 30: all three sets have it on; a cookie with a JWT works without it."""
    text = f"tokenBasicAuthMechanism: {{enabled: false}}\n{SET_1}"

    [warning] = decode_text(tmp_path, text).warnings

    assert warning.path == "/tokenBasicAuthMechanism/enabled"
    assert "option set 1" in warning.message


@pytest.mark.parametrize("text", [COOKIES, SET_1, SET_2])
def test_the_three_option_sets_are_without_warnings(tmp_path: Path, text: str) -> None:
    assert decode_text(tmp_path, text).warnings == ()


@pytest.mark.parametrize(
    ("limits", "place", "expected"),
    [
        ("", "", "callers are to be limited, and there is no limit (add a limit, or turn off"),
        ("{name: a, per: user}", "[1]", "it limits nothing (set 'requests-per-second' or"),
        ("{name: a, per: user, concurrent: 1, burst: 2}", "[1]/burst", "there is no rate to"),
        ("{name: a, per: role, concurrent: 1}", "[1]/per", "it does not say which role (set 'role"),
        (
            "{name: a, per: user, role: $unauthenticated, concurrent: 1}",
            "[1]/per",
            "unauthenticated callers are no users (count them by address: 'per: address')",
        ),
        (
            "{name: a, per: address, role: $unauthenticted, concurrent: 1}",
            "[1]/role",
            "no caller can have this role "
            "('$unauthenticated' and '$authenticated' are the roles that",
        ),
        (
            "{name: a, per: user, concurrent: 1}, {name: a, per: address, concurrent: 1}",
            "[2]/name",
            "'a' names another limit, too (give each limit a name of its own)",
        ),
        (
            "{name: a, per: user, concurrent: 1}, {name: a-concurrent, per: user, concurrent: 1}",
            "[2]/name",
            "'a-concurrent' names another limit, too",
        ),
        ("{name: a, per: users, concurrent: 1}", "[1]/per", "did you mean 'user'?"),
        ("{name: a, per: user, rate: 1, concurrent: 1}", "[1]/rate", "unknown option"),
        ("{per: user, concurrent: 1}", "[1]", "'name' is missing"),
        ("{name: A b, per: user, concurrent: 1}", "[1]/name", "a name of small letters, digits"),
        (
            "{name: a, per: user, requests-per-second: 0}",
            "[1]/requests-per-second",
            "between 0.001",
        ),
        ("{name: a, per: user, requests-per-second: .nan}", "[1]/requests-per-second", "between"),
        ("{name: a, per: user, requests-per-second: '5'}", "[1]/requests-per-second", "a number"),
        ("{name: a, per: user, concurrent: 0}", "[1]/concurrent", "must be between 1 and 10000"),
    ],
)
def test_limits_for_callers_that_cannot_be(
    tmp_path: Path, limits: str, place: str, expected: str
) -> None:
    [message] = messages_of(tmp_path, f"caller-limits:\n  enabled: true\n  limits: [{limits}]\n")

    assert f": /caller-limits/limits{place}: " in message
    assert message.startswith("docgraph.yml:3:")
    assert expected in message


def test_limits_for_callers_that_are_off_may_be_unfinished(tmp_path: Path) -> None:
    decode_text(tmp_path, "caller-limits: {limits: [{name: a, per: user}]}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "mclient:\n  max-pool-size: 20\n",
            "2:3: /mclient/max-pool-size: the 256 requests of a worker process share 20",
        ),
        (
            "core: {workers: 2}\nconnection-options:\n  max-requests-in-flight: 1000\n",
            "3:3: /connection-options/max-requests-in-flight: the 500 requests of a worker process",
        ),
        (
            "mclient:\n  wait-queue-timeout-ms: 20000\n",
            "2:3: /mclient/wait-queue-timeout-ms: without effect: requests wait for at most 15000",
        ),
        (
            "caller-limits:\n  enabled: true\n"
            "  limits: [{name: user, per: user,\n    concurrent: 256}]\n",
            "4:5: /caller-limits/limits[1]/concurrent: one caller may have all 256 requests",
        ),
    ],
)
def test_limits_that_do_not_fit_together_are_warned_of(
    tmp_path: Path, text: str, expected: str
) -> None:
    [warning] = decode_text(tmp_path, text).warnings

    assert f"docgraph.yml:{expected}" in str(warning)


@pytest.mark.parametrize(
    "text",
    [
        "core: {workers: 4}\nmclient: {max-pool-size: 20}\n",
        "core: {wait-timeout-ms: 0}\nmclient: {wait-queue-timeout-ms: 20000}\n",
        "caller-limits: {enabled: true, limits: [{name: u, per: user, concurrent: 255}]}\n",
    ],
)
def test_limits_that_fit_together_are_no_warning(tmp_path: Path, text: str) -> None:
    assert not decode_text(tmp_path, text).warnings
