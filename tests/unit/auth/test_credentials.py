"""Credentials, challenges and confirmations as text (RFC 9110, 7617, 6750, 7616)."""

import base64
import re
from typing import Any

import pytest

from docgraph.auth.credentials import (
    ApiKeyText,
    AuthenticationInfo,
    BasicCredentials,
    BearerToken,
    Credentials,
    DigestChallenge,
    DigestCredentials,
    MalformedCredentials,
    read_claimed_user,
    read_credentials,
    render_basic_challenge,
    render_bearer_challenge,
)
from docgraph.exchange import Headers


def make_headers(*values: str) -> Headers:
    return Headers([(b"authorization", value.encode("latin-1")) for value in values])


def encode(pair: bytes) -> str:
    return base64.b64encode(pair).decode()


def make_digest(**changes: str | None) -> str:
    """The parameters of a digest answer; None leaves one out."""
    given = {
        "username": '"ada"',
        "realm": '"docgraph"',
        "nonce": '"n"',
        "uri": '"/x"',
        "response": '"r"',
        "cnonce": '"c"',
        "opaque": '"o"',
        "qop": "auth",
        "nc": "00000001",
        "algorithm": "MD5",
    } | changes
    return ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Bearer abc", Credentials("bearer", "abc")),
        ("bearer abc", Credentials("bearer", "abc")),
        ("BEARER  abc", Credentials("bearer", "abc")),
        ("  Bearer abc\t", Credentials("bearer", "abc")),
        ("Bearer abc def", Credentials("bearer", "abc def")),
        ("Bearer", Credentials("bearer", "")),
        ("Bearer\tabc", None),
        ("", None),
        ("=", None),
        ("Be(arer abc", None),
    ],
)
def test_scheme_is_of_any_case_and_spaces_follow_it(
    value: str, expected: Credentials | None
) -> None:
    """J52."""
    assert read_credentials(make_headers(value)) == expected


def test_two_authorization_fields_are_credentials_that_nobody_can_read() -> None:
    """J52: choosing one of them would be guessing."""
    assert read_credentials(make_headers("Bearer a", "Basic b")) is None
    assert read_credentials(make_headers("Bearer a", "Bearer a")) is None


def test_no_authorization_field_is_no_credentials() -> None:
    assert read_credentials(Headers()) is None


@pytest.mark.parametrize(
    ("pair", "user", "password"),
    [
        (b"ada:secret", "ada", "secret"),
        (b"ada:a:b:", "ada", "a:b:"),
        (b":", "", ""),
        ("zoë:pässwörd€".encode(), "zoë", "pässwörd€"),
    ],
)
def test_basic_divides_at_the_first_colon_and_reads_utf8(
    pair: bytes, user: str, password: str
) -> None:
    assert BasicCredentials.parse(encode(pair)) == BasicCredentials(user, password)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!!!!",
        encode(b"ada:secret") + " x",
        encode(b"ada:secret") + "\n",
        encode(b"ada:secret")[:-1],
        "YWRh:c2VjcmV0",
        encode(b"no colon"),
        encode(b"ada:\xff\xfe"),
        encode(b"ada:a\x00b"),
        encode(b"a\nda:b"),
        encode(b"ada:b\x7f"),
        "ä",
    ],
)
def test_malformed_basic_credentials_are_told_as_such(text: str) -> None:
    with pytest.raises(MalformedCredentials):
        BasicCredentials.parse(text)


@pytest.mark.parametrize("text", ["a.b.c", "abc==", "A-._~+/="])
def test_one_bearer_token_is_read(text: str) -> None:
    assert BearerToken.parse(text) == BearerToken(text)


@pytest.mark.parametrize("text", ["", "a b", "a,b", "=a", "a\tb", "a b c", "ä", '"a"'])
def test_anything_but_one_bearer_token_is_malformed(text: str) -> None:
    """J52: two tokens are none."""
    with pytest.raises(MalformedCredentials):
        BearerToken.parse(text)


def test_digest_answer_is_read_with_every_quoting_that_clients_use() -> None:
    given = DigestCredentials.parse(make_digest(qop='"auth"', algorithm='"MD5"', response="r"))
    assert given == DigestCredentials(
        username="ada",
        realm="docgraph",
        nonce="n",
        uri="/x",
        response="r",
        cnonce="c",
        opaque="o",
        count=1,
        algorithm="MD5",
    )


def test_digest_without_algorithm_is_md5() -> None:
    """RFC 7616 3.3."""
    assert DigestCredentials.parse(make_digest(algorithm=None)).algorithm == "MD5"


def test_names_of_digest_parameters_are_of_any_case_and_strange_ones_are_passed_over() -> None:
    text = make_digest(username=None) + ', USERNAME = "ada" ,, x-other="\\"", userhash=false'
    assert DigestCredentials.parse(text).username == "ada"


def test_digest_user_is_utf8_and_may_hold_quotes() -> None:
    user = 'zoë "z" \\'.encode().decode("latin-1").replace("\\", "\\\\").replace('"', '\\"')
    assert DigestCredentials.parse(make_digest(username=f'"{user}"')).username == 'zoë "z" \\'


