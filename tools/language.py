"""Check the language: words to avoid, long sentences, long lines, missing files.

    python tools/language.py [--pages] [--allow] [--wrap]

Old words that are still in the files are counted in `tools/language.yml`; a file may not have more
of them. `--allow` writes the current counts there. `--wrap` wraps the paragraphs of pages that
have a line of more than 120 columns. `--pages` prints the mean length of sentences of each page,
as information. A sentence of a page for users has at most 35 words, of another page 45. Files that
pages for developers name have to exist.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).parents[1]
ALLOWED: Final = ROOT / "tools/language.yml"
LONG: Final = 25  # words, as a rule
# At most this many words, by the path of the page.
MOST: Final = {"README.md": 35, "docs/how-to/": 35, "docs/tutorial/": 35, "examples/": 35, "": 45}
COLUMNS: Final = 120
_PAGES: Final = (
    "*.md",
    "docs/**/*.md",
    "examples/*/README.md",
    "deploy/*.md",
    "bench/README.md",
    "tests/README.md",
    "workbench/*.md",
    "migrate/*.md",
)
_DEVELOPER_PAGES: Final = ("ARCHITECTURE.md", "docs/explanation/glossary.md", "tests/README.md")
_PACKAGES: Final = ("src/docgraph/**/*.py", "*/src/docgraph_*/**/*.py")
_CONSOLE: Final = ("console/*.mjs", "console/src/**/*.ts*", "console/src/**/*.css")
# A pattern, and what to write instead.
WORDS: Final = {
    r"(is|are|was|were|be) told|tells? of|is said": "reports, returns, logs",
    r"mend(s|ed|ing)?|amiss": "fix, wrong",
    r"stands?(?! alone)|stood": "is, appears in, means",
    r"anew|once more": "again",
    r"nobody|somebody|whoever": "no one, the caller, users with the role",
    r"comes? along": "bundled, included",
    r"goes on|goes away|(is|are) gone": "continues, is removed, no longer exists",
    r"the way there": "how to reach",
    r"the (present|former) one": "current, previous",
    r"at work|under way|worked on": "running, in progress",
    r"turned away": "rejected",
    r"carr(y|ies|ied) out": "execute",
    r"(un)?known callers?": "authenticated, unauthenticated callers",
    r"a look|looks? (at|into)": "check, inspect",
    r"says? so": "reports it",
    r"unless (you say|told) otherwise": "by default",
    r"at once": "immediately, at the same time",
}
_WORD: Final = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
_CODE: Final = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)|<[^>\n]*>", re.MULTILINE | re.DOTALL)
_VALUE: Final = re.compile(r'"[\w$-]*"')
# A sentence ends with a mark and a space, not with a colon; the marks in code do not end it.
_SPAN: Final = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)\s]*\)")
_END: Final = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)[\"')*_]*(?:\s+|$)")
_RULER: Final = re.compile(r"[|:\s-]+")
_PATH: Final = re.compile(
    r"`(?!build/|src/docgraph/console/static)((?:[\w.-]+/)+[\w.-]+\.(?:py|md|ts|tsx|mjs|rs|json|ya?ml)"
    r"|(?:src|tests|docs)/[\w./-]+)`"
)
_FENCE: Final = re.compile(r"\s*(```|~~~)")
_ITEM: Final = re.compile(r"\s*(?:[*+-]|\d+[.)])\s+(?:\[[ x]\] )?")  # the mark of a list item
_BULLETS: Final = frozenset({"*", "+", "-", "1."})
_INDENT: Final = re.compile(r"\s*")
_NO_PROSE: Final = re.compile(r"\s*(?:$|[|#>]|<[!/a-z]|\[[^\]]+\]: )")
# A line may end between two of these: code, links and `5 000` are not divided, and no line begins
# with a mark.
_PART: Final = re.compile(
    r"(?:`+[^`]*`+|\[[^\]]*\]\([^)\s]*\)|[^\s`]|`)+"
    r"(?:\s+(?:[*+|>#-]+|\d+[.)])(?=\s|$)|(?<=\d) \d{3}\b[^\s`]*)*"
)


def find_texts(root: Path = ROOT) -> Iterator[tuple[str, int, str]]:
    """Yield each text that a person reads, with its file and line."""
    for page in _find_pages(root):
        yield page.relative_to(root).as_posix(), 1, _blank_code(page.read_text())
    for source in sorted(one for pattern in _PACKAGES for one in root.glob(pattern)):
        name = source.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield name, node.lineno, node.value
    for source in sorted(one for pattern in _CONSOLE for one in root.glob(pattern)):
        yield source.relative_to(root).as_posix(), 1, _VALUE.sub("", source.read_text())


def _blank_code(text: str) -> str:
    """Replace code and addresses, keeping the lines."""
    return _CODE.sub(lambda found: "\n" * found[0].count("\n"), text)


def find_words(root: Path = ROOT) -> dict[str, list[tuple[int, str]]]:
    """Return the words to avoid by file, each with its line."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name, line, text in find_texts(root):
        for match in _WORD.finditer(text):
            at = line + text.count("\n", 0, match.start())
            found.setdefault(name, []).append((at, match[0]))
    return found


