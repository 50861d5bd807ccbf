"""Where both know a pattern, RE2 says what Python's own `re` says."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from docgraph.codec.patterns import Pattern

ATOMS = st.sampled_from(["a", "b", "/", "é", ".", "[ab]", "[^a]", "[a-c/]", r"\.", r"[\w-]", r"\d"])
REPEATS = st.sampled_from(["", "", "?", "*", "+", "{2}", "{1,3}", "{2,}", "??", "*?", "+?"])


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, min_size=1, max_size=3).map("".join)
    alternatives = st.lists(inner, min_size=2, max_size=3).map("|".join)
    return st.one_of(
        several,
        several.map("({})".format),
        alternatives.map("(?:{})".format),
        st.tuples(several, st.sampled_from(["?", "+", "{1,2}"])).map(
            lambda it: f"(?:{it[0]}){it[1]}"
        ),
    )


PATTERNS = st.builds(
    lambda begin, body, end: f"{begin}{body}{end}",
    st.sampled_from(["", "^", r"\A"]),
    st.recursive(st.builds("{}{}".format, ATOMS, REPEATS), _grow, max_leaves=5),
    st.sampled_from(["", "$"]),
)
TEXTS = st.text("abcAB/.é1-", max_size=10)


@given(PATTERNS, TEXTS, st.booleans())
def test_a_pattern_finds_what_it_found_in_python(text: str, tried: str, ignore_case: bool) -> None:
    """`\\w`, `\\d` and `\\b` are ASCII, which is the one difference among these."""
    flags = re.ASCII if re.search(r"\\[wd]", text) else re.NOFLAG
    if flags and ignore_case:
        return  # ASCII in Python also means that only ASCII letters have two cases
    expected = re.compile(text, flags | (re.IGNORECASE if ignore_case else re.NOFLAG))
    pattern = Pattern(text, ignore_case=ignore_case)

    assert pattern.groups == expected.groups
    for find, known in (
        (pattern.search, expected.search),
        (pattern.fullmatch, expected.fullmatch),
    ):
        found, match = find(tried), known(tried)
        assert (found is None) is (match is None)
        if found is not None and match is not None:
            assert found[0] == match[0]
