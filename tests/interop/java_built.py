"""Java programs, compiled once a machine, and archives of the classes that they load.

A suite starts some hundred of them, and most of their time is the loading of classes. Java maps an
archive of loaded classes instead, which a first run of broker, name server and client writes. An
archive that does not fit the Java of this machine is passed over.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import subprocess
import tempfile
import zipfile
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

COMPILE_SECONDS = 200.0
WRITTEN = ".new"
"""Behind the name of an archive that a run writes."""


@contextlib.contextmanager
def locked(home: Path) -> Generator[None]:
    """A folder of this machine's is ours alone, for the length of a block."""
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def compile_java(sources: Sequence[Path], classes: Path, jars: Path) -> None:
    """Compile ``sources`` into the folder ``classes``."""
    classes.mkdir(parents=True, exist_ok=True)
    command = ["javac", "-nowarn", "-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", str(classes)]
    subprocess.run([*command, *map(str, sources)], check=True, timeout=COMPILE_SECONDS)


def compiled_once(
    sources: Sequence[Path], jars: Path, more: Mapping[str, str] | None = None
) -> Path:
    """A jar of what is compiled, beside the jars; made where the sources have changed.

    Args:
        sources: Of one folder.
        jars: What they are compiled with.
        more: Text by its path in the jar.
    """
    texts = {**{one.name: one.read_text() for one in sources}, **(more or {})}
    digest = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
    home = jars.parent
    built = home / f"{sources[0].parent.name}-{digest}.jar"
    with locked(home), tempfile.TemporaryDirectory(dir=home) as folder:
        if not built.exists():
            classes = Path(folder) / "classes"
            compile_java(sources, classes, jars)
            packed = Path(folder) / built.name
            with zipfile.ZipFile(packed, "w") as archive:
                for one in sorted(classes.rglob("*.class")):
                    archive.write(one, one.relative_to(classes))
                for path, text in (more or {}).items():
                    archive.writestr(path, text)
            packed.rename(built)
    return built


def archive_of(classes: Path, main_class: str) -> Path:
    """The archive of a program of a jar, made or not.

    Args:
        classes: The jar with its classes, or a folder, which has no archives.
        main_class: One of ours shares the archive with the others of its jar.
    """
    name = main_class.rpartition(".")[2] if "." in main_class else "programs"
    return classes.with_name(f"{classes.stem}-{name}.jsa")


def archive_flags(classes: Path, main_class: str, *, write: bool) -> tuple[str, ...]:
    """Flags of Java for the archive of a program: to load it where it is there, or to write it.

    Java's own warnings are off, for the programs' lines are read.
    """
    archive = archive_of(classes, main_class)
    if write:
        return f"-XX:ArchiveClassesAtExit={archive}{WRITTEN}", "-Xlog:disable"
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"
    return ()


def publish_archives(classes: Path) -> None:
    """Give the archives that a run has written, to its end, to all others."""
    for written in classes.parent.glob(f"{classes.stem}-*.jsa{WRITTEN}"):
        written.rename(written.with_name(written.name.removesuffix(WRITTEN)))
