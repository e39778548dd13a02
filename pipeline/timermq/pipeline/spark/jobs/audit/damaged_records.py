"""Places of the commit log where nothing can be judged: damaged records, and repaired ones."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from timermq.repair.lost_record import LOST
from timermq.repair.store_rule import StoreRule
from timermq.timerstore.filler_record import HOLE_TOPIC
from timermq.timerstore.message import SysFlag

from .finding import Judgement


def outside_of(found: DataFrame, places: DataFrame) -> DataFrame:
    """Findings about what does not stand, or stood, within any of some records."""
    holes = places.selectExpr("phy_offset AS low", "phy_offset + total_size AS high")
    inside = F.expr("phy_offset >= low AND phy_offset < high")
    return found.join(F.broadcast(holes), inside, "left_anti")


REPAIRED_COLUMNS = ("phy_offset", "total_size", "topic", "real_topic", "sys_flag", "properties")
_HOLE = HOLE_TOPIC.decode()
IS_REPAIRED = (
    f"startswith('{_HOLE}', topic) AND sys_flag = {int(SysFlag.TRANSACTION_ROLLBACK)} "
    f"OR real_topic = '{_HOLE}' OR contains(properties, X'{LOST.hex()}')"
)
"""A filler, of which a small one has the beginning of the topic alone, or a lost record."""
IS_UNSOUND = "(damage IS NULL AND length(body) > 0 AND (crc32(body) & 2147483647) != body_crc)"
"""A record whose body is not the one that was stored."""
TORN = Judgement(
    rule=StoreRule.RECORD_DAMAGED,
    when="true",
    phy_offset="phy_offset",
    expected="if(damage IS NULL, format_string('a body with checksum %s', body_crc), 'a record')",
    found="coalesce(damage, format_string('%s', crc32(body) & 2147483647))",
)