@pytest.mark.parametrize(
    "changes",
    [
        *({name: None} for name in ("username", "realm", "nonce", "uri", "response")),
        {"cnonce": None},
        {"opaque": None},
        {"nc": None},
        {"qop": None},
        {"qop": "auth-int"},
        {"qop": '"auth,auth-int"'},
        {"nc": '"00000001"'},
        {"nc": "1"},
        {"nc": "0000000g"},
        {"nc": "0000000A"},
        {"nc": "000000001"},
        {"userhash": "true"},
        {"userhash": '"true"'},
        {"username": '"a\x01"'},
        {"username": '"\xff"'},
        {"username": '"unclosed'},
        {"uri": "/unquoted"},
    ],
    ids=str,
)
def test_malformed_digest_answers_are_told_as_such(changes: dict[str, Any]) -> None:
    """Without qop there is no nonce count: the answer of RFC 2069 is refused (A05)."""
    with pytest.raises(MalformedCredentials):
        DigestCredentials.parse(make_digest(**changes))


@pytest.mark.parametrize(
    "text",
    ["", "abc", "=", 'a="', "a=b c=d", make_digest() + ", nc=00000002", make_digest() + "; x=y"],
)
def test_what_is_no_list_of_parameters_is_malformed(text: str) -> None:
    with pytest.raises(MalformedCredentials):
        DigestCredentials.parse(text)


def test_extended_user_names_are_not_supported() -> None:
    """`username*` was not offered; what stands there is not `username`."""
    with pytest.raises(MalformedCredentials):
        DigestCredentials.parse(make_digest(username=None) + ", username*=UTF-8''ada")


@pytest.mark.parametrize(
    ("value", "user"),
    [
        (f"Basic {encode(b'ada:x')}", "ada"),
        (f"Digest {make_digest()}", "ada"),
        ("Basic !", None),
        ("Digest x", None),
        ("Bearer abc", None),
        ("Other abc", None),
    ],
)
def test_claimed_user_is_the_one_that_the_credentials_name(value: str, user: str | None) -> None:
    assert read_claimed_user(make_headers(value)) == user


def test_basic_challenge() -> None:
    assert render_basic_challenge("docgraph") == 'Basic realm="docgraph", charset="UTF-8"'


def test_realms_beyond_latin_letters_travel_as_utf8() -> None:
    challenge = render_basic_challenge("Łódź")
    assert challenge.encode("latin-1").decode() == 'Basic realm="Łódź", charset="UTF-8"'


def test_bearer_challenge_says_only_that_a_token_was_refused() -> None:
    assert render_bearer_challenge("docgraph") == 'Bearer realm="docgraph"'
    assert render_bearer_challenge("docgraph", refused=True) == (
        'Bearer realm="docgraph", error="invalid_token"'
    )


def test_digest_challenge_quotes_what_rfc_7616_wants_quoted_and_nothing_else() -> None:
    challenge = DigestChallenge("docgraph", "/", "n", "o", "SHA-256")
    assert challenge.render() == (
        'Digest realm="docgraph", domain="/", nonce="n", opaque="o", '
        'algorithm=SHA-256, qop="auth", charset=UTF-8'
    )


def test_stale_stands_unquoted_and_only_when_it_is_true() -> None:
    assert ", stale=true, " in DigestChallenge("r", "/", "n", "o", stale=True).render()
    assert "stale" not in DigestChallenge("r", "/", "n", "o").render()


def test_authentication_info_quotes_what_rfc_7616_wants_quoted() -> None:
    """RFC 7616 3.5."""
    assert AuthenticationInfo("ab", "c", "00000001").render() == (
        'rspauth="ab", cnonce="c", nc=00000001, qop=auth'
    )
    assert AuthenticationInfo("ab", "c", "00000001", "n").render().endswith(', nextnonce="n"')


def test_secrets_do_not_stand_in_representations() -> None:
    assert "secret" not in repr(BasicCredentials("ada", "secret"))
    assert "secret" not in repr(BearerToken("secret"))
    assert "secret" not in repr(Credentials("basic", "secret"))


def test_credentials_are_read_once_and_those_of_other_fields_are_others() -> None:
    headers = make_headers("Bearer a")

    assert read_credentials(headers) is read_credentials(headers)
    assert read_credentials(headers.without("authorization")) is None


def test_the_text_of_a_key_has_one_spelling() -> None:
    """Decision 72."""
    key = ApiKeyText("0123456789abcdef")
    text = key.render()
    assert re.fullmatch(r"dgk_[0-9a-f]{16}_[0-9a-f]{72}", text)
    assert ApiKeyText.parse(text) == key
    assert ApiKeyText("0123456789abcdef").secret != key.secret
    assert key.secret not in repr(key)
    for place in range(4, len(text)):
        for other in "0fF_ é":
            if text[place] != other:
                with pytest.raises(MalformedCredentials):
                    ApiKeyText.parse(text[:place] + other + text[place + 1 :])


def test_a_wrong_key_is_a_guess_by_its_id() -> None:
    text = ApiKeyText("0123456789abcdef").render()
    assert read_claimed_user(Headers.of(authorization=f"Bearer {text}")) == ""
    assert read_claimed_user(Headers.of(authorization=f"Basic {text}")) is None
    assert read_claimed_user(Headers.of(authorization="Bearer eyJ.e.y")) is None
