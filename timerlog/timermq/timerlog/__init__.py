"""The timer log: the journal of pending messages and the chains of the wheel's slots."""

from .chain import ChainError as ChainError
from .chain import DamagedUnitError as DamagedUnitError
from .chain import UnitChunk as UnitChunk
from .chain import check_unit as check_unit
from .timer_checkpoint import CheckpointExtension as CheckpointExtension
from .timer_checkpoint import TimerCheckpoint as TimerCheckpoint
from .timer_log import TimerLog as TimerLog
from .timer_log import TimerLogStatistics as TimerLogStatistics
from .timer_metrics import TimerMetrics as TimerMetrics
from .unit import MAGIC_DEFAULT as MAGIC_DEFAULT
from .unit import MAGIC_DELETE as MAGIC_DELETE
from .unit import MAGIC_ROLL as MAGIC_ROLL
from .unit import MAGIC_SECOND as MAGIC_SECOND
from .unit import NO_POS as NO_POS
from .unit import UNIT as UNIT
from .unit import TimerUnit as TimerUnit
from .unit import Units as Units
from .unit import numbers_in_slot as numbers_in_slot
from .unit import pack_exact as pack_exact
from .unit import slot_times as slot_times
from .unit import unpack_exact as unpack_exact
