"""Sensitive fields: secrets to leave out, and personal values that become no examples."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from docgraph.workbench.infer.words import singular, split_words

# Words and phrases, written as one word: `api_key`, `apiKey` and `apikey` are equal.
_SECRET: Final = frozenset(
    "password passwd pwd pw passphrase passcode passwort kennwort motdepasse contrasena senha "
    "wachtwoord secret token salt jwt otp totp cvv cvc cvv2 credential apikey privatekey secretkey "
    "accesskey encryptionkey signingkey sessionkey sessionid bearer cookie signature mnemonic "
    "seedphrase pin pincode securitycode recoverycode resetcode verificationcode activationcode "
    "authcode backupcode ssn socialsecurity cardnumber creditcard debitcard passportnumber "
    "passportno".split()
)
_HASHED: Final = frozenset("hash hashed".split())
# The hash of one of these is no secret: it identifies something, or detects changes of it.
_PUBLICLY_HASHED: Final = frozenset(
    "commit git revision rev tree parent head merge branch block tx transaction merkle content "
    "file image artifact package layer asset blob chunk url link geo sha md5 crc checksum".split()
)
# Numbers are secrets only under these names; a `tokenCount` is none.
_NUMERIC: Final = frozenset(
    "password passcode pin pincode otp cvv cvc cvv2 ssn cardnumber creditcard passportnumber "
    "passportno securitycode recoverycode resetcode verificationcode activationcode".split()
)
_LONGEST_PHRASE: Final = 3  # words
_PEOPLE: Final = frozenset(
    "user person people account member customer client employee author staff player contact owner "
    "patient student teacher passenger guest driver doctor visitor subscriber applicant candidate "
    "profile tenant resident citizen voter donor admin administrator operator manager agent lead "
    "seller buyer payer beneficiary insured borrower child parent".split()
)
_PERSONAL: Final = _PEOPLE | frozenset(
    "email mail phone mobile fax tel telephone ssn iban bic swift card "
    "address street line1 line2 zip zipcode postcode postal birthday birth dob born passport "
    "license licence tax vat ip username login nickname name first last full surname "
    "firstname lastname fullname salary wage income balance latitude longitude lat lon lng "
    "coordinates diagnosis health gender religion ethnicity national nationality age key "
    "session device mac imei url link avatar photo text body comment message note "
    "by".split()
)
_SECRET_VALUE: Final = re.compile(
    r"\$2[abxy]\$|\$argon2|\$pbkdf2|\$scrypt|\{SSHA|eyJ[A-Za-z0-9_-]+\.eyJ|-----BEGIN |sk_live_"
)


def is_secret(name: str, owner: str = "", *, is_number: bool = False) -> bool:
    """Return whether a field of that name has secrets; `owner` names the collection or type."""
    words = [singular(word) for word in split_words(name)]
    if any(phrase in (_NUMERIC if is_number else _SECRET) for phrase in _list_phrases(words)):
        return True
    if is_number or _HASHED.isdisjoint(words):
        return False
    context = {*words, *(singular(word) for word in split_words(owner))}
    return _PUBLICLY_HASHED.isdisjoint(context)


def _list_phrases(words: list[str]) -> Iterable[str]:
    for start in range(len(words)):
        for end in range(start + 1, start + 1 + _LONGEST_PHRASE):
            yield "".join(words[start:end])


def looks_secret(values: Iterable[object]) -> bool:
    """Return whether most of the values look like hashes of passwords, keys or tokens."""
    texts = [value for value in values if isinstance(value, str)]
    found = sum(1 for text in texts if _SECRET_VALUE.match(text))
    return found * 2 > len(texts)


def is_personal(path: str) -> bool:
    """Return whether values of the field may be personal, so that none becomes an example."""
    words = [singular(word) for word in split_words(path)]
    return not _PERSONAL.isdisjoint(_list_phrases(words))


def is_about_people(collection: str) -> bool:
    """Return whether documents of the collection describe people, so that all values are theirs."""
    return not _PEOPLE.isdisjoint(map(singular, split_words(collection)))
