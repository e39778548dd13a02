"""The pages about the house say what the house is: components, rooms, decisions, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unit.test_tidy import ALLOWED_IMPORTS, ROOT, SPARK

ROOMS = ROOT / "pipeline/timermq/pipeline"
DECISIONS = ROOT / "docs/decisions"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "perf/README.md"])
"""Everything that people read here."""

HEADINGS = ["Context", "Decision", "What it costs", "What would change it", "Where it is"]
WORDS_MIN, WORDS_MAX = 150, 300
"""Of a decision: short enough to be read before a change."""

SENTENCE_WORDS_MAX = 45
"""Of a sentence in running text; more is two sentences, or a list."""
FIGURES = ROOT / "docs/performance.md"
"""Its sentences are rows of figures, written by a script."""

SHOWN_SPARK = "pipeline/…/spark"
"""How the tables name the component that stands in the folder of another one."""


def name(path: Path) -> str:
    """The path from the top of the repository."""
    return path.relative_to(ROOT).as_posix()


def quoted(text: str) -> list[str]:
    """The pieces of a text that stand between backticks."""
    return re.findall(r"`([^`]+)`", text)


def rows_below(page: Path, head: str) -> list[list[str]]:
    """Cells of the rows of the table that has this head."""
    _, found, rest = page.read_text().partition(f"{head}\n")
    assert found, f"{name(page)}: expected a table {head}, found none"
    table = rest.split("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table]


def decisions() -> list[str]:
    """Names of the files of the decisions, sorted."""
    return sorted(path.name for path in DECISIONS.glob("*.md") if path.name != "README.md")


def anchors(page: Path) -> set[str]:
    """What a link into a page may name: its headings, in lower case, with hyphens."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ["docs/design.md", "CONTRIBUTING.md"])
def test_components(page: str) -> None:
    """The table of components is the one by which imports are judged, in its order."""
    rows = rows_below(ROOT / page, "| component | holds | may import |")
    shown = {component: set(quoted(imports)) for component, _, imports in rows}

    assert [
        (f"`{component}`".replace(SPARK, SHOWN_SPARK), allowed)
        for component, allowed in ALLOWED_IMPORTS.items()
    ] == [
        (component, {SPARK if one == SHOWN_SPARK else one for one in imports})
        for component, imports in shown.items()
    ]


def test_rooms() -> None:
    """Each room of the pipeline has its line in the design."""
    rows = rows_below(ROOT / "docs/design.md", "| room | holds |")

    assert sorted(f"`{one.parent.name}/`" for one in ROOMS.glob("*/__init__.py")) == sorted(
        room for room, _ in rows
    )


@pytest.mark.parametrize("page", decisions())
def test_decisions_have_one_form(page: str) -> None:
    """Title, status, and the five parts, in so many words that they are read."""
    text = (DECISIONS / page).read_text()
    title, _, rest = text.partition("\n\n")

    assert title.startswith("# ")
    assert rest.startswith("Status: ")
    assert HEADINGS == re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert WORDS_MIN <= len(text.split()) <= WORDS_MAX


@pytest.mark.parametrize("page", decisions())
def test_decisions_say_where_they_are(page: str) -> None:
    """The modules that a decision names are there; short names leave out the package."""
    paths = [one for one in quoted((DECISIONS / page).read_text()) if one.endswith(".py")]
    files = [one for one in paths if "/" in one and not one.startswith("timermq/")]
    missing = [
        one
        for one in files
        if not (ROOT / one).exists()
        and not (ROOT / one.partition("/")[0] / "timermq" / one).exists()
    ]

    assert files
    assert missing == []


def test_the_index_has_every_decision() -> None:
    """The index lists the decisions there are, each once."""
    text = (DECISIONS / "README.md").read_text()

    assert decisions() == sorted(re.findall(r"\]\(([a-z-]+\.md)\)", text))


def sentences(page: Path) -> list[str]:
    """The sentences of running text and of lists: no code, tables and headings."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    pieces = re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.) ?)", text)
    prose = [" ".join(one.split()) for one in pieces if not one.lstrip().startswith(("|", "#"))]
    return [one for piece in prose for one in re.split(r"(?<=[.!?]) (?=[A-Z`\[*])", piece)]


@pytest.mark.parametrize("page", [one for one in PAGES if one != FIGURES], ids=name)
def test_sentences_can_be_read_at_once(page: Path) -> None:
    """A newcomer reads them once; what is longer hides its verb."""
    long = [one for one in sentences(page) if len(one.split()) > SENTENCE_WORDS_MAX]

    assert long == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links(page: Path) -> None:
    """Links within the repository lead to a file, and to one of its headings."""
    wrong: list[str] = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if link.startswith(("https:", "http:")):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)

    assert wrong == []