def compare(found: dict[str, list[tuple[int, str]]], allowed: dict[str, int]) -> Iterator[str]:
    """Yield what to change in each file that has more of these words than it may."""
    for name, words in found.items():
        if len(words) > allowed.get(name, 0):
            for line, word in words:
                yield f"{name}:{line}: {word!r}: write {_suggest(word)}"


def _suggest(word: str) -> str:
    return next(use for avoid, use in WORDS.items() if re.fullmatch(avoid, word, re.IGNORECASE))


def measure(text: str) -> tuple[float, int]:
    """Return the mean number of words of the sentences, and how many sentences are long."""
    lengths = [count_words(sentence) for _, sentence in split_sentences(text)]
    return sum(lengths) / max(len(lengths), 1), sum(length > LONG for length in lengths)


def find_long_sentences(root: Path = ROOT) -> Iterator[str]:
    """Yield each sentence of a page that has too many words."""
    for page in _find_pages(root):
        name = page.relative_to(root).as_posix()
        most = next(words for path, words in MOST.items() if name.startswith(path))
        for line, sentence in split_sentences(page.read_text()):
            words = count_words(sentence)
            if words > most:
                yield f"{name}:{line}: {words} words, at most {most}: {sentence[:60]}…"


def split_sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield each sentence of paragraphs, list items and cells of tables, with the line of these."""
    for line, block in _split_blocks(text):
        readable = _SPAN.sub(lambda span: re.sub(r"[.!?]", "_", span[0]), _LINK.sub(r"\1", block))
        yield from ((line, sentence) for sentence in _END.split(readable) if sentence)


def count_words(sentence: str) -> int:
    """Return the number of words; those inside of code count, too."""
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


def _split_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield paragraphs and list items as one line, and the cells of tables, with their line."""
    at, is_code = 1, False
    for lines, is_prose in split_paragraphs(text):
        if is_prose:
            item = _ITEM.match(lines[0])
            words = [lines[0][item.end() if item else 0 :], *lines[1:]]
            yield at, " ".join(line.strip() for line in words)
        elif _FENCE.match(lines[0]):
            is_code = not is_code
        elif not is_code and (row := lines[0].strip()).startswith(("|", ">")):
            yield from ((at, cell) for cell in _split_row(row))
        at += len(lines)


def _split_row(row: str) -> list[str]:
    """Return the cells of a row of a table, or the text of a quotation."""
    if _RULER.fullmatch(row):
        return []
    if row.startswith(">"):
        return [row.lstrip("> ")]
    guarded = _SPAN.sub(lambda span: span[0].replace("|", "_"), row).replace(r"\|", "_")
    return [cell.strip() for cell in guarded.split("|") if cell.strip()]


