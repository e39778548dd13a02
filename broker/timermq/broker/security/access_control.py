"""Access control: whose a request is, and whether he may do that, before anything is done.

Every request passes here when ``acl_enable`` is set; otherwise nothing of this is there. A request
is let through when its peer has a white address, or when it is signed by an account that has the
rights that ``access_rules`` asks for. Whatever is wrong, the answer is 16 with the same remark: an
unknown key, a wrong signature and a missing right are told apart in the log and the statistics
alone. A login that fails is answered late (``failed_logins``), a pull without its right as well:
C++ asks again at once.

The files are read again when they change. Rules that cannot be read leave the old ones in force;
that is logged, and stands in the statistics until it is mended. At the start they are an error:
nothing is served under rules that nobody has seen.

Source: Java ``PlainPermissionManager.validate``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Sequence
from functools import partial
from weakref import WeakKeyDictionary

import attrs
import structlog
import trio

from timermq.remoting.codes import FLAG_RESPONSE, RequestCode
from timermq.remoting.command import Command
from timermq.remoting.connection import Received, Request
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.plain_send import PlainSend
from timermq.remoting.send_form import SendForm, SendRun
from timermq.remoting.signature import ACCESS_KEY, SIGNATURE, SigningKey, signed_content
from timermq.remoting.signed_run import SignedForm, requests_of
from timermq.remoting.signed_send import SignedSend
from timermq.timerstore.message_lookup import look_message_by_offset
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import REAL_TOPIC_NAME, find
from timermq.timerstore.record import decode_record

from ..answers import refusal_answer
from ..options import BrokerOptions
from ..refusal import missing_right
from ..session import Session
from ..speaker import NOBODY, UNLIMITED, Speaker
from ..topic_validator import REPLY_TOPIC_SUFFIX
from .access_rules import AccessRules, AdminOnly, TopicAt, send_needs
from .failed_logins import FailedLogins, host_of
from .late_answers import LateAnswers
from .plain_acl import FILE_SIZE_MAX, Account, PlainAcl, PlainAclError, is_own_topic
from .untold import Untold
from .watched_files import AclFiles

RELOAD_INTERVAL = 1.0
"""Seconds between two looks at the files."""
WHITE_MAX = 16_384
SENDERS_MAX = 65_536
"""Peers whose white addresses, and pairs of account and topic whose rights are remembered; more,
and remembering begins anew."""

_NOBODY = SigningKey("")
_PULLS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)

Spoken = tuple[Speaker, list[Received]]
"""Requests that came one after the other, and who speaks in all of them."""

log = structlog.get_logger("timermq.broker.security.access_control")


@attrs.frozen(kw_only=True)
class AccessStatistics:
    """What access control has seen; counts are since the start."""

    failed_logins: int
    failed_at: float | None
    """trio's time of the last one; None when there never was one."""
    missing_rights: int
    """Requests of accounts that have no right to what they ask for."""
    problem: str | None
    """Why changed files are not in force; None while they are."""


