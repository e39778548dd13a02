"""Writes the tables of docs/performance.md from the results that are kept in perf/results/.

Run by ``make docs``; measures nothing. ``make figures`` measures, then runs this.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from marked_place import filled

DOCS = Path(__file__).parent
PAGE_PATH = DOCS / "performance.md"
sys.path.insert(0, str(DOCS.parent / "perf"))

from peers import DURABILITIES, PEERS  # noqa: E402
from peers_table import side_by_side  # noqa: E402
from result_files import kept  # noqa: E402 - perf/ is a folder of scripts
from snapshots_table import snapshots  # noqa: E402


@attrs.frozen
class Row:
    """One line of the table of questions; the floor stands with the kept answer."""

    question: str
    asks: str
    aim: str
    limit: str


ROWS = (
    Row(
        "steady",
        "sent, delivered and pulled, 128 B a body",
        "100,000",
        "Python between the steps: sockets, wake-ups, small batches; the steps alone, which "
        "`perf/bench_steps.py` measures, take a third",
    ),
    Row("steady 1024 B", "the same, 1 KiB a body", "55,000", "as above, and copies of the body"),
    Row(
        "burst",
        "due at one instant, until the last is pulled",
        "300,000",
        "reading records back, appending what is delivered, and the pulls",
    ),
    Row(
        "sync",
        "50 connections, each waiting for its answer",
        "50,000",
        "a wake-up, a receive and a send for each message, and batches of a few",
    ),
    Row(
        "sync flushed",
        "the same with SYNC_FLUSH",
        "15,000",
        "as above, and handing each flush to a thread; the disk where it is slow",
    ),
    Row(
        "lateness",
        "2,000/s at random milliseconds: p99 over that of a process that only sleeps",
        "5",
        "the turn that the broker gets on a core that load and others share",
    ),
    Row("early", "of these, before their moment", "0", "must not happen"),
    Row(
        "neighbours of a burst",
        "another topic while 100,000 drain, p99",
        "100",
        "how turns are shared between the burst and the rest",
    ),
    Row(
        "memory of pending",
        "ten million that wait, over an empty broker",
        "16",
        "buffers of fixed size: as much with ten thousand pending as with ten million, see below",
    ),
    Row(
        "ready after kill -9",
        "from the start until requests are taken, ten million pending",
        "3",
        "starting Python, and reading what came after the last checkpoint",
    ),
    Row(
        "idle",
        "no client asks for anything",
        "0.5",
        "some fifteen wake-ups and two flushes a second",
    ),
)
"""Aims of steady and burst are what a prototype of the data path alone reached; others a choice."""


def questions() -> list[str]:
    """Every question with its floor, aim and figure."""
    result = kept("questions")
    found = {answer["question"]: answer for answer in result["answers"]}
    lines = [
        _of(result),
        "",
        "| question | floor | aim | figure | | as seen | what limits |",
        "| --- | ---: | ---: | ---: | --- | --- | --- |",
    ]
    for row in ROWS:
        answer = found[row.question]
        cells = (
            f"**{row.question}**: {row.asks}",
            f"{answer['floor']:,}",
            row.aim,
            f"{_number(answer['value'])}{_cross(answer['passes'])}",
            answer["unit"],
            _seen(answer),
            row.limit,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


REPLICATION_ROWS: Mapping[str, tuple[str, str]] = {
    "steady followed": (
        "the first question, with a follower",
        "{per_second:,}/s, {cpu_us} µs of the master's CPU a message",
    ),
    "replication cost": (
        "what the follower takes of the rate without one, in the same run",
        "{alone_cpu_us} µs of CPU a message become {cpu_us}; calibration {alone_calibration_ms} "
        "and {calibration_ms} ms",
    ),
    "sync replicated": (
        "50 connections, each answer after the follower has the message",
        "{per_second:,}/s, {cpu_us} µs of the master's CPU a message, calibration "
        "{calibration_ms} ms",
    ),
    "burst followed": (
        "{messages:,} of one instant: from the last arrival until the follower has all",
        "delivered at {per_second:,}/s; {behind_bytes:,} bytes of {burst_mb} MB were missing then",
    ),
    "catch-up": (
        "an empty follower: log copied for a second of its CPU, bodies of 1 KiB",
        "{seen_mb_per_second} MB/s, {cpu_s_per_gb} s of CPU a GB, with all timers linked "
        "{timers_cpu_s_per_gb} s; of the master {master_cpu_s_per_gb} s; calibration "
        "{calibration_ms} ms",
    ),
}
"""What each question asks, and what was seen."""


def replication() -> list[str]:
    """The cost of a follower, and how it keeps up."""
    result = kept("replication")
    found = {answer["question"]: answer for answer in result["answers"]}
    lines = [
        _of(result),
        "",
        "| question | floor | figure | | as seen |",
        "| --- | ---: | ---: | --- | --- |",
    ]
    for question, texts in REPLICATION_ROWS.items():
        answer = found[question]
        asks, seen = (text.format_map(answer) for text in texts)
        cells = (
            f"**{question}**: {asks}",
            "" if answer["floor"] is None else f"{answer['floor']:,g}",
            f"{_number(answer['value'])}{_cross(answer['passes'])}",
            answer["unit"],
            f"{seen}, {_repeats(answer)}" if "asked" in answer else seen,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def peers() -> list[str]:
    """A table of the servers side by side for each durability."""
    result = kept("peers")
    lines = [_of(result)]
    for durability in DURABILITIES:
        lines += ["", f"**{durability.name}**: {durability.promise}.", ""]
        lines.append(f"| | {' | '.join(PEERS)} |")
        lines.append(f"| --- |{' ---: |' * len(PEERS)}")
        lines.append(f"| set up | {' | '.join(durability.settings[peer] for peer in PEERS)} |")
        for label, cells in side_by_side(result["answers"], durability.name):
            lines.append(f"| {label} | {' | '.join(cell or '–' for cell in cells)} |")
    return lines


def pending() -> list[str]:
    """The table beside the picture of the cost of a message."""
    result = kept("pending_cost")
    lines = [
        _of(result),
        "",
        "| pending | CPU a message, µs | of a cancel | … that finds nothing | "
        "broker's own memory, MiB | ready after start, s |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for point in result["points"]:
        cells = (
            f"{point['pending']:,}",
            f"{point['cpu_us']:.1f}",
            *(_measured(point.get(key)) for key in ("cancel_us", "cancel_nothing_us")),
            f"{point['own_memory_mib']:.1f}",
            f"{point['ready_seconds']:.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _measured(value: float | None) -> str:
    """A figure that a result has only since its question is asked."""
    return "–" if value is None else f"{value:.1f}"


def promises() -> list[str]:
    """The cost of each promise in the way of a message."""
    result = kept("promises")
    whole = result["costs"][0]
    lines = [
        _of(result),
        "",
        "| promise | what it adds | measured | instructions | of the way | CPU, µs |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for row in result["costs"]:
        share = 100 * row["instructions"] / whole["instructions"]
        is_part = row["each"] == whole["each"]
        cells = (
            f"**{row['promise']}**",
            row["adds"] + ("" if is_part else f"; a {row['each']}, not a {whole['each']}"),
            row["measured"],
            f"{row['instructions']:,}",
            f"{share:.1f} %" if is_part else "",
            f"{row['cpu_us']:.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def crowds() -> list[str]:
    """The costs of crowds, access control and a watcher."""
    crowds, access, watch = kept("crowds"), kept("access"), kept("watch")
    lines = _bounded(crowds)
    for what, key in (("small sends", ""), ("pulls of 32 messages", "pull_")):
        fails = _cross(access[f"{key}left"] >= access["floor"])
        lines.append(
            f"| throughput of {what} that access control leaves | ≥ {access['floor'] * 100:g} | "
            f"{access[f'{key}left'] * 100:.0f}{fails} | %, {access[f'{key}open_us']} µs of CPU a "
            f"message become {access[f'{key}guarded_us']}; commit {access['machine']['commit']} |"
        )
    (answer,) = watch["answers"]
    return [*lines, _bounded_row(answer, f"; commit {watch['machine']['commit']}")]


def overload() -> list[str]:
    """The costs of peers that behave badly, and of a crowded slot."""
    return _bounded(kept("overload"))


def attack_cost() -> list[str]:
    """The effect of attacks on a client, a row for each."""
    result = kept("attack_cost")
    rows: dict[str, dict[str, str]] = {}
    heads: dict[str, str] = {}
    for answer in result["answers"]:
        attack, _, what = answer["question"].partition(": ")
        bound = "" if answer["bound"] is None else f" ≤ {answer['bound']:g}"
        heads[what] = f"{what}{bound} {answer['unit']}"
        row = rows.setdefault(f"{attack}, {answer['settings']}", {})
        row[what] = f"{_number(answer['value'])}{_cross(answer['passes'])}"
    return [
        _of(result),
        "",
        f"| attack | {' | '.join(heads.values())} |",
        f"| --- |{' ---: |' * len(heads)}",
        *(f"| {name} | {' | '.join(row[what] for what in heads)} |" for name, row in rows.items()),
    ]


def _bounded(result: Mapping[str, Any]) -> list[str]:
    """Figures beside what they must not exceed."""
    lines = [
        _of(result),
        "",
        "| question | bound | figure | |",
        "| --- | ---: | ---: | --- |",
    ]
    return [*lines, *map(_bounded_row, result["answers"])]


def _bounded_row(answer: Mapping[str, Any], beside: str = "") -> str:
    bound = "" if answer["bound"] is None else f"≤ {answer['bound']:g}"
    value = f"{_number(answer['value'])}{_cross(answer['passes'])}"
    settings = f"; `{answer['settings']}`" if answer.get("settings") else ""
    return f"| {answer['question']} | {bound} | {value} | {answer['unit']}{settings}{beside} |"


ROCKETMQ_ROWS: Mapping[tuple[str, str], str] = {
    ("early", "early"): "messages at random milliseconds: early, of {messages:,}",
    ("early", "earliest_ms"): "… the earliest, ms before its moment",
    ("early", "p50_ms"): "… half of all arrived, ms after their moment",
    ("early", "p99_ms"): "… 99 %, ms",
    ("early", "last_ms"): "… the last, ms",
    ("burst", "last_ms"): "{messages:,} of one instant: the last, ms after it",
    ("killed", "lost"): "kill -9 while {messages:,} of one instant are delivered: lost",
    ("killed", "twice"): "… twice on the topic",
    ("cancel", "recalled"): "recalled at most two seconds before the moment: with success, "
    "of {messages:,}",
    ("cancel", "arrived_all_the_same"): "… of these arrived all the same",
    ("hour", "written_mb"): "an hour while {messages:,} wait: written, MB",
}
"""Question and fact to what the row says."""


def rocketmq() -> list[str]:
    """The ways of timers beside those of RocketMQ's own broker."""
    result = kept("rocketmq")
    answers = {(one["question"], one["broker"]): one for one in result["answers"]}
    brokers = list(dict.fromkeys(broker for _, broker in answers))
    lines = [
        _of(result),
        "",
        f"| | {' | '.join(brokers)} |",
        f"| --- |{' ---: |' * len(brokers)}",
    ]
    for (question, fact), text in ROCKETMQ_ROWS.items():
        cells = [answers[question, broker] for broker in brokers]
        row = " | ".join(
            _fact(max(one[fact], 0) if "earliest" in fact else one[fact]) for one in cells
        )
        lines.append(f"| {text.format_map(cells[0])} | {row} |")
    return lines


