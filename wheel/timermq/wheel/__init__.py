"""The timer wheel: a ring of slots, each naming the chain of timers that are due in it."""

from .link_plan import LinkPlan as LinkPlan
from .slot import NO_POS as NO_POS
from .slot import SLOT as SLOT
from .slot import Slot as Slot
from .slot import Slots as Slots
from .timer_wheel import SLOTS_TOTAL as SLOTS_TOTAL
from .timer_wheel import TimerWheel as TimerWheel
from .timer_wheel import WheelStatistics as WheelStatistics
from .wheel_file import DirtySlots as DirtySlots
