"""The rules of the BSON corpus: bytes, canonical and relaxed extended JSON of each type agree.

Each file of `bson_corpus/` has one type: documents with the single key `a`, as bytes and in both
forms (`relaxed` is the canonical form where it is missing), and texts that have to be refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bson
import pytest
from bson.codec_options import CodecOptions, DatetimeConversion

from docgraph.codec import JsonMode, decode, encode
from docgraph.exchange.errors import BodyError

CODEC = CodecOptions[dict[str, Any]](datetime_conversion=DatetimeConversion.DATETIME_AUTO)
FILES = sorted(Path(__file__).with_name("bson_corpus").glob("*.json"))
CORPUS = [json.loads(file.read_text()) for file in FILES]
VALID = [
    pytest.param(case, id=f"{part['type']}: {case['name']}")
    for part in CORPUS
    for case in part["valid"]
]
REFUSED = [
    pytest.param(case["text"], id=f"{part['type']}: {case['name']}")
    for part in CORPUS
    for case in part.get("refused", [])
]


@pytest.mark.parametrize("case", VALID)
def test_stored_bytes_are_written_in_both_forms(case: dict[str, Any]) -> None:
    document = bson.decode(bytes.fromhex(case["bson"]), CODEC)

    canonical = json.loads(encode(document, JsonMode.EXTENDED))
    relaxed = json.loads(encode(document, JsonMode.RELAXED))

    assert repr(canonical) == repr({"a": case["canonical"]})  # repr: 1 is not 1.0 here
    assert repr(relaxed) == repr({"a": case.get("relaxed", case["canonical"])})


@pytest.mark.parametrize("case", VALID)
def test_the_canonical_form_is_stored_as_the_same_bytes(case: dict[str, Any]) -> None:
    document = decode(json.dumps({"a": case["canonical"]}))

    assert bson.encode(document, codec_options=CODEC).hex() == case["bson"]


@pytest.mark.parametrize("case", VALID)
def test_the_relaxed_form_is_read_and_written_again_unchanged(case: dict[str, Any]) -> None:
    text = json.dumps({"a": case.get("relaxed", case["canonical"])})

    assert repr(json.loads(encode(decode(text), JsonMode.RELAXED))) == repr(json.loads(text))


@pytest.mark.parametrize("text", REFUSED)
def test_what_no_value_can_be_is_refused(text: str) -> None:
    with pytest.raises(BodyError):
        decode(f'{{"a": {text}}}')
    with pytest.raises(BodyError):
        decode(f"{{a: {text}}}")


def test_old_types_are_read_as_what_replaces_them() -> None:
    undefined = bson.decode(bytes.fromhex("0800000006610000"), CODEC)
    symbol = bson.decode(bytes.fromhex("0e0000000e610002000000620000"), CODEC)

    assert encode(undefined, JsonMode.EXTENDED) == b'{"a":null}'
    assert encode(symbol, JsonMode.EXTENDED) == b'{"a":"b"}'
    assert decode('{"a": {"$undefined": true}, "b": {"$symbol": "c"}}') == {"a": None, "b": "c"}
