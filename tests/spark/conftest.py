"""One session of Spark for all tests here: starting one takes ten seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from timermq.pipeline.spark import register, spark_session

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    # Tests are short: the first compiler alone, which is ready sooner.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with two cores and all tables."""
    session = spark_session(master="local[2]", name="tests", settings=SETTINGS)
    register(session)
    yield session
    session.stop()
