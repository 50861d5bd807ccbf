"""Sensitive fields: secrets to leave out, and personal values that become no examples."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from docgraph.workbench.infer.words import split_words

__all__ = ["is_personal", "is_secret", "looks_secret"]

_SECRET: Final = frozenset(
    "password passwords passwd pwd passphrase passcode secret secrets token tokens hash hashes "
    "hashed salt jwt otp totp cvv cvc cvv2 credential credentials apikey privatekey secretkey "
    "accesskey".split()
)
_SECRET_PAIRS: Final = frozenset(
    {
        ("api", "key"),
        ("private", "key"),
        ("secret", "key"),
        ("access", "key"),
        ("encryption", "key"),
        ("pass", "word"),
        ("pass", "phrase"),
        ("pin", "code"),
        ("security", "code"),
        ("recovery", "code"),
        ("recovery", "codes"),
    }
)
_PERSONAL: Final = frozenset(
    "email emails mail phone phones mobile fax tel telephone ssn iban bic swift card account "
    "address addresses street line1 line2 zip postcode postal birthday birth dob born passport "
    "license licence tax vat ip user username login nickname name names first last full surname "
    "firstname lastname fullname contact salary wage income balance latitude longitude lat lon lng "
    "coordinates diagnosis health gender religion ethnicity national nationality age person key "
    "session device mac imei url link avatar photo text body comment message note notes "
    "author by owner customer".split()
)
_SECRET_VALUE: Final = re.compile(
    r"\$2[abxy]\$|\$argon2|\$pbkdf2|\$scrypt|\{SSHA|eyJ[A-Za-z0-9_-]+\.eyJ|-----BEGIN |sk_live_"
)


def is_secret(name: str) -> bool:
    """Return whether a field of that name has secrets, such as a password."""
    words = split_words(name)
    if not _SECRET.isdisjoint(words) or "".join(words) in _SECRET:
        return True
    return any(pair in _SECRET_PAIRS for pair in pairwise(words))


def looks_secret(values: Iterable[object]) -> bool:
    """Return whether most of the values look like hashes of passwords, keys or tokens."""
    texts = [value for value in values if isinstance(value, str)]
    found = sum(1 for text in texts if _SECRET_VALUE.match(text))
    return found * 2 > len(texts)


def is_personal(path: str) -> bool:
    """Return whether values of the field may be personal, so that none becomes an example."""
    return not _PERSONAL.isdisjoint(split_words(path))
