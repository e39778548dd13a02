"""What no linter knows: the rules about folders, imports, clocks and sizes."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from timermq.cli.verbs import VERBS

ROOT = Path(__file__).parents[2]

SPARK = "pipeline/timermq/pipeline/spark"
ALLOWED_IMPORTS = {
    "timerstore": set[str](),
    "timerlog": {"timerstore"},
    "wheel": {"timerstore"},
    "pipeline": {"timerstore", "timerlog", "wheel"},
    "repair": {"timerstore", "timerlog", "wheel", "pipeline"},
    "backup": {"timerstore", "repair"},
    "remoting": set[str](),
    SPARK: {"timerstore", "timerlog", "wheel", "pipeline", "repair", "backup", "remoting"},
    "broker": {"timerstore", "timerlog", "wheel", "pipeline", "remoting"},
    "client": {"remoting"},
    "simulator": {
        *("timerstore", "timerlog", "wheel", "pipeline", "repair", "remoting", "broker", "client"),
    },
    "bench": {"timerstore", "timerlog", "wheel", "pipeline", "remoting", "broker", "client"},
    "cli": {
        *("timerstore", "timerlog", "wheel", "pipeline", "repair", "backup", "remoting", SPARK),
        *("broker", "client", "simulator", "bench"),
    },
}
"""Component to the components it may import: imports point up this table only. The data pipeline is
a component that stands in the folder of another one."""

COMPONENTS = [component for component in ALLOWED_IMPORTS if component != SPARK]
"""Folders of components."""

PIPELINE_ROOMS = {
    "records": set[str](),
    "state": {"records"},
    "clock": {"state"},
    "admission": {"records", "state"},
    "recovery": {"records", "state", "clock"},
    "quarantine": {"records", "state", "clock", "admission"},
    "cancel": {"records", "state", "clock", "recovery", "quarantine"},
    "stages": {"records", "state", "clock", "admission", "recovery", "quarantine"},
    "levels": {
        *("records", "state", "clock", "admission", "recovery", "quarantine", "cancel", "stages"),
    },
}
"""Room of the timer service to the rooms it may import; the modules beside them run them all."""

CLOCK_MODULES = {
    "pipeline/timermq/pipeline/clock/clock.py",
    "client/timermq/client/moment.py",
    "bench/timermq/bench/",
}
"""Where the wall clock is read; everything else gets ``now_ms`` handed in. Benches measure it."""

DECISIONS_MIN = 2
"""A module with so many ``if`` and ``match``, and more lines than `SMALL_MODULE`, is tested under
its own name. What has fewer is a codec, a table or a thin verb."""
SMALL_MODULE = 60

TESTED_ELSEWHERE = {
    f"{SPARK}/": "`tests/spark` runs the jobs in a session, by the names of jobs and verbs",
    "simulator/timermq/simulator/": "a test itself: its seeds find what `tests/planted` plants",
    "repair/timermq/repair/store_rule.py": "a table of rules; `tests/spark/test_store_rules.py`",
    "backup/timermq/backup/": "`tests/property/test_backup.py` kills it anywhere, "
    "`tests/simulation/test_backup.py` restores what it shipped",
    "cli/timermq/cli/restore.py": "`tests/cli/test_backup.py` restores and serves",
    "bench/timermq/bench/": "`tests/cli/test_bench.py` runs it against a broker",
    "cli/timermq/cli/spark/": "`tests/cli/test_spark.py` and the verbs in `tests/spark`",
    "cli/timermq/cli/store/": "`tests/cli/test_store*.py` runs the verbs on stores of both brokers",
    "cli/timermq/cli/top/broker_watch.py": "`test_live.py` runs it against a broker by a script",
    "cli/timermq/cli/top/terminal.py": "`tests/cli/test_top.py` runs it in a terminal",
}
"""Module, or beginning of a path, to where it is tested instead."""

LINES_MAX = 500
LONG_MODULES: dict[str, str] = {}
"""Module to the reason why it is longer than ``LINES_MAX``."""

WALL_CLOCK = re.compile(r"\btime\.time(_ns)?\(|\bdatetime\.(now|utcnow|today)\(|\bdate\.today\(")
UNFINISHED = re.compile("TO" + "DO|FIX" + "ME|XX" + "X:|NotImplemented" + "Error")
SURROUNDINGS = {"argparse", "shtab", "getpass", "readline", "curses"}
"""Modules that read arguments or the terminal: only the command line does."""


def sources(*folders: str) -> list[Path]:
    """Every Python file under the folders of the repository (default: all components)."""
    roots = [ROOT / folder for folder in folders or COMPONENTS]
    return sorted(path for root in roots for path in root.rglob("*.py"))


def name(path: Path) -> str:
    """The path as it is written in the tables above."""
    return path.relative_to(ROOT).as_posix()


def imported_modules(path: Path) -> Iterator[str]:
    """Absolute names of what a module imports; relative imports stay inside their component."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_name(path: Path) -> str:
    """The dotted name of a module, ``….__init__`` for that of a package."""
    return name(path).partition("/")[2][:-3].replace("/", ".")


