"""A broker under attack: what a well-behaved client beside the attackers notices of it.

For each attack of ``attacks`` a broker in a process of its own, with and without access control.
Asked is how late a client's timers are, how long its sends take, how much memory the broker takes
beyond what it had, and that the page of metrics is answered.

Run: ``python perf/attack_cost.py [NAME …] [--seconds S] [--keep]``; 1 when a figure is beyond its
bound.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from multiprocessing.synchronize import Event
from pathlib import Path
from urllib.request import urlopen

import attrs
import result_files
import trustme
from attacks import ACCOUNT, ATTACKS, HANDSHAKES, SECRET, TOPIC, Target
from served import Figure, Server, answered, kept_answer, raise_file_limit, report, serving

from timermq.remoting import Command, RequestCode
from timermq.remoting.connection import encode_frame
from timermq.remoting.signature import ACCESS_KEY, SIGNATURE, SigningKey, signed_content
from timermq.remoting.stored_message import decode_messages

LATE_MS_MAX, ANSWER_MS_MAX = 50.0, 100.0
MEMORY_MB_MAX = 700.0
"""What all pools together may hold, and the objects around it."""
DELAY_MS = 400
PACE = 0.01
"""Seconds between two sends of the well-behaved client."""
RULES = f"""\
accounts:
- accessKey: {ACCOUNT}
  secretKey: {SECRET}
  topicPerms: [{TOPIC}=PUB|SUB]
  groupPerms: [{TOPIC}=SUB]
- accessKey: wellbehaved
  secretKey: well-behaved-secret
  topicPerms: [Well=PUB|SUB]
  groupPerms: [Well=SUB]
"""


@attrs.define
class Client:
    """The well-behaved one: it sends timers, and pulls them as they come."""

    server: Server
    signs: bool
    stop: threading.Event = attrs.Factory(threading.Event)
    answers_ms: list[float] = attrs.Factory(list[float])
    late_ms: list[float] = attrs.Factory(list[float])

    def frame(self, code: int, ext: dict[str, str], body: bytes = b"") -> bytes:
        """The frame of a request, signed where the broker asks for that."""
        command = Command(code, opaque=1, ext=ext, body=body)
        if self.signs:
            ext = ext | {ACCESS_KEY: "wellbehaved"}
            content = signed_content(ext, body, command.version)
            command.ext = ext | {SIGNATURE: SigningKey("well-behaved-secret").sign(content)}
        return encode_frame(command)

    def send(self) -> None:
        """Send a timer every ten milliseconds; how long each answer takes is a figure."""
        with self.server.connect() as connection:
            while not self.stop.is_set():
                deliver_ms = int(time.time() * 1000) + DELAY_MS
                ext = {
                    "producerGroup": "P", "topic": "Well", "defaultTopic": "TBW102",
                    "defaultTopicQueueNums": "1", "queueId": "0", "sysFlag": "0",
                    "bornTimestamp": "0", "flag": "0",
                    "properties": f"TIMER_DELIVER_MS\x01{deliver_ms}\x02",
                }  # fmt: skip
                begun = time.monotonic()
                answer = answered(
                    connection, self.frame(RequestCode.SEND_MESSAGE, ext, b"%d" % deliver_ms)
                )
                self.answers_ms.append((time.monotonic() - begun) * 1000)
                assert answer.code == 0, answer.remark
                time.sleep(PACE)

    def pull(self) -> None:
        """Pull what has come; how late each timer is is a figure."""
        offset = 0
        with self.server.connect() as connection:
            while not self.stop.is_set():
                ext = {
                    "consumerGroup": "Well", "topic": "Well", "queueId": "0",
                    "queueOffset": str(offset), "maxMsgNums": "32", "sysFlag": "6",
                    "commitOffset": "0", "suspendTimeoutMillis": "1000", "subVersion": "0",
                    "subscription": "*", "expressionType": "TAG",
                }  # fmt: skip
                answer = answered(connection, self.frame(RequestCode.PULL_MESSAGE, ext))
                now_ms = time.time() * 1000
                if answer.code == 0:
                    found = decode_messages(answer.body)
                    offset = found[-1].queue_offset + 1
                    self.late_ms += [now_ms - int(one.body) for one in found]
                elif answer.code == 17:  # the topic comes with the first send
                    time.sleep(PACE)


def besiege(name: str, seconds: float, *, signs: bool) -> list[Figure]:
    """One attack, and what it costs others."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        metrics_port = int(probe.getsockname()[1])
        probe.close()
        flags = ["--set=metrics_listen_enable=true", f"--set=metrics_listen_port={metrics_port}"]
        if signs:
            rules = Path(folder) / "plain_acl.yml"
            rules.touch(mode=0o600)
            rules.write_text(RULES)
            flags += ["--set=acl_enable=true", f"--set=acl_file={rules}"]
        if name == HANDSHAKES:
            key, certificate = Path(folder) / "key.pem", Path(folder) / "cert.pem"
            issued = trustme.CA().issue_cert("127.0.0.1")
            issued.private_key_pem.write_to_path(str(key))
            issued.cert_chain_pems[0].write_to_path(str(certificate))
            flags += [
                f"--set=tls_server_key_path={key}",
                f"--set=tls_server_cert_path={certificate}",
            ]
        with serving(*flags) as server, _on_the_last_processor():
            return _under(name, server, Target(server.port, metrics_port, signs), seconds)


