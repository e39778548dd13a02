"""The master's side of one link, without I/O: what a peer says, and which frame goes next.

The first byte tells the kind of peer: a greeting is one of our followers, which speaks with epochs
from then on; anything else is a report of a slave of RocketMQ's, with DefaultHA. Nothing is sent
before a peer has said how far its log goes.

Source: Java ``DefaultHAConnection``, ``AutoSwitchHAConnection``.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from timermq.timerstore.commit_log import CommitLog

from .epochs import FIRST_EPOCHS, EpochList
from .follower import Follower
from .followers import Followers
from .greeting import (
    FOLLOWER_SIDE,
    MAGIC,
    MASTER_SIDE,
    Greeting,
    GreetingReader,
    Proof,
    Refusal,
    encode_greeting,
    is_proof,
    new_nonce,
    proof_of,
)
from .ha_frames import (
    EpochReportReader,
    FrameError,
    Handshake,
    Report,
    ReportReader,
    encode_epoch_transfer_head,
    encode_epochs,
    encode_transfer_head,
)
from .link_refusal import LinkRefusedError


@attrs.frozen(kw_only=True)
class MasterIdentity:
    """What a master says of itself in a greeting, and by what it knows a follower."""

    broker_name: str
    secret: bytes | None = None
    epochs: Callable[[], EpochList] = lambda: FIRST_EPOCHS
    """The epochs of its log, one at least."""


@attrs.frozen
class Frame:
    """A frame to send: its head, and which bytes of the log follow it."""

    head: bytes
    offset: int
    size: int
    """0 of a heartbeat."""


class MasterLink:
    """One peer, from its first byte on.

    Args:
        identity: The master's.
        log: Its log.
        followers: Where the peer is entered when it has said how far it is.
        address: ``host:port`` of the peer.
        end: Ends the link, for a reason.
        barred: Why this peer may not link, whatever it says; None: it may.
        follows_barred: Why no peer may follow now, though it may read; None: it may.
    """

    def __init__(
        self,
        identity: MasterIdentity,
        log: CommitLog,
        followers: Followers,
        address: str,
        end: Callable[[str], None],
        barred: LinkRefusedError | None = None,
        follows_barred: LinkRefusedError | None = None,
    ) -> None:
        self.follower: Follower | None = None
        """The peer, once it follows."""
        self.replies: list[bytes] = []
        """What is to be sent before the next frame."""
        self.is_sending = False
        """Something is being sent, or was cut off: what came behind it would be taken for it."""
        self._identity = identity
        self._log = log
        self._followers = followers
        self._address = address
        self._end = end
        self._barred = barred
        self._follows_barred = follows_barred
        self.is_learner = False
        """The peer reads the log, and counts nowhere among the followers."""
        self._broker_id: int | None = None
        self._greeting: GreetingReader | None = None
        self._greeted: Greeting | None = None
        self._nonce = new_nonce()
        self._told_confirm = -1
        self._reports: ReportReader | EpochReportReader | None = None

    @property
    def is_greeted(self) -> bool:
        """Whether the peer is a follower of ours."""
        return self._greeting is not None

    @property
    def has_news(self) -> bool:
        """Whether the confirm offset has grown since the follower was told of it."""
        return (
            self.is_greeted
            and not self.is_learner
            and self.follower is not None
            and self._followers.in_sync.confirm_offset > self._told_confirm
        )

    def receive(self, data: bytes) -> None:
        """Take what has arrived.

        Raises:
            LinkRefusedError: The peer cannot follow.
        """
        try:
            if self._reports is None:
                data = self._begin(data)
            if self._reports is not None and data:
                for said in self._reports.feed(data):
                    self._take(said)
        except FrameError as error:
            raise LinkRefusedError("HA_FRAME", str(error)) from error
        if self.follower is not None:
            self._followers.heard(self.follower)

    def _begin(self, data: bytes) -> bytes:
        """Find out who is there; gives what is to be read as frames."""
        if self._greeting is None:
            if not data.startswith(MAGIC[:1]):
                self._check(self._barred, self._follows_barred)
                if self._identity.secret is not None:
                    raise LinkRefusedError(
                        "HA_SECRET",
                        "expected a greeting with a proof of the secret (ha_secret_file), found "
                        "none: the slave is one of RocketMQ's, or knows no secret",
                    )
                self._reports = ReportReader()
                return data
            self._greeting = GreetingReader()
            self._check(self._barred)
        said = self._greeting.feed(data)
        if isinstance(said, Greeting) and self._greeted is None:
            self._answer(said)
            said = self._greeting.feed(b"") if self._identity.secret is not None else None
        if isinstance(said, Proof) and self._greeted is not None and self._reports is None:
            self._check_proof(said)
        elif said is not None:
            raise LinkRefusedError(
                "HA_GREETING", f"expected a greeting, then a proof, found {type(said).__name__}"
            )
        if self._reports is None:
            return b""
        rest, self._greeting.rest = bytes(self._greeting.rest), bytearray()
        return rest

    def _check(self, *bars: LinkRefusedError | None) -> None:
        for bar in bars:
            if bar is not None:
                raise bar

    def _answer(self, said: Greeting) -> None:
        identity, segment_size = self._identity, self._log.segment_size
        self.is_learner = said.is_learner
        if not self.is_learner:
            self._check(self._follows_barred)
        if said.broker_name != identity.broker_name:
            raise LinkRefusedError(
                "HA_BROKER_NAME",
                f"expected {identity.broker_name!a} (brokerName), found {said.broker_name!a:.140}",
            )
        if said.segment_size != segment_size:
            raise LinkRefusedError(
                "HA_SEGMENT_SIZE",
                f"expected segments of {segment_size} bytes (mappedFileSizeCommitLog), found "
                f"{said.segment_size}",
            )
        if said.broker_id <= 0 and not self.is_learner:
            raise LinkRefusedError(
                "HA_BROKER_ID",
                f"expected a brokerId above 0, which is the master's, found {said.broker_id}",
            )
        self._greeted, self._broker_id = said, said.broker_id
        proof = None
        if identity.secret is not None:
            proof = proof_of(identity.secret, MASTER_SIDE, said.nonce, self._nonce)
        else:
            self._reports = EpochReportReader()
        self.replies.append(
            encode_greeting(
                Greeting(
                    broker_name=identity.broker_name,
                    broker_id=0,
                    segment_size=segment_size,
                    nonce=self._nonce,
                    proof=proof,
                )
            )
        )

    def _check_proof(self, said: Proof) -> None:
        secret, greeted = self._identity.secret, self._greeted
        assert secret is not None
        assert greeted is not None
        if not is_proof(said.proof, secret, FOLLOWER_SIDE, greeted.nonce, self._nonce):
            raise LinkRefusedError(
                "HA_SECRET",
                "expected a proof of this master's secret (ha_secret_file), found one of another",
            )
        self._reports = EpochReportReader()

    def _take(self, said: Report | Handshake) -> None:
        if isinstance(said, Handshake):
            epochs = self._identity.epochs()
            self.replies.append(encode_epochs(self._log.max_offset, epochs.entries))
            return
        if self.follower is None and self.is_learner:
            self.follower = self._followers.add_learner(self._address, said.max_offset)
        elif self.follower is None:
            self.follower = self._followers.add(
                self._address, self._broker_id, said.max_offset, self._end
            )
        elif not self.is_learner:
            self._followers.acknowledge(self.follower, said.max_offset)

    def refusal(self, error: LinkRefusedError) -> bytes:
        """What the peer is told, if it can be; slaves of RocketMQ's would not understand it."""
        if not self.is_greeted or self.is_sending:
            return b""
        return encode_greeting(Refusal(error.name, error.text))

    def next_frame(self, size_max: int) -> Frame | None:
        """The next frame with bytes of the log; None while there are none to send.

        Raises:
            LinkRefusedError: The bytes were cleaned before they could be sent.
        """
        if self.follower is None:
            return None
        offset, log = self.follower.sent, self._log
        left = log.max_offset - offset
        if left <= 0:
            return None
        segment = log.segment_at(offset)
        if segment is None:
            raise LinkRefusedError(
                "HA_CLEANED",
                f"the follower is at {offset}, and the log begins at {log.min_offset}: it was "
                "slower than cleaning, which left ha_pinned_size_max bytes; empty its store",
            )
        return self._frame(offset, min(left, segment.end - offset, size_max))

    def heartbeat(self) -> Frame | None:
        """A frame without bytes; None before the peer follows."""
        return None if self.follower is None else self._frame(self.follower.sent, 0)

    def _frame(self, offset: int, size: int) -> Frame:
        if not self.is_greeted:
            return Frame(encode_transfer_head(offset, size), offset, size)
        epochs = self._identity.epochs()
        epoch = epochs.at(offset) or epochs.entries[0]
        size = epochs.end_of(epoch, offset + size) - offset
        # On a broker that follows itself nothing is confirmed by its log's end.
        followers = self._followers
        in_force = followers.in_sync.confirm_offset
        self._told_confirm = confirmed = in_force if self.is_learner else followers.confirm_offset()
        return Frame(encode_epoch_transfer_head(offset, size, epoch, confirmed), offset, size)

    def sent(self, frame: Frame) -> None:
        """Note that a frame goes to the follower."""
        if self.follower is not None:
            self._followers.sent(self.follower, frame.size)

    def ended(self) -> None:
        """Take the follower from the table."""
        if self.follower is not None:
            self._followers.remove(self.follower)
