"""The examples of RFC 7616 (3.9.1) and RFC 2617 (3.5), computed by our code."""

import hashlib

import pytest

from docgraph.auth.credentials import DigestCredentials
from docgraph.auth.mechanisms.digest import compute_response

RFC_7616 = (
    'username="Mufasa", realm="http-auth@example.org", uri="/dir/index.html", algorithm={}, '
    'nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", nc=00000001, '
    'cnonce="f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", qop=auth, response="{}", '
    'opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"'
)
RFC_2617 = (
    'username="Mufasa", realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", '
    'uri="/dir/index.html", qop=auth, nc=00000001, cnonce="0a4f113b", '
    'response="6629fae49393a05397450978507c4ef1", opaque="5ccc069c403ebaf9f0171e9517f40e41"'
)


@pytest.mark.parametrize(
    ("header", "password"),
    [
        (RFC_7616.format("MD5", "8ca523f5e9506fed4657c9700eebdbec"), "Circle of Life"),
        (
            RFC_7616.format(
                "SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"
            ),
            "Circle of Life",
        ),
        (RFC_2617, "Circle Of Life"),
    ],
    ids=["RFC 7616 MD5", "RFC 7616 SHA-256", "RFC 2617"],
)
def test_the_examples_of_the_standards_come_out_as_they_say(header: str, password: str) -> None:
    given = DigestCredentials.parse(header)
    digest = {"MD5": hashlib.md5, "SHA-256": hashlib.sha256}[given.algorithm]
    secret = digest(f"Mufasa:{given.realm}:{password}".encode()).hexdigest()
    assert compute_response(secret, given, "GET") == given.response
