"""Files that hold messages: commit log, consume queues, key index, checkpoint, and the disk."""

from .commit_log import CommitLog as CommitLog
from .consume_queue import ConsumeQueue as ConsumeQueue
from .disk import Disk as Disk
from .disk import File as File
from .errors import StoreError as StoreError
from .errors import StoreFailedError as StoreFailedError
from .errors import StoreFormatError as StoreFormatError
from .errors import StoreLockedError as StoreLockedError
from .get_result import GetResult as GetResult
from .get_result import GetStatus as GetStatus
from .layout import Layout as Layout
from .message import Message as Message
from .message_store import MessageStore as MessageStore
from .os_disk import OsDisk as OsDisk
from .put_status import PutResult as PutResult
from .put_status import PutStatus as PutStatus
from .record import Record as Record
from .record import decode_record as decode_record
from .store_options import FlushDiskType as FlushDiskType
from .store_options import StoreOptions as StoreOptions
from .store_recovery import RecoveryReport as RecoveryReport
from .store_statistics import StoreStatistics as StoreStatistics
