"""The brokers of a screen: the newest snapshot of each, and which do not answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo

import attrs

from timermq.remoting import Snapshot

from .. import formatting
from .merged_snapshot import merge_snapshots
from .view import View


@attrs.frozen(kw_only=True)
class Watched:
    """What is known of the brokers, by address; the last snapshot of each stays."""

    addresses: tuple[str, ...]
    snapshots: Mapping[str, Snapshot] = attrs.field(factory=dict[str, Snapshot])
    troubles: Mapping[str, str] = attrs.field(factory=dict[str, str])
    """Brokers without a connection, and why."""
    silent: frozenset[str] = frozenset()
    """Brokers that send nothing although there is a connection."""

    @property
    def name(self) -> str:
        """The name that the screen has for them."""
        return self.addresses[0] if len(self.addresses) == 1 else f"{len(self.addresses)} brokers"

    def with_snapshot(self, address: str, snapshot: Snapshot) -> Watched:
        """The same after a snapshot of a broker has come."""
        return attrs.evolve(
            self,
            snapshots={**self.snapshots, address: snapshot},
            troubles={one: text for one, text in self.troubles.items() if one != address},
            silent=self.silent - {address},
        )

    def with_trouble(self, address: str, trouble: str) -> Watched:
        """The same after a broker was not reached."""
        troubles = {**self.troubles, address: trouble}
        return attrs.evolve(self, troubles=troubles, silent=self.silent - {address})

    def with_silence(self, address: str) -> Watched:
        """The same after a broker has fallen silent."""
        return attrs.evolve(self, silent=self.silent | {address})

    def shown_by(self, view: View, *, is_picture: bool) -> View:
        """The view of all of them.

        Args:
            view: The one before.
            is_picture: A snapshot has come; otherwise it has changed which brokers answer.
        """
        if is_picture:
            old = {*self.troubles, *self.silent}
            view = view.with_snapshot(merge_snapshots(self.snapshots, old))
        trouble = self.trouble(view.zone)
        if trouble is not None:
            return view.with_trouble(trouble)
        return view.with_silence() if self.silent else view

    def trouble(self, zone: tzinfo | None) -> str | None:
        """The line about brokers that do not answer, but for the silence of a single broker."""
        if len(self.addresses) == 1:
            return self.troubles.get(self.addresses[0])
        texts = [self.troubles[one] for one in sorted(self.troubles)]
        texts += [f"{one}: no answer{self._since(one, zone)}" for one in sorted(self.silent)]
        return f"{'; '.join(texts)}: their numbers are old" if texts else None

    def _since(self, address: str, zone: tzinfo | None) -> str:
        snapshot = self.snapshots.get(address)
        if snapshot is None:
            return ""
        return f" since {formatting.moment(snapshot.now_ms, zone, '%H:%M:%S')}"
