"""RocketMQ's remoting protocol without I/O: frames, header codings, codes, bodies."""

from .codes import LanguageCode as LanguageCode
from .codes import RequestCode as RequestCode
from .codes import ResponseCode as ResponseCode
from .command import Coding as Coding
from .command import Command as Command
from .connection import CLOSED as CLOSED
from .connection import NEED_DATA as NEED_DATA
from .connection import FrameConnection as FrameConnection
from .connection import Request as Request
from .connection import encode_frame as encode_frame
from .errors import LocalProtocolError as LocalProtocolError
from .errors import RemoteProtocolError as RemoteProtocolError
from .field import FieldError as FieldError
from .send_header import SendHeader as SendHeader
from .send_run.send_v2 import SendV2 as SendV2
from .watch import Counters as Counters
from .watch import Snapshot as Snapshot
from .watch import WatchView as WatchView
