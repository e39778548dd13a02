"""The brokers among which a job is split: one, or all masters that a name server knows.

Each broker has a job of the same name, with its share of the rows. Refused rows of a broker stand
in a directory of its own, so that what belongs to one hand-over is published by it.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ..errors import SparkJobError
from .broker_link import BrokerLink
from .sink_options import NAME, SinkOptions

Shares = Mapping[str, SinkOptions]
"""The options for each broker, by its name, in the order of their names."""


def shares_of(options: SinkOptions) -> Shares:
    """The options of each broker; those that were given where there is one.

    Args:
        options: Of the sink; of a stream those of the sink or of a batch.

    Raises:
        SparkJobError: The name server has gone; ``far`` is asked for, which
            one broker has.
    """
    if options.namesrv is None:
        return {"": options}
    found = BrokerLink.masters(options)
    if len(found) < 2:
        return {"": options}
    if options.far is not None:
        raise SparkJobError(
            f"{NAME}: option far: expected one broker, found {len(found)} at {options.namesrv} "
            f"({', '.join(found)}): schedule to each by the option broker"
        )
    return {
        name: attrs.evolve(
            options,
            broker=address,
            namesrv=None,
            rejects=None if options.rejects is None else f"{options.rejects}/broker={name}",
        )
        for name, address in found.items()
    }
