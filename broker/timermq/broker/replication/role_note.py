"""``timermq-role.json``: the role that a broker took last, other than its settings say.

Settings name the role of a first start. A promotion, a planned switch and a fence change it while
the broker runs, and the next start goes on from there: a promoted follower does not go back to the
master that it was started to follow. Without the file the settings count. It is no table of
``config/``: a backup leaves it out, for a restored store is another replica, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import attrs

from timermq.timerstore.config_file import fastjson, load_json, save_json_now
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreFormatError

from .role import BrokerRole

PATH = "timermq-role.json"
PEERS_MAX = 16
"""Addresses of other replicas that are kept, the newest."""


@attrs.frozen(kw_only=True)
class RoleNote:
    """The content of the file."""

    role: BrokerRole
    epoch: int
    """Number of the epoch of this role: the broker's own of a master."""
    master: str | None = None
    """``host:port`` of the master that is followed; None of a master."""
    peers: tuple[str, ...] = ()
    """``host:port`` of other replicas that are known, which a master tells of itself."""
    broker_id: int | None = None
    """Its id as a follower, of a master the one that it has left; None: it is to be found."""

    def with_peer(self, address: str | None) -> RoleNote:
        """The note with one more replica, which is the newest."""
        if address is None:
            return self
        others = tuple(one for one in self.peers if one != address)
        return attrs.evolve(self, peers=(*others, address)[-PEERS_MAX:])

    def save(self, disk: Disk, root: str) -> None:
        """Write the file, durably (blocking).

        Raises:
            OSError: The disk refused; the file is as it was.
        """
        fields = attrs.asdict(self) | {"role": self.role.value, "peers": list(self.peers)}
        save_json_now(disk, f"{root}/{PATH}", fastjson(fields))

    @classmethod
    def load(cls, disk: Disk, root: str) -> RoleNote | None:
        """Read the file; None where there is none.

        Raises:
            StoreFormatError: It is damaged, and so is its ``.bak``: it is put right or moved away.
        """
        path = f"{root}/{PATH}"
        found = load_json(disk, path)
        if found is None:
            return None
        try:
            fields = cast("Mapping[str, object]", found)
            master, peers, epoch = fields["master"], fields["peers"], fields["epoch"]
            broker_id = fields.get("broker_id")
            if not isinstance(epoch, int) or not isinstance(peers, list):
                raise TypeError(f"epoch {epoch!r}, peers {peers!r}")
            if not isinstance(broker_id, int | None):
                raise TypeError(f"broker_id {broker_id!r}")
            return cls(
                role=BrokerRole(fields["role"]),
                epoch=epoch,
                master=None if master is None else str(master),
                peers=tuple(map(str, cast("list[object]", peers))),
                broker_id=broker_id,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StoreFormatError(path, 0, "role, epoch, master and peers", str(error)) from error
