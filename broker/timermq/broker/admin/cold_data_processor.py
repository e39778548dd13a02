"""Cold reads: thresholds of groups are kept and shown, and nothing is throttled.

RocketMQ does the same by default (``coldDataFlowControlEnable=false``). The thresholds are in
memory until the broker stops, there as well.

Source: Java ``ColdDataCgCtrService``, ``AdminBrokerProcessor.setCommitLogReadaheadMode``.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from timermq.remoting.admin_body import decode_properties
from timermq.remoting.bodies import BodyFormatError
from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.query_header import ReadAheadHeader
from timermq.remoting.queue_json import encode_json
from timermq.timerstore.number_text import number_in

from ..dispatcher import Handler
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..session import Session
from ..topic_validator import group_fault

READ_AHEAD = "0"
"""Java ``LibC.MADV_NORMAL``: the kernel reads ahead of a reader that goes on."""


@attrs.frozen(eq=False, kw_only=True)
class ColdDataProcessor:
    """Keeps the thresholds of groups, bytes a second."""

    options: BrokerOptions
    _thresholds: dict[str, int] = attrs.field(factory=dict[str, int], init=False)

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: self.update,
            RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: self.remove,
            RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: self.info,
            RequestCode.SET_COMMITLOG_READ_MODE: self.set_read_mode,
        }

    def update(self, _session: Session, command: Command) -> Command:
        """Keep thresholds: all of them, or none (2001)."""
        wanted = {
            group: _threshold(group, value)
            for group, value in decode_properties(command.body).items()
        }
        count_max = self.options.subscription_groups_max
        if len(self._thresholds.keys() | wanted.keys()) > count_max:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "GROUPS_MAX",
                f"no room for more: thresholds of {len(self._thresholds)} groups are kept, "
                f"at most {count_max}",
            )
        self._thresholds.update(wanted)
        return command.answer(ResponseCode.SUCCESS)

    def remove(self, _session: Session, command: Command) -> Command:
        """Forget the threshold of a group; without one nothing is done (2002)."""
        try:
            group = command.body.decode()
        except UnicodeDecodeError as error:
            raise BodyFormatError("group", "UTF-8", str(error.reason)) from None
        self._thresholds.pop(group, None)
        return command.answer(ResponseCode.SUCCESS)

    def info(self, _session: Session, command: Command) -> Command:
        """The thresholds; no group reads under one, and no cold bytes are counted (2003)."""
        body = {"configTable": self._thresholds, "globalAcc": 0, "runtimeTable": {}}
        return command.answer(ResponseCode.SUCCESS, body=encode_json(body))

    def set_read_mode(self, _session: Session, command: Command) -> Command:
        """Leave the reading ahead of the commit log to the kernel, as it is (2004)."""
        mode = ReadAheadHeader.of(command).mode
        if mode != READ_AHEAD:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                "READ_AHEAD",
                f"expected {READ_AHEAD}, found {ascii(mode)[:130]}: the kernel always reads ahead",
            )
        return command.answer(
            ResponseCode.SUCCESS, remark=f"set commitlog readahead mode success, mode: {mode}"
        )


def _threshold(group: str, text: str) -> int:
    """A threshold as a request has it, bytes a second.

    Raises:
        RefusedError: The name of the group is illegal, or the threshold is no number (29).
    """
    fault = group_fault(group)
    if fault is not None:
        raise RefusedError(ResponseCode.INVALID_PARAMETER, "GROUP_NAME", fault)
    value = number_in(text.encode())
    if value is None:
        raise RefusedError(
            ResponseCode.INVALID_PARAMETER,
            "COLD_DATA",
            f"threshold of {group}: expected a number of bytes a second, found {ascii(text)[:130]}",
        )
    return value
