"""No header, however broken, is anything but readable or malformed; what we write, we read."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from docgraph.auth.credentials import (
    BasicCredentials,
    BearerToken,
    DigestCredentials,
    MalformedCredentials,
    read_claimed_user,
    read_credentials,
)
from docgraph.exchange import Headers

LATIN = st.text(st.characters(max_codepoint=255))
PRINTABLE = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"]))
VISIBLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)


@given(LATIN)
@example('Digest username="' + "\\" * 5000)
@example("Digest " + "a=b," * 2000)
@example("Digest " + "," * 8000 + "!")
@example("Basic " + " " * 8000)
@pytest.mark.parametrize("prefix", ["", "Basic ", "Digest ", "Bearer "])
def test_every_header_is_readable_or_malformed(prefix: str, text: str) -> None:
    headers = Headers([(b"authorization", (prefix + text).encode("latin-1"))])
    credentials = read_credentials(headers)
    read_claimed_user(headers)
    for kind in (BasicCredentials, DigestCredentials, BearerToken):
        with suppress(MalformedCredentials):
            kind.parse(credentials.text if credentials else text)


@given(PRINTABLE.filter(lambda user: ":" not in user), PRINTABLE)
def test_basic_credentials_come_back_as_they_were_written(user: str, password: str) -> None:
    written = BasicCredentials(user, password)
    assert parse(written.render(), BasicCredentials) == written


@given(
    st.builds(
        DigestCredentials,
        username=PRINTABLE,
        realm=PRINTABLE,
        nonce=VISIBLE,
        uri=VISIBLE,
        response=VISIBLE,
        cnonce=VISIBLE,
        opaque=VISIBLE,
        count=st.integers(0, 0xFFFFFFFF),
        algorithm=st.sampled_from(["MD5", "SHA-256"]),
    )
)
def test_digest_credentials_come_back_as_they_were_written(written: DigestCredentials) -> None:
    assert parse(written.render(), DigestCredentials) == written


@given(st.from_regex(r"\A[A-Za-z0-9._~+/-]+={0,2}\Z"))
def test_bearer_tokens_come_back_as_they_were_written(token: str) -> None:
    assert parse(BearerToken(token).render(), BearerToken) == BearerToken(token)


def parse(value: str, kind: Any) -> Any:
    credentials = read_credentials(Headers([(b"authorization", value.encode("latin-1"))]))
    assert credentials is not None
    return kind.parse(credentials.text)
