"""The answer to 1007: a replica's epochs and its log, as RocketMQ's body, with some fields more.

Source: Java ``EpochEntryCache``.
"""

from __future__ import annotations

from typing import Any

import attrs
import msgspec

from .bodies import BodyFormatError
from .queue_json import encode_json

BODY_SIZE_MAX = 1 << 20
"""Bytes; a thousand epochs make a tenth of it."""

_decoder = msgspec.json.Decoder(dict[str, Any])


@attrs.frozen(kw_only=True)
class EpochReport:
    """One replica, as it tells others."""

    cluster_name: str
    broker_name: str
    broker_id: int
    """0: it leads."""
    epochs: tuple[tuple[int, int], ...]
    """Number and start of each, ascending."""
    min_offset: int
    """Start of its log."""
    max_offset: int
    """End of its log."""
    confirmed_to: int = 0
    """Records before it are on every replica that counts; 0: none are known to be."""
    master_address: str | None = None
    """``host:port`` of the master that it follows."""
    follower_id: int | None = None
    """Its id as a follower, of a master the one that it has left; None: it had none."""

    @property
    def is_master(self) -> bool:
        """Whether it says that it leads."""
        return self.broker_id == 0

    @property
    def last_epoch(self) -> int:
        """Number of its newest epoch, -1 without any."""
        return self.epochs[-1][0] if self.epochs else -1

    def encode(self) -> bytes:
        """The body of the answer; the last epoch ends where the log does."""
        starts = [start for _, start in self.epochs]
        ends = [*starts, self.max_offset][1:] if starts else []
        return encode_json(
            {
                "brokerId": self.broker_id,
                "brokerName": self.broker_name,
                "clusterName": self.cluster_name,
                "confirmOffset": self.confirmed_to,
                "epochList": [
                    {"endOffset": end, "epoch": number, "startOffset": start}
                    for (number, start), end in zip(self.epochs, ends, strict=True)
                ],
                "followerId": self.follower_id,
                "masterAddress": self.master_address,
                "maxOffset": self.max_offset,
                "minOffset": self.min_offset,
            }
        )

    @classmethod
    def decode(cls, body: bytes) -> EpochReport:
        """Read the body of an answer; RocketMQ's has no start of the log.

        Raises:
            BodyFormatError: It is no such body.
        """
        if len(body) > BODY_SIZE_MAX:
            raise BodyFormatError("epochs", f"up to {BODY_SIZE_MAX} bytes", f"{len(body)}")
        try:
            fields = _decoder.decode(body)
            master, follower_id = fields.get("masterAddress"), fields.get("followerId")
            return cls(
                cluster_name=str(fields["clusterName"]),
                broker_name=str(fields["brokerName"]),
                broker_id=int(fields["brokerId"]),
                epochs=tuple(
                    (int(one["epoch"]), int(one["startOffset"])) for one in fields["epochList"]
                ),
                min_offset=int(fields.get("minOffset", 0)),
                max_offset=int(fields["maxOffset"]),
                confirmed_to=int(fields.get("confirmOffset", 0)),
                master_address=None if master is None else str(master),
                follower_id=None if follower_id is None else int(follower_id),
            )
        except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
            raise BodyFormatError("epochs", "a replica's epochs", str(error)) from error