@contextlib.contextmanager
def _on_the_last_processor() -> Generator[None]:
    """Where client and attackers are; the broker may use all processors."""
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(usual)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)


def _under(name: str, server: Server, target: Target, seconds: float) -> list[Figure]:
    client = Client(server, target.signs)
    threads = [threading.Thread(target=run, daemon=True) for run in (client.send, client.pull)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    before, peak, page_ms = server.own_size(), 0, 0.0
    client.answers_ms.clear()
    client.late_ms.clear()
    stop = multiprocessing.Event()
    attacker = multiprocessing.Process(target=_attack, args=(name, target, stop), daemon=True)
    attacker.start()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.2)
        peak = max(peak, server.own_size())
        begun = time.monotonic()
        with urlopen(f"http://127.0.0.1:{target.metrics_port}/readyz", timeout=10) as page:
            page.read()
        page_ms = max(page_ms, (time.monotonic() - begun) * 1000)
    stop.set()
    client.stop.set()
    attacker.join(5)
    attacker.kill()
    rules = "signed" if target.signs else "without access control"
    late, answers = sorted(client.late_ms), sorted(client.answers_ms)
    print(f"# {name}, {rules}: {len(late)} timers, {len(answers)} sends", file=sys.stderr)
    return [
        Figure(f"{name}: latest timer", late[-1], "ms", LATE_MS_MAX, rules),
        Figure(f"{name}: half of the timers", late[len(late) // 2], "ms", None, rules),
        Figure(f"{name}: 99 of 100 timers", late[len(late) * 99 // 100], "ms", None, rules),
        Figure(f"{name}: slowest send", answers[-1], "ms", ANSWER_MS_MAX, rules),
        Figure(f"{name}: slowest page", page_ms, "ms", None, rules),
        Figure(f"{name}: memory", (peak - before) / 1e6, "MB", MEMORY_MB_MAX, rules),
    ]


def _attack(name: str, target: Target, stop: Event) -> None:
    # Attackers are on other machines: here they have what broker and client leave of this one.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    ATTACKS[name](target, stop)


def main() -> int:
    """Try every attack; 1 when a figure is beyond its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ATTACKS))
    parser.add_argument("--seconds", type=float, default=10.0, help="of each attack")
    parser.add_argument("--keep", action="store_true", help="write results/attack_cost.json")
    args = parser.parse_args()
    raise_file_limit()
    # Of the client's threads one waits for the other no longer than it would on two processors.
    sys.setswitchinterval(0.0005)
    figures: list[Figure] = []
    for name in args.names or ATTACKS:
        for signs in (False, True):
            figures += besiege(name, args.seconds, signs=signs)
    if args.keep:
        result_files.report(
            "attack_cost", {"answers": [kept_answer(one) for one in figures]}, keep=True
        )
    return report(figures)


if __name__ == "__main__":
    sys.exit(main())
