"""The timer service: admission, the five stages, recovery."""

from .admission.delay_level import DelayLevelError as DelayLevelError
from .admission.delay_level import DelayLevels as DelayLevels
from .admission.recall_handle import HandleError as HandleError
from .admission.recall_handle import RecallHandle as RecallHandle
from .admission.recall_handle import decode_handle as decode_handle
from .admission.recall_handle import encode_handle as encode_handle
from .admission.timer_put_result import TimerPutResult as TimerPutResult
from .cancel.pending import PendingTimer as PendingTimer
from .cancel.pending import PendingTimers as PendingTimers
from .clock.clock import Clock as Clock
from .clock.clock import SystemClock as SystemClock
from .clock.clock import WatchedClock as WatchedClock
from .clock.clock_watch import ClockState as ClockState
from .clock.clock_watch import ClockStatus as ClockStatus
from .records.timer_record import TIMER_TOPIC as TIMER_TOPIC
from .recovery.timer_files import TimerFiles as TimerFiles
from .recovery.timer_recovery import recover as recover
from .state.timer_counts import TimerStatistics as TimerStatistics
from .state.timer_options import TimerOptions as TimerOptions
from .timer_message_store import TimerMessageStore as TimerMessageStore
