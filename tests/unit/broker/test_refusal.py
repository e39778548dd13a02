"""The rules that requests are refused by are those of the page that clients' authors read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from timermq.remoting.codes import ResponseCode

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "protocol.md").read_text()


def raised() -> Iterator[tuple[str, int]]:
    """Rule and code of every refusal whose code and rule stand in the source."""
    for path in sorted((ROOT / "broker").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Name("RefusedError"),
                    args=[ast.Attribute(attr=code), ast.Constant(str(rule)), *_],
                ):
                    yield rule, int(ResponseCode[code])
                case _:
                    pass


def listed() -> dict[str, set[int]]:
    """Rule to the codes that the page states."""
    section = PAGE.split("\n## Refusals\n")[1].split("\n## ")[0]
    codes: dict[str, set[int]] = {}
    for line in section.splitlines():
        cells = line.split("|")
        if len(cells) > 3 and re.fullmatch(r"[\d, ]+", cells[2]):
            numbers = {int(number) for number in cells[2].split(",")}
            for rule in re.findall(r"[A-Z][A-Z0-9_]+", cells[1]):
                codes.setdefault(rule, set()).update(numbers)
    return codes


def test_the_protocol_page_lists_every_rule_with_its_codes() -> None:
    """Those of bulk scheduling stand in its section."""
    page = listed()
    rules = set(raised())
    plain = {(rule, code) for rule, code in rules if not rule.startswith("BULK_")}
    bulk = {rule for rule, _ in rules if rule.startswith("BULK_")}

    assert len(plain) > 80
    assert set() == {(rule, code) for rule, code in plain if code not in page.get(rule, ())}
    assert set() == {rule for rule in bulk if rule not in PAGE}
