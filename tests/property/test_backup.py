"""Backups of a store that grows, cleans, and loses its power, by shippers that are killed anywhere.

After every step the backup makes a store that holds a run of the messages that were sent, without
gaps, and all of those that the last whole round found. A shipper ends, or is refused, at any
operation on its target, before or after that is carried out.
"""

from __future__ import annotations

import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from backup_rig import BackupRig, KilledError, refusal
from small_store import ROOT, open_store, put_bodies
from timermq.backup.shipper import GARBAGE_MS
from timermq.backup.target import TargetError

KEEP_MS = 5_000


class BackupMachine(RuleBasedStateMachine):
    """A store with a backup, and what happens to both."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = BackupRig(keep_ms=KEEP_MS)
        self.store = open_store(self.rig.disk, self.rig.clock)
        self.shipper = self.rig.shipper()
        self.bodies: list[str] = []
        """Of the store, cleaned ones too."""
        self.count = 0
        self.shipped = 0
        """Messages that the last whole round found."""
        self.has_backup = False

    @rule(
        sizes=st.lists(st.integers(0, 400), min_size=1, max_size=6), passed_ms=st.integers(0, 3000)
    )
    def send(self, sizes: list[int], passed_ms: int) -> None:
        """Messages of any size are stored."""
        self.rig.clock.time_ms += passed_ms
        for size in sizes:
            body = f"{self.count}:{'x' * size}"
            put_bodies(self.store, body)
            self.bodies.append(body)
            self.count += 1

    @rule()
    def ship(self) -> None:
        """A whole round; garbage whose time has come is gone."""
        trio.run(self.shipper.round)
        self.shipped, self.has_backup = len(self.bodies), True

    @rule(after=st.integers(0, 12), is_done=st.booleans(), is_killed=st.booleans())
    def trouble(self, after: int, is_done: bool, is_killed: bool) -> None:
        """A round ends at an operation; a killed shipper is followed by another one."""
        target = self.rig.target
        target.left, target.is_done_before = after, is_done
        target.error = KilledError if is_killed else refusal
        try:
            self.ship()
        except (KilledError, TargetError):
            if is_killed:
                self.shipper = self.rig.shipper()
        target.left = -1

    @precondition(lambda self: len(self.store.commit_log.segments) > 1)
    @rule()
    def clean(self) -> None:
        """The store removes its oldest segment, which a shipper has to have seen."""
        self.ship()
        trio.run(self.store.aclose)
        self.rig.disk.remove(f"{ROOT}/commitlog/{self.store.commit_log.min_offset:020d}")
        self.store = open_store(self.rig.disk, self.rig.clock)

    @rule()
    def kill_broker(self) -> None:
        """The broker is killed, and another one serves the store."""
        self.store.abandon()
        self.rig.disk.process_kill()
        self.store = open_store(self.rig.disk, self.rig.clock)

    @rule()
    def wait(self) -> None:
        """So long that garbage and old segments may go."""
        self.rig.clock.time_ms += GARBAGE_MS

    @precondition(lambda self: self.has_backup)
    @invariant()
    def restores(self) -> None:
        """The backup makes a store with a run of the messages, whatever has happened."""
        bodies = trio.run(self.rig.restored_bodies)
        first = self.bodies.index(bodies[0]) if bodies else 0

        assert self.bodies[first : first + len(bodies)] == bodies
        assert first + len(bodies) >= self.shipped

    def teardown(self) -> None:
        """At the end no more is left than what the backup is."""
        self.rig.target.left = -1
        self.ship()
        for _ in range(2):  # old segments go, and then their objects
            self.wait()
            self.ship()
        assert set() == trio.run(self.rig.garbage)


TestBackup = BackupMachine.TestCase
TestBackup.settings = settings(max_examples=50, stateful_step_count=15, deadline=None)