def find_long_lines(root: Path = ROOT) -> Iterator[str]:
    """Yield each line of a page that is too long and can be wrapped."""
    for page in _find_pages(root):
        at = 1
        for lines, is_prose in split_paragraphs(page.read_text()):
            if is_prose and wrap_paragraph(lines) != lines:
                name = page.relative_to(root).as_posix()
                yield f"{name}:{at}: longer than {COLUMNS} columns: run tools/language.py --wrap"
            at += len(lines)


def wrap_pages(root: Path = ROOT) -> None:
    """Wrap the paragraphs of all pages that have a line that is too long."""
    for page in _find_pages(root):
        text = page.read_text()
        paragraphs = (
            wrap_paragraph(lines) if is_prose else lines
            for lines, is_prose in split_paragraphs(text)
        )
        wrapped = "\n".join(line for lines in paragraphs for line in lines)
        if wrapped != text:
            page.write_text(wrapped)


def find_missing_files(root: Path = ROOT) -> Iterator[str]:
    """Yield each path on a page for developers that does not exist."""
    for page in (root / name for name in _DEVELOPER_PAGES):
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for path in _PATH.findall(line):
                if not any((root / base / path).exists() for base in ("", "src/docgraph", "tests")):
                    yield f"{page.relative_to(root)}:{number}: no such file: {path}"


def split_paragraphs(text: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the lines of each paragraph and list item (prose), and each line of anything else."""
    paragraph: list[str] = []
    is_code = False
    for line in text.split("\n"):
        is_fence = _FENCE.match(line) is not None
        is_prose = not (is_code or is_fence or _NO_PROSE.match(line))
        if paragraph and (not is_prose or _is_next_item(line, paragraph[0])):
            yield paragraph, True
            paragraph = []
        if is_prose:
            paragraph.append(line)
        else:
            yield [line], False
        is_code ^= is_fence
    if paragraph:
        yield paragraph, True


def _is_next_item(line: str, first: str) -> bool:
    """Return whether the line begins an item; a number above 1 does so only after an item."""
    item = _ITEM.match(line)
    return item is not None and (_ITEM.match(first) is not None or item[0].strip() in _BULLETS)


def wrap_paragraph(lines: list[str]) -> list[str]:
    """Return the lines of a paragraph, wrapped if one of them is too long."""
    if all(len(line) <= COLUMNS for line in lines):
        return lines
    mark = _ITEM.match(lines[0]) or _INDENT.match(lines[0])
    start = mark[0] if mark else ""
    first, *others = _PART.findall(" ".join([lines[0][len(start) :], *lines[1:]]))
    wrapped = [start + first]
    for part in others:
        if len(wrapped[-1]) + 1 + len(part) <= COLUMNS:
            wrapped[-1] += f" {part}"
        else:
            wrapped.append(" " * len(start) + part)
    return wrapped


def _find_pages(root: Path) -> list[Path]:
    return sorted({page for pattern in _PAGES for page in root.glob(pattern)})


def main(arguments: list[str]) -> int:
    """Print what is wrong; 1 if anything is."""
    if "--wrap" in arguments:
        wrap_pages()
    found = find_words()
    if "--allow" in arguments:
        counts = {name: len(words) for name, words in sorted(found.items())}
        head = "# Words of tools/language.py that are still in a file: lower these numbers.\n"
        ALLOWED.write_text(head + yaml.safe_dump(counts))
    if "--pages" in arguments:
        for page in _find_pages(ROOT):
            mean, long = measure(page.read_text())
            print(f"{mean:5.1f} words, {long:3} long sentences  {page.relative_to(ROOT)}")
    flaws = list(compare(found, yaml.safe_load(ALLOWED.read_text()) or {}))
    flaws += [*find_long_lines(), *find_long_sentences(), *find_missing_files()]
    for flaw in flaws:
        print(flaw)
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
