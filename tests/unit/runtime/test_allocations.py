"""Where allocations fail: an error for one request, not the end of the process."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import orjson
import pytest

from docgraph.exchange.errors import Overloaded
from docgraph.runtime import allocations

TEXTS = ("", "a", '\x00\n"', "é\U0001f600", "x" * 100)


def build(chance: random.Random, depth: int) -> Any:
    """Return a value of JSON, with texts that are longer than a slice."""
    kind = chance.random() if depth else 0.0
    if kind < 0.3:
        text = chance.choice(TEXTS) * chance.choice((1, 7, 50))
        return chance.choice((1, -2.5, None, True, text, orjson.dumps(text)))
    members = range(chance.randint(0, 8))
    if kind < 0.6:
        return {f"{chance.choice(TEXTS)}{n}": build(chance, depth - 1) for n in members}
    return chance.choice((list, tuple))(build(chance, depth - 1) for _ in members)


@pytest.mark.parametrize("seed", range(50))
def test_slices_have_the_bytes_of_the_whole(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocations, "_SLICE", 600)
    monkeypatch.setattr(allocations, "ensure_room", lambda size: None)
    value = build(random.Random(seed), 5)

    def embed(value: Any) -> Any:
        return orjson.Fragment(value) if seed % 2 else {"base": value[:20].hex()}

    for hook in (embed, allocations.embed_json):
        expected = orjson.dumps(value, hook)
        assert allocations._dump_in_slices(value, hook) == expected


@pytest.mark.parametrize("value", [{1: "x" * 9000}, ["\ud800" * 9000], [object(), "x" * 9000]])
def test_slices_reject_what_the_whole_rejects(value: Any) -> None:
    with pytest.raises(orjson.JSONEncodeError):
        allocations._dump_in_slices(value)


# Each call needs more than is left, and ended the process before.
SHORT = """
import resource
import bson, orjson
from bson import DBRef, Regex, SON
from bson.code import Code
from docgraph.codec import JsonMode, decode, encode
from docgraph.codec.patterns import Pattern
from docgraph.runtime import allocations
from docgraph.runtime.memory import read_room, tune_allocator
from docgraph.runtime.native import find_native

def left(size):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + size, resource.RLIM_INFINITY))

def refuses(call, *arguments):
    try:
        call(*arguments)
    except MemoryError:
        return True
    return False

tune_allocator()
text = "x" * (14 << 20)
values = [{"a": "x" * 200} for _ in range(70_000)]
body = b'{"a":"' + b"x" * (14 << 20) + b'"}'
document, native = bson.encode({"a": text}), find_native()
others = [Regex(text), Code("", {"a": text}), DBRef("c", text), SON(a=text)]
others.append(Regex("\\x01" + text))
pattern = Pattern("a+b")
read_room(1)
assert allocations.dumps is orjson.dumps and allocations.loads is orjson.loads

left(8 << 20)
assert read_room(1) <= 8 << 20
assert refuses(encode, values) and refuses(encode, {"a": text}) and refuses(encode, document)
for other in others:
    for mode in (JsonMode.STANDARD, JsonMode.SHELL):
        assert refuses(encode, [other], mode), (type(other), mode)
assert refuses(decode, body)
if native is not None:
    program = native.build_whole("standard", [])
    assert refuses(program.render_list, [document]) and refuses(program.render_each, [document])

left(48 << 20)
assert len(encode(values)) > 14_000_000 and pattern.search("ab")

left(400 << 20)
for other in others:
    assert len(encode([other])) > 14_000_000
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert read_room(1) != 0 and allocations.dumps is orjson.dumps
"""


def test_a_process_survives_what_does_not_fit() -> None:
    done = subprocess.run([sys.executable, "-c", SHORT], capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()


# What fits by our estimate has to fit, whatever it consists of: else orjson ends the process.
PARSED = """
import resource
from docgraph.runtime import allocations
from docgraph.runtime.memory import tune_allocator

def left(size):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + size, resource.RLIM_INFINITY))

tune_allocator()
allocations._MARGIN = 2 << 20  # less than the values, so that it makes up for nothing
allocations.guard(can_fail=True)
words = ",".join(f'"{n:09}"' for n in range(150_000))
texts = ("x" * 1_500_000, "\U0001f600xxx" * 200_000, r"\\ud83d\\ude00" + "x" * 1_500_000)
members = ",".join(f'"{n}":0' for n in range(100_000))
small = ("1234", "1.5", '"ab"', "[]", "{}", '{"a":1}', '{"a":1,"b":[2]}', "[1.25,2.5]")
for element in (*small, words, "{" + members + "}", *(f'"{text}"' for text in texts)):
    text = ("[" + ",".join([element] * max(1, 1_500_000 // len(element))) + "]").encode()
    left(allocations._weigh_text(text) + allocations._MARGIN + (1 << 20))
    value = allocations.loads(text)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert type(value) is list
    del value
"""


def test_a_text_whose_values_fit_is_parsed() -> None:
    done = subprocess.run([sys.executable, "-c", PARSED], capture_output=True, check=False)

    assert done.returncode == 0, (done.returncode, done.stderr.decode())


def test_the_reserve_is_held_again_after_a_shortage() -> None:
    def is_held() -> bool:
        return allocations._reserve is not None

    allocations.hold_reserve()
    before = is_held()
    error = allocations.explain_shortage()
    during = is_held()
    allocations.hold_reserve()

    assert (type(error), error.status, error.bound) == (Overloaded, 503, "memory")
    assert (before, during, is_held()) == (True, False, True)
