"""The timer service: admission, the five stages, recovery."""

from .clock import Clock as Clock
from .clock import SystemClock as SystemClock
from .clock import WatchedClock as WatchedClock
from .clock_watch import ClockState as ClockState
from .clock_watch import ClockStatus as ClockStatus
from .delay_level import DelayLevelError as DelayLevelError
from .delay_level import DelayLevels as DelayLevels
from .pending import PendingTimer as PendingTimer
from .pending import PendingTimers as PendingTimers
from .recall_handle import HandleError as HandleError
from .recall_handle import RecallHandle as RecallHandle
from .recall_handle import decode_handle as decode_handle
from .recall_handle import encode_handle as encode_handle
from .timer_counts import TimerStatistics as TimerStatistics
from .timer_files import TimerFiles as TimerFiles
from .timer_message_store import TimerMessageStore as TimerMessageStore
from .timer_options import TimerOptions as TimerOptions
from .timer_put_result import TimerPutResult as TimerPutResult
from .timer_record import TIMER_TOPIC as TIMER_TOPIC
from .timer_recovery import recover as recover
