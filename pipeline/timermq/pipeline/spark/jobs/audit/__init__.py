"""Was everything delivered, once, on time: every timer against its unit and its delivery.

All of it is read from the store's own files, in one pass over the commit log and the timer log; a
second pass is made where something is wrong, or where only names tell (``by_key``).
"""

from .job import Audit as Audit
from .job import audit as audit
from .job import audit_on as audit_on
