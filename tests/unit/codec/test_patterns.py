"""Patterns that people bring: which language it is, and what it costs."""

from __future__ import annotations

import pytest

from docgraph.codec.patterns import MAX_PATTERN, BadPattern, Pattern, Untriable


def test_groups_are_those_of_the_match() -> None:
    pattern = Pattern(r"/(\w+)(?:/(\d+))?(?P<rest>.*)")
    assert pattern.groups == 3
    assert pattern.search("x/users/12!") == ("/users/12!", "users", "12", "!")
    assert pattern.search("/ü") is None
    assert pattern.fullmatch("/users") == ("/users", "users", None, "")
    assert pattern.fullmatch("x/users") is None


def test_case_can_be_ignored() -> None:
    assert Pattern("straße").search("STRAßE") is None
    assert Pattern("straße", ignore_case=True).search("STRAßE") == ("STRAßE",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(?!a)b", "lookaround is not known"),
        ("(?=a)b", "lookaround is not known"),
        ("b(?<!a)", "lookaround is not known"),
        ("b(?<=a)", "lookaround is not known"),
        (r"(a)\1", "backreferences are not known"),
        ("(?P<x>a)(?P=x)", "backreferences are not known"),
        (r"a\Z", r"write \z"),
        ("a++", "possessive repetitions are not known"),
        ("a*+", "possessive repetitions are not known"),
        ("(?>a)", "atomic groups are not known"),
        ("a{1001}", "a count is 1000 at most"),
        ("((a{100}){100}){100}", "a count is 1000 at most"),
        ("a{,3}", "write {0,3}"),
        (r"\u20ac", "by its number"),
        ("(?x)a b", "the flags are"),
        ("(?(1)a|b)", "conditional groups"),
        (r"\C", "not known"),
        ("(", "missing )"),
        ("[a", "missing ]"),
        (r"(\pL{1,1000})", "pattern too large"),
        ("a" * (MAX_PATTERN + 1), "longer than 4096 characters"),
        ("\ud800", "surrogate"),
    ],
)
def test_what_is_not_of_the_language_is_refused_with_a_reason(
    text: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadPattern) as refused:
        Pattern(text)
    assert message in str(refused.value)
    assert capfd.readouterr() == ("", "")  # RE2 would write to stderr by itself


@pytest.mark.parametrize("text", [r"[{,3}]", r"\{,3}", r"\Q{,3}\C\E", r"\\C", "a{0,3}", "a{1000}"])
def test_what_only_looks_like_it_is_taken(text: str) -> None:
    Pattern(text)


@pytest.mark.parametrize("text", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*)*x", "(a*)*b"])
def test_no_pattern_takes_longer_than_the_text_is_long(text: str) -> None:
    """Each of them would hold Python's own `re` for longer than the universe is old."""
    assert Pattern(text).search("a" * 8000 + "!") is None


def test_a_large_pattern_is_tried_on_shorter_texts_only() -> None:
    large = Pattern("(a?){1000}(x|b)")
    assert large.longest < 8192
    assert large.search("a" * large.longest) is None
    with pytest.raises(Untriable):
        large.search("a" * (large.longest + 1))
    assert Pattern("(a+)+b").longest > 4 * 8192


def test_what_is_no_text_is_not_tried() -> None:
    with pytest.raises(Untriable):
        Pattern("a").search("\ud800a")