@functools.cache
def import_graph() -> dict[str, set[str]]:
    """Every module to the modules that it imports, without the lists of names of packages."""
    modules = {module_name(path): path for path in sources() if path.name != "__init__.py"}
    return {
        module: {
            found
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
            for base in [absolute(module, node)]
            for alias in node.names
            for found in (base, f"{base}.{alias.name}")
            if found in modules
        }
        for module, path in modules.items()
    }


def absolute(module: str, node: ast.ImportFrom) -> str:
    """The absolute name of what a module imports from."""
    above = module.split(".")[: -node.level] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def lines_with(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    """``file:line`` of every line in which the pattern is found."""
    return [
        f"{name(path)}:{number}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if pattern.search(line)
    ]


def component_of(path: Path) -> str:
    """The component that a module belongs to."""
    return SPARK if name(path).startswith(SPARK) else name(path).partition("/")[0]


def imported_component(module: str) -> str:
    """The component of an imported module."""
    if module.startswith("timermq.pipeline.spark"):
        return SPARK
    return module.split(".")[1]


@pytest.mark.parametrize("component", ALLOWED_IMPORTS)
def test_imports_point_up(component: str) -> None:
    """A component imports those above it in the table, and itself."""
    allowed = ALLOWED_IMPORTS[component] | {component}
    wrong = [
        f"{name(path)}: {module}"
        for path in sources(component)
        if component_of(path) == component
        for module in imported_modules(path)
        if module.startswith("timermq.") and imported_component(module) not in allowed
    ]

    assert wrong == []


@pytest.mark.parametrize("room", PIPELINE_ROOMS)
def test_imports_between_rooms_point_up(room: str) -> None:
    """A room of the timer service imports those above it in the table, and itself."""
    allowed = PIPELINE_ROOMS[room] | {room}
    below = f"timermq.pipeline.{room}."
    wrong = [
        f"{module}: {imported}"
        for module, imports in import_graph().items()
        if module.startswith(below)
        for imported in imports
        if imported.startswith("timermq.pipeline.") and imported.split(".")[2] not in allowed
    ]

    assert wrong == []


def test_imports_go_in_no_circle() -> None:
    """A module is done before those that import it; a package's list of names does not count."""
    left = import_graph()
    while ready := {module for module, imports in left.items() if not imports & left.keys()}:
        left = {module: imports for module, imports in left.items() if module not in ready}

    assert left == {}


def test_no_module_is_there_for_tests_alone() -> None:
    """Every module is imported by another one, or by its name: a verb, a program."""
    graph = import_graph()
    lists = [path for path in sources() if path.name == "__init__.py"]
    imported = {module for imports in graph.values() for module in imports} | {
        found
        for path in lists
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for base in [absolute(module_name(path), node)]
        for found in (base, *(f"{base}.{alias.name}" for alias in node.names))
    }
    verbs = {f"timermq.cli.{verb.replace('-', '_')}" for verb in VERBS}

    assert graph.keys() - imported - verbs - {"timermq.cli.__main__"} == set()


def test_the_readme_names_every_folder() -> None:
    """Its table has all components and no other, and the rooms of the timer service."""
    table = (ROOT / "README.md").read_text().partition("## Folders")[2].partition("\n\n[")[0]
    named = set(re.findall(r"`([a-z]+)/`", table))

    assert named == {*COMPONENTS, *PIPELINE_ROOMS, "spark", "tests", "perf", "docs"}


@pytest.mark.parametrize("component", COMPONENTS)
def test_siblings_are_imported_relatively_one_level_deep(component: str) -> None:
    """A relative import never climbs out of its component."""
    depth_of = {
        path: len(path.relative_to(ROOT / component).parts) - 2 for path in sources(component)
    }
    wrong = [
        name(path)
        for path, depth in depth_of.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level > depth
    ]

    assert wrong == []


def test_the_namespace_package_has_no_init() -> None:
    """An ``__init__.py`` in one portion of the namespace package would hide the others."""
    assert [name(path) for path in ROOT.glob("*/timermq/__init__.py")] == []


@pytest.mark.parametrize("component", COMPONENTS)
def test_package_init_only_lists_names(component: str) -> None:
    """A component's ``__init__`` is a docstring and imports: nothing works at import time."""
    init = ROOT / component / "timermq" / component / "__init__.py"
    if not init.exists():
        return
    wrong = [
        ast.unparse(node)
        for node in ast.parse(init.read_text()).body
        if not isinstance(node, ast.ImportFrom | ast.Import)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]

    assert wrong == []


def test_only_the_clock_reads_the_wall_clock() -> None:
    """Logic gets ``now_ms`` handed in; then tests are instant and clock steps can be staged."""
    others = [path for path in sources() if not name(path).startswith(tuple(CLOCK_MODULES))]

    assert lines_with(WALL_CLOCK, others) == []


def test_only_the_command_line_prints() -> None:
    """Everything below ``cli`` returns values or logs."""
    below = [path for path in sources() if not name(path).startswith("cli/")]

    assert lines_with(re.compile(r"(?<![\w.])print\("), below) == []


def test_only_the_command_line_reads_its_surroundings() -> None:
    """Arguments, environment and terminal are read by ``cli`` and handed down as values."""
    below = [path for path in sources() if not name(path).startswith("cli/")]
    wrong = [
        f"{name(path)}: {module}"
        for path in below
        for module in imported_modules(path)
        if module.split(".")[0] in SURROUNDINGS
    ]

    assert wrong == []
    below.remove(ROOT / SPARK / "session.py")  # Java is told so where it is
    below.remove(ROOT / SPARK / "places.py")  # so is what leads to an object store
    below.remove(ROOT / "simulator/timermq/simulator/run.py")  # it sets the time zone of all seeds
    assert lines_with(re.compile(r"\bos\.(environ|getenv)\b|\bsys\.argv\b"), below) == []


def test_pyspark_stays_in_its_package() -> None:
    """No module outside ``pipeline/timermq/pipeline/spark`` imports pyspark."""
    wrong = [
        f"{name(path)}: {module}"
        for path in sources()
        if not name(path).startswith("pipeline/timermq/pipeline/spark/")
        for module in imported_modules(path)
        if module.split(".")[0] == "pyspark"
    ]

    assert wrong == []


def test_no_module_is_too_long() -> None:
    """A module is one noun of the field; a longer one needs a reason in the table above."""
    lengths = {
        name(path): len(path.read_text().splitlines()) for path in sources(*ALLOWED_IMPORTS, "perf")
    }

    assert {
        module: length
        for module, length in lengths.items()
        if length > LINES_MAX and module not in LONG_MODULES
    } == {}
    assert [module for module in LONG_MODULES if lengths.get(module, 0) <= LINES_MAX] == []


def decisions_in(path: Path) -> int:
    """How many ``if`` and ``match`` a module has."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return sum(isinstance(node, ast.If | ast.Match) for node in nodes)


def test_a_module_that_decides_has_a_test_of_its_name() -> None:
    """So a reader finds it, and a changed decision fails near by; exceptions are in the table."""
    tested = {path.stem.removeprefix("test_") for path in sources("tests")}
    missing = {
        name(path)
        for path in sources()
        if (path.parent if path.stem == "__init__" else path).stem not in tested
        and len(path.read_text().splitlines()) > SMALL_MODULE
        and decisions_in(path) >= DECISIONS_MIN
    }
    excused = {start for start in TESTED_ELSEWHERE for one in missing if one.startswith(start)}

    assert [one for one in sorted(missing) if not one.startswith(tuple(TESTED_ELSEWHERE))] == []
    assert excused == set(TESTED_ELSEWHERE)


def test_nothing_is_left_unfinished() -> None:
    """A note to finish something later belongs into the tracker, not into the code."""
    assert lines_with(UNFINISHED, sources(*ALLOWED_IMPORTS, "tests", "perf")) == []
