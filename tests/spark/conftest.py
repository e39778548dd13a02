"""One session of Spark for all tests here: starting one takes ten seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from cli.program import SMALL_FILES
from interop.serving import Broker, serving
from timermq.pipeline.spark import register, spark_session

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    # Tests are short: the first compiler alone, which is ready sooner, and no threads that collect
    # garbage beside them.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # ... and few: to compile a query takes longer than to interpret it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    # A hash table of ten rows takes a page; a broadcast one keeps it until garbage is collected.
    "spark.buffer.pageSize": "1m",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with two cores and all tables; a task that fails is tried three times."""
    session = spark_session(master="local[2,3]", name="tests", settings=SETTINGS)
    register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker in a process of its own; each test takes jobs and topics of its own."""
    with serving(tmp_path_factory.mktemp("broker") / "store", *SMALL_FILES) as one:
        yield one
