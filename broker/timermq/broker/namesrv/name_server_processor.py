"""The name server's role towards brokers and operators: registrations, permissions, texts.

Source: Java ``DefaultRequestProcessor`` of the name server.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import structlog
import trio

from timermq.remoting.admin_body import decode_config, encode_properties
from timermq.remoting.bodies import json_items, load_json
from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.name_server_header import (
    BrokerNameHeader,
    KvConfigHeader,
    KvNamespaceHeader,
    PutKvConfigHeader,
    RegisterBrokerHeader,
)
from timermq.remoting.queue_json import encode_json
from timermq.remoting.registration import RouteVersion, body_crc32, decode_registration, queue_data
from timermq.remoting.topic_header import ForgetTopicHeader, TopicHeader

from ..admin.live_settings import change_on_request, settings_text
from ..admin.topic_processor import Saved
from ..deferred_answers import answer_later
from ..dispatcher import Handler
from ..refusal import RefusedError
from ..replication.role import MASTER_ID
from ..session import Session
from ..topic_validator import topic_fault
from .kv_config import KvConfigTable
from .own_broker import OwnBroker
from .route_table import TIMEOUT_MS, BrokerIdentity, RouteTable

EXPIRE_INTERVAL = 5.0
"""Seconds between two looks for brokers that have gone silent, as in RocketMQ."""
TIMEOUT_MAX_MS = 3_600_000

log = structlog.get_logger("timermq.broker.namesrv.name_server_processor")


@attrs.frozen(eq=False, kw_only=True)
class NameServerProcessor:
    """The processor, and the task that expires brokers."""

    own: OwnBroker
    routes: RouteTable
    texts: KvConfigTable
    saved: Saved
    _first: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set at the first registration: until then there is no broker to expire."""

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.REGISTER_BROKER: self.register,
            RequestCode.UNREGISTER_BROKER: self.unregister,
            RequestCode.QUERY_DATA_VERSION: self.query_version,
            RequestCode.BROKER_HEARTBEAT: self.broker_heartbeat,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self.put_topic,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write_perm,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.add_write_perm,
            RequestCode.PUT_KV_CONFIG: self.put_text,
            RequestCode.GET_KV_CONFIG: self.get_text,
            RequestCode.DELETE_KV_CONFIG: self.delete_text,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.list_texts,
            RequestCode.GET_NAMESRV_CONFIG: self.config,
            RequestCode.UPDATE_NAMESRV_CONFIG: self.update_config,
        }

    async def run(self) -> None:
        """Close the connections of brokers that stopped registering, until cancelled."""
        await self._first.wait()
        while True:
            await trio.sleep(EXPIRE_INTERVAL)
            for owner in self.routes.expired():
                if isinstance(owner, Session):
                    log.warning("broker expired", remote=owner.remote_address)
                    owner.close("no registration")

    def register(self, session: Session, command: Command) -> Command:
        """Take a broker's addresses and topics over (103)."""
        header = RegisterBrokerHeader.of(command)
        identity = _identity(header)
        if self._is_own(identity):
            return command.answer(ResponseCode.SUCCESS)
        crc = header.body_crc32
        if crc and crc != body_crc32(command.body):
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "BODY_CRC32",
                f"expected {crc}, found {body_crc32(command.body)}",
            )
        found = decode_registration(
            command.body, identity.broker_name, compressed=header.compressed
        )
        is_new = (
            self.routes.renew(broker_name=identity.broker_name, broker_id=identity.broker_id)
            is None
        )
        if not self.routes.register(session, identity, found):
            # RocketMQ's brokers pass over the answer, ours look who leads.
            master = self.routes.master(identity.broker_name)
            ext = {} if master is None else {"masterAddr": master.address}
            return command.answer(ResponseCode.SUCCESS, ext=ext)
        self._first.set()
        if is_new:
            log.info(
                "broker registered",
                broker=identity.broker_name,
                broker_id=identity.broker_id,
                address=identity.address,
                cluster=identity.cluster,
                topics=len(found.topics),
            )
        return command.answer(ResponseCode.SUCCESS, ext=self._master_of(identity))

    def _master_of(self, identity: BrokerIdentity) -> dict[str, str]:
        """Where a follower finds its master; nothing for a master."""
        if identity.broker_id == MASTER_ID:
            return {}
        own = self.own
        if identity.broker_name == own.options.broker_name and own.role.is_master:
            return {"masterAddr": own.address, "haServerAddr": own.ha_address}
        master = self.routes.master(identity.broker_name)
        if master is None:
            return {}
        return {"masterAddr": master.address, "haServerAddr": master.ha_address}

    def unregister(self, _session: Session, command: Command) -> Command:
        """A broker says goodbye (104)."""
        identity = _identity(RegisterBrokerHeader.of(command))
        if not self._is_own(identity):
            self.routes.unregister(
                broker_name=identity.broker_name,
                broker_id=identity.broker_id,
                address=identity.address,
            )
            log.info("broker unregistered", broker=identity.broker_name, address=identity.address)
        return command.answer(ResponseCode.SUCCESS)

    def query_version(self, _session: Session, command: Command) -> Command:
        """Whether a broker's topics have changed since it registered (322); a sign of life, too."""
        header = BrokerNameHeader.of(command)
        name, broker_id = header.broker_name, header.broker_id
        asked = RouteVersion.from_json(load_json(command.body, "dataVersion"))
        known = self.routes.renew(broker_name=name, broker_id=broker_id)
        return command.answer(
            ResponseCode.SUCCESS,
            ext={"changed": "false" if known == asked else "true"},
            body=b"" if known is None else encode_json(known.to_json()),
        )

    def broker_heartbeat(self, _session: Session, command: Command) -> Command:
        """A sign of life between two registrations (904)."""
        header = BrokerNameHeader.of(command)
        self.routes.renew(broker_name=header.broker_name, broker_id=header.broker_id)
        return command.answer(ResponseCode.SUCCESS)

    def delete_topic(self, _session: Session, command: Command) -> Command:
        """Forget a topic's queues on other brokers (216); our own are those that we have."""
        header = ForgetTopicHeader.of(command)
        self.routes.delete_topic(header.topic, cluster=header.cluster_name or None)
        return command.answer(ResponseCode.SUCCESS)

    def put_topic(self, _session: Session, command: Command) -> Command:
        """Note a topic's queues on brokers that are registered (217)."""
        topic = TopicHeader.of(command).topic
        fault = topic_fault(topic)
        if fault is not None:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, "TOPIC_NAME", fault)
        rows = json_items(decode_config(command.body).get("queueDatas"), "queueDatas")
        self.routes.put_topic(topic, [queue_data(one) for one in rows])
        return command.answer(ResponseCode.SUCCESS)

    def wipe_write_perm(self, _session: Session, command: Command) -> Command:
        """Keep producers away from a broker (205)."""
        count = self._set_writeable(BrokerNameHeader.of(command), writeable=False)
        return command.answer(ResponseCode.SUCCESS, ext={"wipeTopicCount": str(count)})

    def add_write_perm(self, _session: Session, command: Command) -> Command:
        """Let producers use a broker again (327)."""
        count = self._set_writeable(BrokerNameHeader.of(command), writeable=True)
        return command.answer(ResponseCode.SUCCESS, ext={"addTopicCount": str(count)})

    def put_text(self, session: Session, command: Command) -> None:
        """Keep a text for operators (100)."""
        header = PutKvConfigHeader.of(command)
        self.texts.put(header.namespace, header.key, header.value)
        self._answer_saved(session, command)

    def get_text(self, _session: Session, command: Command) -> Command:
        """A text by namespace and key (101)."""
        header = KvConfigHeader.of(command)
        namespace, key = header.namespace, header.key
        value = self.texts.get(namespace, key)
        if value is None:
            raise _no_text(f"no text {ascii(key)[:130]} in namespace {ascii(namespace)[:130]}")
        return command.answer(ResponseCode.SUCCESS, ext={"value": value})

    def delete_text(self, session: Session, command: Command) -> None:
        """Delete a text; answered when the file is saved (102)."""
        header = KvConfigHeader.of(command)
        self.texts.delete(header.namespace, header.key)
        self._answer_saved(session, command)

    def list_texts(self, _session: Session, command: Command) -> Command:
        """All texts of a namespace (219)."""
        namespace = KvNamespaceHeader.of(command).namespace
        found = self.texts.namespace(namespace)
        if found is None:
            raise _no_text(f"no namespace {ascii(namespace)[:130]}")
        return command.answer(ResponseCode.SUCCESS, body=encode_json({"table": found}))

    def config(self, _session: Session, command: Command) -> Command:
        """The settings, as properties (319): those of the broker, of which this is a part."""
        body = encode_properties(settings_text([self.own.options]))
        return command.answer(ResponseCode.SUCCESS, body=body)

    def update_config(self, session: Session, command: Command) -> Command:
        """Change settings until the next start, of those that 319 shows: all, or none (318)."""
        return change_on_request(session, command, [self.own.options], self.own.topics)

    def _answer_saved(self, session: Session, command: Command) -> None:
        async def wait_saved() -> Command:
            await self.saved()
            return command.answer(ResponseCode.SUCCESS)

        answer_later(session, command, wait_saved)

    def _set_writeable(self, header: BrokerNameHeader, *, writeable: bool) -> int:
        broker_name = header.broker_name
        log.warning("write permission changed", broker=broker_name, writeable=writeable)
        if broker_name == self.own.options.broker_name:
            self.own.is_wiped = not writeable
            return sum(1 for _ in self.own.topics.all())
        return self.routes.set_writeable(broker_name, writeable=writeable)

    def _is_own(self, identity: BrokerIdentity) -> bool:
        """Whether it is this broker that registers with itself.

        Raises:
            RefusedError: Another one has its name and its place (1).
        """
        if identity.broker_name != self.own.options.broker_name:
            return False
        if identity.address == self.own.address:
            return True
        if identity.broker_id != self.own.role.broker_id:
            return False
        if identity.broker_id == MASTER_ID:
            self.own.on_rival(identity.address)
        raise RefusedError(
            ResponseCode.SYSTEM_ERROR,
            "BROKER_NAME",
            f"{identity.broker_name} is the broker at {self.own.address}, of which this name "
            f"server is a part: the one at {identity.address} needs another broker_name, or, to "
            "follow it, another broker_id",
        )


def _identity(header: RegisterBrokerHeader) -> BrokerIdentity:
    """The broker that a registration is of.

    Raises:
        RefusedError: A name that no topic could have, or no address (29).
    """
    identity = BrokerIdentity(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_address,
        ha_address=header.ha_address,
        enable_acting_master=header.enable_acting_master,
        timeout_ms=_timeout_ms(header.heartbeat_timeout_ms),
    )
    for name in (identity.cluster, identity.broker_name):
        fault = topic_fault(name)
        if fault is not None:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, "BROKER_NAME", fault)
    host, colon, port = identity.address.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit()) or identity.broker_id < 0:
        raise RefusedError(
            ResponseCode.INVALID_PARAMETER,
            "BROKER_ADDRESS",
            f"expected HOST:PORT and an id of 0 or more, found {ascii(identity.address)[:130]} "
            f"and {identity.broker_id}",
        )
    return identity


def _timeout_ms(asked_ms: int | None) -> int:
    return TIMEOUT_MS if asked_ms is None else min(asked_ms, TIMEOUT_MAX_MS)


def _no_text(reason: str) -> RefusedError:
    return RefusedError(ResponseCode.QUERY_NOT_FOUND, "KV_CONFIG", reason)
