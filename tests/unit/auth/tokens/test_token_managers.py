"""The text of random tokens (decision 33)."""

import base64
import random
import secrets

import pytest

from docgraph.auth.tokens.issued import ID_BYTES
from docgraph.auth.tokens.token_managers import Seal

SEAL = Seal(b"s" * 32)


def test_a_hundred_thousand_tokens_are_long_random_and_all_different() -> None:
    """A15: at least 128 bits, none twice."""
    texts = {SEAL.close(secrets.token_bytes(ID_BYTES), "ada") for _ in range(100_000)}
    assert len(texts) == 100_000
    assert {len(text) for text in texts} == {56}
    assert ID_BYTES * 8 >= 128


def test_a_token_opens_for_its_user_only() -> None:
    id = secrets.token_bytes(ID_BYTES)
    text = SEAL.close(id, "ada")
    assert SEAL.open(text, "ada") == id
    assert SEAL.open(text, "Ada") is None
    assert SEAL.open(text, "") is None
    assert Seal(b"t" * 32).open(text, "ada") is None


def test_no_changed_character_goes_unnoticed() -> None:
    text = SEAL.close(secrets.token_bytes(ID_BYTES), "ada")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for place in range(len(text)):
        other = random.choice([one for one in alphabet if one != text[place]])
        assert SEAL.open(text[:place] + other + text[place + 1 :], "ada") is None


@pytest.mark.parametrize("text", ["", "secret", "x" * 56, "é" * 56, "x" * 10_000, "A" * 55 + "="])
def test_what_is_no_token_is_refused(text: str) -> None:
    assert SEAL.open(text, "ada") is None


def test_the_random_part_cannot_be_moved_to_another_user_by_shifting_bytes() -> None:
    id = secrets.token_bytes(ID_BYTES)
    data = base64.urlsafe_b64decode(SEAL.close(id, "ada"))
    shifted = base64.urlsafe_b64encode(data[1:] + data[:1]).decode()
    assert SEAL.open(shifted, "da") is None
