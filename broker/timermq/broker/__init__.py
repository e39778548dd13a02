"""The server: name server and broker in one process, on trio."""

from .broker import Broker as Broker
from .broker_statistics import BrokerStatistics as BrokerStatistics
from .config_fields import ConfigTableError as ConfigTableError
from .endpoint import Endpoint as Endpoint
from .options import BrokerOptions as BrokerOptions
from .refusal import RefusedError as RefusedError
