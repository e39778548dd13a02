"""The data pipeline: a store's files as tables of Spark, and the jobs on them.

    spark = spark_session(master="local[2]")
    register(spark)
    spark.read.format("timermq.pending").option("path", "/var/lib/timermq").load()

Runs in a process of its own; PySpark comes with the extra ``spark``.
"""

from pyspark.sql import DataFrame as DataFrame
from pyspark.sql import SparkSession as SparkSession

from .errors import NoSparkError as NoSparkError
from .errors import SparkJobError as SparkJobError
from .errors import cause_of as cause_of
from .session import spark_session as spark_session
from .store_view import StoreView as StoreView
from .tables.registration import read_stream as read_stream
from .tables.registration import read_table as read_table
from .tables.registration import register as register
