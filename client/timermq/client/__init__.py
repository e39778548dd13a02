"""Producer and consumer for trio programs."""

from .consumer import Consumer as Consumer
from .errors import BrokerRefusedError as BrokerRefusedError
from .errors import ClientError as ClientError
from .errors import ConnectionLostError as ConnectionLostError
from .errors import MalformedAnswerError as MalformedAnswerError
from .errors import NoAnswerError as NoAnswerError
from .errors import NoRouteError as NoRouteError
from .errors import RequestTimeoutError as RequestTimeoutError
from .errors import UnreadableBodyError as UnreadableBodyError
from .message import OutgoingMessage as OutgoingMessage
from .message import ReceivedMessage as ReceivedMessage
from .message import SendReceipt as SendReceipt
from .message import Verdict as Verdict
from .producer import Producer as Producer
from .watch import Watch as Watch
from .watch import open_watch as open_watch
