"""Places on a page that are filled by a script: from ``<!-- NAME -->`` to ``<!-- end -->``."""

from __future__ import annotations

END = "<!-- end -->"


def filled(page: str, name: str, rows: str, *, path: str) -> str:
    """The page with other rows in one of its places.

    Args:
        page: The text of the page.
        name: Of the place.
        rows: Lines of Markdown, the last one without its end.
        path: Of the page, for the error.

    Raises:
        ValueError: The page has no such place.
    """
    begin = f"<!-- {name} -->\n"
    head, found, rest = page.partition(begin)
    _, end, tail = rest.partition(END)
    if not (found and end):
        raise ValueError(f"{path}: expected {begin.strip()} and {END}, found none")
    return f"{head}{begin}{rows}\n{END}{tail}"
