"""The note of the role that a broker took last, in its store."""

from __future__ import annotations

import pytest

from timermq.broker.replication.role import BrokerRole
from timermq.broker.replication.role_note import PEERS_MAX, RoleNote
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError


def test_the_note_is_kept() -> None:
    """Role, epoch, master and the newest peers outlast a power cut."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    disk.sync_dir_now("/")
    assert RoleNote.load(disk, "/store") is None
    note = RoleNote(role=BrokerRole.SLAVE, epoch=7, master="b:1", broker_id=2)
    for number in range(PEERS_MAX + 1):
        note = note.with_peer(f"c:{number}")
    note = note.with_peer("c:3").with_peer(None)
    note.save(disk, "/store")
    disk.power_cut()

    assert RoleNote.load(disk, "/store") == note
    assert len(note.peers) == PEERS_MAX
    assert note.peers[-1] == "c:3"


@pytest.mark.parametrize(
    "text",
    [
        '{"role":"KING","epoch":1}',
        '{"role":"SLAVE"}',
        '{"broker_id":"1","epoch":1,"master":null,"peers":[],"role":"SLAVE"}',
        "[1]",
    ],
)
def test_a_damaged_note_is_refused(text: str) -> None:
    """A broker that does not know whether it leads does not start."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    path = "/store/timermq-role.json"
    file = disk.open(path, create=True)
    file.write(0, text.encode())
    with pytest.raises(StoreFormatError, match=path):
        RoleNote.load(disk, "/store")