def _fact(value: float) -> str:
    """A count as it is, a measure with a digit behind the point."""
    return f"{value:,}" if isinstance(value, int) else _number(value)


SPARK_JOBS: Mapping[str, str] = {
    "timerlog": "every unit of the timer log, the columns that stand in the file",
    "timerlog_all": "those that are made of it too",
    "commitlog": "of every record what `timermq.pending` needs",
    "pending": "every column of what will fire",
    "pending_units": "moments and topics of what will fire",
    "report": "all that `timermq spark report` shows",
    "rebuild": "timer log and wheel from the commit log, a tenth delivered",
    "audit": "every timer, unit and delivery, bodies too; all delivered",
    "audit_spilling": "the same in two parts, which do not fit the memory",
}


def spark() -> list[str]:
    """The costs of jobs, and the rate at which Spark schedules."""
    result, schedule = kept("spark"), kept("spark_schedule")
    rows = result["questions"][0]["rows"]
    lines = [
        _of(result),
        "",
        f"| job, {rows:,} timers | floor | CPU, µs a timer | as seen | a worker's memory, MiB | "
        "spilled, MiB |",
        "| --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for answer in result["questions"]:
        floor = answer["normal_cpu_us_max"]
        cells = (
            f"**{answer['question']}**: {SPARK_JOBS[answer['question']]}",
            "" if floor is None else f"≤ {floor:g}",
            f"{answer['normal_cpu_us']}{_cross(answer['passes'])}",
            f"{answer['seconds']} s, {answer['cpu_us']} µs of CPU, calibration "
            f"{answer['calibration_ms']} ms",
            f"{answer['worker_mib']}",
            f"{answer['spilled_mib']:,}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"Java has {result['questions'][0]['java_memory']}; what does not fit is spilled.",
        "",
        f"`schedule`, {schedule['rows']:,} rows from Parquet into a live broker on the same two "
        f"cores: {schedule['normal_rows_per_second']:,}/s{_cross(schedule['passes'])} as on the "
        f"reference machine (floor {schedule['rows_per_second_min']:,}/s); as seen "
        f"{schedule['rows_per_second']:,}/s, calibration {schedule['calibration_ms']} ms, with "
        f"{schedule['broker_cpu_us']} µs of CPU a row in the broker and "
        f"{schedule['spark_cpu_seconds']} s in Spark. Timers of another producer meanwhile: p99 at "
        f"most {schedule['lateness_p99_ms']:g} ms late (floor "
        f"{schedule['lateness_p99_ms_max']:g} ms). Commit {schedule['machine']['commit']}.",
        "",
        _linearity(kept("spark_linearity")),
        "",
        _plan(kept("spark_plan")),
        "",
        *snapshots(kept("spark_snapshots")),
    ]
    return lines


def _linearity(result: Mapping[str, Any]) -> str:
    """The cost of a unit among few and among many."""
    costs = [
        f"{one['normal_cpu_us']} µs among {one['units']:,} "
        f"({one['seconds']} s, {one['cpu_us']} µs as seen)"
        for one in result["answers"]
    ]
    return (
        f"Linear: a unit of the timer log costs {', '.join(costs)}{_cross(result['passes'])}: at "
        f"most {result['ratio_max']} times as much, as seen, among ten times as many, and at most "
        f"{result['normal_cpu_us_max']} µs. Among few the start of a job weighs most. Commit "
        f"{result['machine']['commit']}."
    )


def _plan(result: Mapping[str, Any]) -> str:
    """What a plan of all that waits reads, and a window of ten seconds."""
    found = {(one["by"], one["read"]): one for one in result["plans"]}
    plan, window = found["outlines", "all"], found["outlines", "ten seconds"]
    units = found["units", "all"]
    return (
        f"Planned: all that waits of {result['count']:,} timers, of which {result['cancelled']:,} "
        f"are cancelled, takes the planner {_megabytes(plan['plan_bytes'])} and "
        f"{1000 * plan['plan_seconds']:.1f} ms with outlines, and "
        f"{_megabytes(units['plan_bytes'])} and {1000 * units['plan_seconds']:.0f} ms without; a "
        f"task is handed {plan['pickled_bytes_max']:,} bytes, and {units['pickled_bytes_max']:,}. "
        f"The tasks of ten seconds, where moments grow with the order of sending, read "
        f"{_megabytes(window['task_bytes'])} of {_megabytes(result['timer_log_bytes'])}"
        f"{_cross(result['passes'])} (plan and window: at most "
        f"{100 * result['share_max']:.0f} %); Spark counts them in "
        f"{result['spark_window_seconds']:.2f} s. Commit {result['machine']['commit']}."
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


TABLES: Mapping[str, Callable[[], Sequence[str]]] = {
    "questions": questions,
    "replication": replication,
    "peers": peers,
    "pending": pending,
    "promises": promises,
    "crowds": crowds,
    "overload": overload,
    "attack_cost": attack_cost,
    "spark": spark,
    "rocketmq": rocketmq,
}


def with_tables(page: str) -> str:
    """The page with every table between its marks made again.

    The first table names the machine; those of the same machine and libraries only say so.

    Raises:
        ValueError: A table has no place on the page.
    """
    first = _measured_on(kept("questions"))
    for name, table in TABLES.items():
        rows = "\n".join(table())
        if name != "questions":
            rows = rows.replace(first, "Same machine and libraries", 1)
        page = filled(page, f"figures: {name}", rows, path="docs/performance.md")
    return page


def _of(result: Mapping[str, Any]) -> str:
    """The machine of a result, and its state while it was measured."""
    machine, scale = result["machine"], result.get("scale", 1)
    return (
        f"{_measured_on(result)}; calibration {machine['calibration_ms']} ms"
        + ("" if scale == 1 else f"; at {scale:g} of the full load")
        + (f"; commit {machine['commit']}." if machine["commit"] else ".")
    )


def _measured_on(result: Mapping[str, Any]) -> str:
    """The machine and the libraries of a result."""
    machine = result["machine"]
    libraries = ", ".join(f"{name} {text}" for name, text in machine["libraries"].items())
    return (
        f"Measured on {machine['cores']} shared cores of {machine['processor']}, "
        f"{machine['memory_gib']} GiB, {machine['system']}, Python {machine['python']}, {libraries}"
    )


def _seen(answer: Mapping[str, Any]) -> str:
    """The figure by the wall clock, and the calibration of that moment."""
    texts: list[str] = []
    if "per_second" in answer:
        texts.append(f"{answer['per_second']:,}/s")
        texts.append(f"{answer['cpu_us']} µs of CPU a message")
        texts.append(f"calibration {answer['calibration_ms']} ms")
        texts.append(f"limit: {answer['limit']}")
    if "p99_ms" in answer:
        texts.append(f"p50 {answer['p50_ms']}, p99 {answer['p99_ms']} ms")
    if "sleeper_p99_ms" in answer:
        texts.append(f"a sleeper's p99 {answer['sleeper_p99_ms']} ms")
    if "drained_seconds" in answer:
        texts.append(f"drained in {answer['drained_seconds']} s")
    if "pending" in answer:
        texts.append(f"{answer['pending']:,} pending")
    if "asked" in answer:
        texts.append(_repeats(answer))
    if "commit" in answer:
        texts.append(f"commit {answer['commit']}")
    return ", ".join(texts)


def _repeats(answer: Mapping[str, Any]) -> str:
    """How often it was asked, and between what the answers lay."""
    asked = answer["asked"]
    if answer["floor"] == 0:
        return f"worst of {len(asked)}"
    return f"asked {len(asked)} times: {_number(min(asked))} to {_number(max(asked))}"


def _cross(passes: bool) -> str:
    """The mark behind a figure that misses its bound."""
    return "" if passes else " ✗"


def _number(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


if __name__ == "__main__":
    PAGE_PATH.write_text(with_tables(PAGE_PATH.read_text()))
