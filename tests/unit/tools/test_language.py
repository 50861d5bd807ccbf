"""`tools/language.py`: words to avoid are found in pages and messages, and code is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.language import (
    compare,
    find_long_lines,
    find_long_sentences,
    find_missing_files,
    find_words,
    measure,
    split_sentences,
    wrap_pages,
)


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_words_are_found_with_their_file_and_line(tmp_path: Path) -> None:
    write(tmp_path, "docs/page.md", "# Title\n\nNobody is told.\n")
    write(tmp_path, "src/docgraph/x.py", 'x = 1\nraise ValueError("mend it")\n')
    write(tmp_path, "console/src/pages/A.tsx", "/** Begins anew. */\n<p>Whoever reads</p>\n")

    assert find_words(tmp_path) == {
        "docs/page.md": [(3, "Nobody"), (3, "is told")],
        "src/docgraph/x.py": [(2, "mend")],
        "console/src/pages/A.tsx": [(1, "anew"), (2, "Whoever")],
    }


def test_values_and_names_of_the_console_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "console/src/a.ts", 'const whoeverAsks = { kind: "nobody" };\n')

    assert find_words(tmp_path) == {}


@pytest.mark.parametrize(
    "text",
    ["`nobody`", "```sh\nnobody\n```\n", "[a](nobody.md)", "<nobody@example.org>", "understands"],
)
def test_code_addresses_and_other_words_are_left_out(tmp_path: Path, text: str) -> None:
    write(tmp_path, "README.md", text)

    assert find_words(tmp_path) == {}


def test_a_file_may_have_as_many_as_are_allowed_and_no_more() -> None:
    found = {"a.md": [(1, "anew")], "b.md": [(2, "Anew"), (3, "at once")]}

    assert list(compare(found, {"a.md": 1, "b.md": 2})) == []
    assert list(compare(found, {"a.md": 1, "b.md": 1})) == [
        "b.md:2: 'Anew': write again",
        "b.md:3: 'at once': write immediately, at the same time",
    ]


def test_the_length_of_sentences_is_measured_without_code() -> None:
    text = "# A title\n\nThis has four words. And this one has six words.\n"

    assert measure(text + "\n```sh\na b c d e f g\n```\n") == measure(text)

    assert measure(text) == (5.0, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "One: two, three. docgraph is four! Is it?",
            ["One: two, three.", "docgraph is four!", "Is it?"],
        ),
        (
            "See e.g. `a. b? c` and [the page. It](x.md#a).",
            ["See e.g. `a_ b_ c` and the page.", "It."],
        ),
        ("Of version 3.11.2 (or newer.) Next.", ["Of version 3.11.2 (or newer.", "Next."]),
        ("A line\nand its rest\n\nAnother", ["A line and its rest", "Another"]),
        ("**Of** this (at most 100) - a * b", ["**Of** this (at most 100) - a * b"]),
        ("It does:\n\n* a; b\n  and c\n* d\n1. e", ["It does:", "a; b and c", "d", "e"]),
        (
            "| a: b | `c | d`. E |\n|---|---|\n| f \\| g | h |",
            ["a: b", "`c _ d`.", "E", "f _ g", "h"],
        ),
        ("# A title.\n\n```sh\n| no. |\n```\n\n> A quotation.", ["A quotation."]),
    ],
)
def test_sentences_end_with_a_mark_outside_of_code(text: str, expected: list[str]) -> None:
    assert [sentence for _, sentence in split_sentences(text)] == expected


@pytest.mark.parametrize(
    ("page", "most"),
    [("docs/how-to/a.md", 35), ("docs/tutorial/a.md", 35), ("docs/reference/a.md", 45)],
)
@pytest.mark.parametrize("form", ["{}", "* {}", "| cell | {} |", "A list: {}", "`code {}`"])
def test_long_sentences_are_found_in_every_form(
    tmp_path: Path, page: str, most: int, form: str
) -> None:
    spare = most - len([word for word in form.split() if word.strip("*|{}`")]) * (
        "cell" not in form
    )
    write(tmp_path, page, "First.\n\n" + form.format("word " * (spare - 1) + "word."))
    assert list(find_long_sentences(tmp_path)) == []

    write(tmp_path, page, "First.\n\n" + form.format("word " * spare + "word."))
    (flaw,) = find_long_sentences(tmp_path)
    assert flaw.startswith(f"{page}:3: {most + 1} words, at most {most}: ")


LONG_CODE = "`" + "code " * 24 + "`"


def test_long_lines_of_prose_are_wrapped_and_the_rest_stays(tmp_path: Path) -> None:
    table = f"| {'a ' * 80}|\n"
    code = f"```sh\n{'a ' * 80}\n```\n"
    short = "One line\nand another.\n"
    write(tmp_path, "README.md", f"{table}\n{code}\n{short}\n* {'word ' * 40}\n  end\n")

    assert list(find_long_lines(tmp_path)) == [
        "README.md:10: longer than 120 columns: run tools/language.py --wrap"
    ]
    wrap_pages(tmp_path)

    assert list(find_long_lines(tmp_path)) == []
    item = "* " + "word " * 22 + "word\n  " + "word " * 17 + "end\n"
    assert (tmp_path / "README.md").read_text() == f"{table}\n{code}\n{short}\n{item}"


LONG_LINK = f"[{'a ' * 60}](page.md)"


@pytest.mark.parametrize("text", [LONG_CODE, f"* {LONG_CODE}", "a" * 121, f"* {LONG_LINK}"])
def test_a_long_line_that_cannot_be_wrapped_is_allowed(tmp_path: Path, text: str) -> None:
    write(tmp_path, "README.md", text)

    assert list(find_long_lines(tmp_path)) == []


def test_a_new_line_never_begins_with_the_mark_of_a_list(tmp_path: Path) -> None:
    write(tmp_path, "README.md", "a" * 119 + " - b " + "c" * 117 + " 1. d\n")
    wrap_pages(tmp_path)

    lines = (tmp_path / "README.md").read_text().splitlines()
    assert lines == ["a" * 119 + " -", "b", "c" * 117 + " 1.", "d"]


def test_files_that_pages_for_developers_name_have_to_exist(tmp_path: Path) -> None:
    write(tmp_path, "src/docgraph/rest/ids.py", "")
    write(tmp_path, "tests/unit/test_ids.py", "")
    write(tmp_path, "docs/explanation/glossary.md", "`rest/ids.py` `src/docgraph/rest` `text/csv`")
    write(tmp_path, "tests/README.md", "`unit/test_ids.py`\n`unit/test_old.py`\n")
    write(tmp_path, "ARCHITECTURE.md", "`tests/unit`, `rest/gone.py`")

    assert list(find_missing_files(tmp_path)) == [
        "ARCHITECTURE.md:1: no such file: rest/gone.py",
        "tests/README.md:2: no such file: unit/test_old.py",
    ]
