"""Look at a broker's wall clock, or accept it as right: `timermq clock status`, `clock accept`.

A clock that was set by more than the broker believes is UNSAFE: ahead, what it makes due is held
back for a while; behind, everything waits. `clock accept` says that it is right now.
"""

from __future__ import annotations

import argparse

import attrs
import trio

from timermq.remoting import Command, RequestCode
from timermq.remoting.clock_report import ClockHeader, ClockReport

from .arguments import OneLineParser, add_json
from .broker_link import call_brokers, chosen
from .client_access import ClientAccess, add_client_access
from .moment import format_duration, format_moment
from .output import print_json

WORDS = {
    None: "",
    "forward": "the wall clock was set ahead; what it makes due is held back",
    "backward": "the wall clock was set back; messages wait until it has caught up",
    "stopped": "the wall clock stands still; nothing is due until it goes on",
}


def prepare_parser(parser: OneLineParser) -> None:
    """Whether to look or to accept, and at which broker."""
    parser.add_argument(
        "deed",
        choices=("status", "accept"),
        nargs="?",
        default="status",
        help="accept: the wall clock is right as it is",
    )
    parser.add_argument("--broker", metavar="HOST:PORT", help="only that of the broker there")
    add_client_access(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the state of each broker's clock; 1 if one is UNSAFE."""
    reports = trio.run(_ask, ClientAccess.of(args), args.deed == "accept", args.broker)
    for address, report in reports:
        if args.json:
            print_json([{"address": address, **attrs.asdict(report)}])
        else:
            print("\n".join(lines(address, report)))
    return int(any(report.state != "SAFE" for _, report in reports))


def lines(address: str, report: ClockReport) -> list[str]:
    """The lines for people about one broker."""
    said = [f"{address}  clock {report.state}"]
    if report.fault is not None:
        said.append(f"  {WORDS.get(report.fault, report.fault)}")
        said.append(f"  works by    {format_moment(report.now_ms)}")
        said.append(f"  wall clock  {format_moment(report.wall_ms)}")
    if report.believed_in_ms is not None:
        said.append(f"  believed in {format_duration(report.believed_in_ms)}")
    if report.rewinds:
        said.append("  the wheel is brought back to the present: the log is read once")
    steps = f"{report.steps_forward} forward, {report.steps_backward} back"
    if report.last_step_at_ms is not None:
        sign = "-" if report.last_step_ms < 0 else "+"
        size = format_duration(abs(report.last_step_ms))
        steps += f"; last {sign}{size} at {format_moment(report.last_step_at_ms)}"
    said.append(f"  steps       {steps}")
    drift = "not measured yet" if report.drift_ppm is None else f"{report.drift_ppm:+.1f} ppm"
    said.append(f"  drift       {drift}")
    return said


async def _ask(
    access: ClientAccess, accept: bool, address: str | None
) -> list[tuple[str, ClockReport]]:
    ext = ClockHeader(accept=True).to_ext() if accept else {}
    reports: list[tuple[str, ClockReport]] = []
    async with call_brokers(access) as brokers:
        for broker in chosen(brokers, address):
            answer = await broker.call(Command(RequestCode.CLOCK, ext=ext))
            reports.append((broker.address, ClockReport.decode(answer.body)))
    return reports