class AccessControl:
    """The door of the dispatcher.

    Args:
        files: The rules.
        served: Request codes that are served; others need no right.
        topic_at: The topic of the message at a position of the commit log.
        options: With how late the refusal of a pull is, looked at each time.

    Raises:
        PlainAclError: The files hold no rules.
        OSError: They cannot be read.
    """

    def __init__(
        self,
        files: AclFiles,
        *,
        served: Container[int],
        topic_at: TopicAt,
        options: BrokerOptions,
    ) -> None:
        self._files = files
        self._served = served
        self._rules = AccessRules(topic_at, options.broker_cluster_name + REPLY_TOPIC_SUFFIX)
        self._options = options
        self._late = LateAnswers()
        self.failed_logins = FailedLogins(self._late)
        self._missing_rights = 0
        self._untold: defaultdict[str, Untold] = defaultdict(Untold)
        """Access key to its missing rights."""
        self._problem: str | None = None
        self._white: dict[str, bool] = {}
        """Address and port of peers to whether they need no signature."""
        self._signed_forms: WeakKeyDictionary[SendForm, SignedForm | None] = WeakKeyDictionary()
        """As long as connections remember the forms."""
        self._senders: dict[tuple[Account, str], None] = {}
        """Accounts and the topics that they have sent to."""
        self._stamp = files.stamp()
        self._acl = PlainAcl.parse(files.read(FILE_SIZE_MAX))
        self._speakers = self._speakers_of(self._acl)
        """By access key."""
        log.info(
            "access control", accounts=len(self._acl.accounts), white_addresses=len(self._acl.white)
        )

    @classmethod
    def of(
        cls, options: BrokerOptions, store: MessageStore, served: Container[int]
    ) -> AccessControl | None:
        """What the options ask for: None without ``acl_enable``.

        Raises:
            PlainAclError: The files hold no rules.
            OSError: They cannot be read.
        """
        if not options.acl_enable or options.acl_file is None:
            return None
        return cls(
            AclFiles(options.acl_file),
            served=served,
            topic_at=partial(topic_at, store),
            options=options,
        )

    def statistics(self) -> AccessStatistics:
        """A moment's picture."""
        return AccessStatistics(
            failed_logins=self.failed_logins.count,
            failed_at=self.failed_logins.last_at,
            missing_rights=self._missing_rights,
            problem=self._problem,
        )

    def admit(self, session: Session, received: Sequence[Received]) -> list[Spoken]:
        """The requests that may be done, in order; the others are answered by and by."""
        admitted: list[Spoken] = []
        for one in received:
            if isinstance(one, SendRun):
                speaker = self._run_speaker(session, one)
                if speaker is None:
                    admitted += self.admit(session, requests_of(one))
            else:
                speaker = self._speaker(session, one)
            if speaker is None:
                continue
            if admitted and admitted[-1][0] is speaker:
                admitted[-1][1].append(one)
            else:
                admitted.append((speaker, [one]))
        return admitted

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer what is late and read changed files, until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._late.run)
            task_status.started()
            while True:
                await trio.sleep(RELOAD_INTERVAL)
                await self.reload()

    async def reload(self) -> None:
        """Read the files again if they have changed; bad ones leave the old rules in force."""
        try:
            stamp = self._files.stamp()
            if stamp == self._stamp:
                return
            self._stamp = stamp
            acl = await trio.to_thread.run_sync(
                lambda: PlainAcl.parse(self._files.read(FILE_SIZE_MAX))
            )
        except PlainAclError as error:
            self._keep_old(str(error))
            return
        except OSError as error:
            # What keeps us from the files may end and leave them as they are: look again.
            self._stamp = ()
            if str(error) != self._problem:
                self._keep_old(str(error))
            return
        except Exception as error:
            # A mistake of ours: it must not end the broker. Its text may quote a secret.
            self._keep_old(f"reading them failed with {type(error).__name__}")
            return
        self._acl, self._problem = acl, None
        self._speakers = self._speakers_of(acl)
        self._white.clear()
        self._senders.clear()
        self._untold.clear()
        log.info("access rules read", accounts=len(acl.accounts), white_addresses=len(acl.white))

    def _keep_old(self, problem: str) -> None:
        self._problem = problem
        log.error("access rules not read, the old ones stay in force", reason=problem)

    def _speakers_of(self, acl: PlainAcl) -> dict[str, Speaker]:
        return {
            key: UNLIMITED if account.is_admin else Speaker(key, partial(self._may_send_now, key))
            for key, account in acl.accounts.items()
        }

    def _speaker(self, session: Session, request: Request) -> Speaker | None:
        """Who speaks in a request; None when it may not be done, and is answered otherwise."""
        if request.flag & FLAG_RESPONSE:
            return NOBODY
        acl = self._acl
        if acl.white and self._is_white(session):
            return UNLIMITED
        # The way of nearly all requests, without a dictionary of their parameters.
        if type(request) is SignedSend:
            fields = request.fields
            account = acl.accounts.get(fields.access_key)
            if (
                account is not None
                and account.signing.is_signature(request.content(), fields.signature)
                and self._may_send(account, fields.topic)
            ):
                return self._speakers[fields.access_key]
        command = request.to_command() if isinstance(request, PlainSend) else request
        return self._decide(session, command)

    def _run_speaker(self, session: Session, run: SendRun) -> Speaker | None:
        """Who speaks in all sends of a run; None when something is wrong with one of them.

        What that is, is found one by one.
        """
        if self._acl.white and self._is_white(session):
            return UNLIMITED
        if run.form not in self._signed_forms:
            self._signed_forms[run.form] = SignedForm.of(run.form)
        signed = self._signed_forms[run.form]
        if signed is None:
            return None
        fields = signed.send.fields
        account = self._acl.accounts.get(fields.access_key)
        if account is None or not self._may_send(account, fields.topic):
            return None
        if not account.signing.are_signatures(signed.contents(run), signed.signatures(run)):
            return None
        return self._speakers[fields.access_key]

    def _may_send(self, account: Account, topic: str) -> bool:
        """Whether an account may send to a topic; remembered where it may."""
        key = (account, topic)
        if key in self._senders:
            return True
        if not (account.is_admin or account.allows_all(send_needs(topic))):
            return False
        if len(self._senders) >= SENDERS_MAX:
            self._senders.clear()
        self._senders[key] = None
        return True

    def _decide(self, session: Session, command: Command) -> Speaker | None:
        access_key = command.ext.get(ACCESS_KEY, "")
        account = self._acl.accounts.get(access_key)
        if account is not None and account.white.matches(host_of(session.remote_address)):
            return UNLIMITED
        # An unknown key takes as long as a wrong signature.
        signing = _NOBODY if account is None else account.signing
        content = signed_content(command.ext, command.body, command.version)
        is_signed = signing.is_signature(content, command.ext.get(SIGNATURE, ""))
        if account is None or not is_signed:
            known = "wrong signature" if account is not None else "unknown key"
            reason = known if access_key else "not signed"
            self.failed_logins.add(session, _refusal(command), reason)
            return None
        try:
            if (
                account.is_admin
                or command.code not in self._served
                or account.allows_all(self._rules.needs(command))
            ):
                return self._speakers[access_key]
        except AdminOnly:
            pass
        except RemoteProtocolError as error:
            if not command.is_oneway:
                session.send(refusal_answer(command, error))
            return None
        self._refuse(session, command, account)
        return None

    def _may_send_now(self, access_key: str, topic: str) -> bool:
        """Whether an account may send to a topic by the rules of this moment."""
        account = self._acl.accounts.get(access_key)
        return account is not None and self._may_send(account, topic)

    def _refuse(self, session: Session, command: Command, account: Account) -> None:
        """Whose it is is known, but not that he may."""
        self._missing_rights += 1
        if self._untold[account.access_key].take():
            log.warning(
                "missing right",
                access_key=account.access_key,
                code=command.code,
                remote=session.remote_address,
                so_far=self._missing_rights,
            )
        answer = _refusal(command)
        if command.code in _PULLS:
            delay = self._options.pull_error_delay_ms / 1000
            self._late.hold(session.remote_address, session, answer, delay)
        elif answer is not None:
            session.send(answer)

    def _is_white(self, session: Session) -> bool:
        known = self._white.get(session.remote_address)
        if known is None:
            if len(self._white) >= WHITE_MAX:
                self._white.clear()
            host = host_of(session.remote_address)
            known = any(white.matches(host) for white in self._acl.white)
            self._white[session.remote_address] = known
        return known


def _refusal(command: Command) -> Command | None:
    """The one answer to whatever is not allowed; None for a one-way request."""
    if command.is_oneway:
        return None
    return refusal_answer(command, missing_right())


def topic_at(store: MessageStore, offset: int) -> str | None:
    """The topic of the message that begins at a position; of one that waits, where it goes."""
    data = look_message_by_offset(store, offset, check_crc=False)
    if data is None:
        return None
    record = decode_record(data)
    if is_own_topic(record.topic):
        real = find(record.properties, REAL_TOPIC_NAME)
        if real is not None:
            return real.decode("utf-8", "replace")
    return record.topic
