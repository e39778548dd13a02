"""The conversation of a job, with the broker that runs.

BULK_OPEN, BULK_STAGE, BULK_COMMIT, BULK_STATUS and BULK_DROP, as `Driver` asks them.
"""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import BROKER, ROOT, RunningBroker, running_broker
from bulk_driver import Driver, read, refusal_in, small_block
from timermq.remoting.bulk import AskStatus, CommitJob, JobState, JobStatus, OpenJob, bulk_request
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.properties import parse
from timermq.timerstore.record import Record, decode_record


def records(running: RunningBroker, topic: str = "T", queues: int = 8) -> list[Record]:
    """What stands in the queues of a topic."""
    store = running.broker.store
    found = (store.queue(topic, queue_id) for queue_id in range(queues))
    return [
        decode_record(store.commit_log.read(int(unit["phy_offset"]), int(unit["size"])))
        for queue in found
        if queue is not None
        for offset in range(queue.max_offset)
        for unit in queue.units(offset, 1)
    ]


async def done(driver: Driver) -> JobStatus:
    """The status of a job when it is done."""
    for _ in range(1_000):
        status = await driver.status()
        if status.state is JobState.DONE:
            return status
        await trio.sleep(0.1)
    raise AssertionError("the job is not done")


async def test_a_job_from_its_opening_to_its_end(autojump_clock: MockClock) -> None:
    """Rows for now and for later arrive, each at its moment, once, with what they brought."""
    async with running_broker() as running:
        driver = Driver(running.connect())
        opened = await driver.open("T")
        assert (opened.state, opened.queue_counts) == (JobState.OPEN, {"T": 0})
        later_ms = opened.job_ms + 5_000
        block = small_block(["now", "later"], deliver_ms=[0, later_ms], keys=["k1", "k22"])
        assert (await driver.stage("a-0", block)).is_whole
        status = read(JobStatus, await driver.commit(("a-0", 2)))
        assert (status.state, status.rows, status.taken) == (JobState.COMMITTED, 2, True)

        status = await done(driver)
        assert (status.rows, status.adopted, status.refused) == (2, 2, 0)
        assert [record.body for record in records(running)] == [b"now"]
        await trio.sleep(5)
        now, later = records(running)
        assert (now.body, later.body) == (b"now", b"later")
        properties = [parse(record.properties) for record in (now, later)]
        assert [one["KEYS"] for one in properties] == ["k1", "k22"]
        tag = properties[0]["UNIQ_KEY"][:16]
        assert [one["UNIQ_KEY"] for one in properties] == [f"{tag}{row:016}" for row in (0, 1)]
        assert properties[1]["TIMER_DELIVER_MS"] == str(later_ms)
        assert (later.born_ms, properties[1]["CLUSTER"]) == (opened.job_ms, "DefaultCluster")


async def test_rows_of_one_form_go_together(autojump_clock: MockClock) -> None:
    """A thousand rows with keys of several lengths and queues in turns arrive, none twice."""
    async with running_broker() as running:
        driver = Driver(running.connect())
        opened = await driver.open()
        count = 1_200
        block = small_block(
            [f"{row}" for row in range(count)],
            deliver_ms=[opened.job_ms + 2_000 + row for row in range(count)],
            keys=["k" * (row % 3) for row in range(count)],
            queue_id=-1,
        )
        await driver.stage("p", block)
        await driver.commit(("p", count))
        status = await done(driver)
        await trio.sleep(5)

        found = records(running)
        assert (status.adopted, status.refused) == (count, 0)
        assert sorted(int(record.body) for record in found) == list(range(count))
        for record in found:
            row = int(record.body)
            properties = parse(record.properties)
            assert properties["TIMER_DELIVER_MS"] == str(opened.job_ms + 2_000 + row)
            assert properties.get("KEYS", "") == "k" * (row % 3)
            assert record.queue_id == row % 8


async def test_what_is_staged_alone_never_appears(autojump_clock: MockClock) -> None:
    """Neither parts of attempts that failed, nor a job that is never committed."""
    async with running_broker() as running:
        driver = Driver(running.connect())
        await driver.open()
        await driver.stage("failed", small_block(["failed"]))
        await driver.stage_block("cut", 0, small_block(["cut"]))
        await driver.stage("good", small_block(["good"]))
        other = Driver(driver.peer, "other")
        await other.open()
        await other.stage("p", small_block(["other"]))
        await driver.commit(("good", 1))
        await done(driver)
        await trio.sleep(60)

        assert [record.body for record in records(running)] == [b"good"]
        assert (await other.status()).state is JobState.OPEN


async def test_the_first_commit_wins(autojump_clock: MockClock) -> None:
    """Repeated it is answered the same; another one changes nothing, and says so."""
    async with running_broker() as running:
        driver, second = Driver(running.connect()), Driver(running.connect())
        first_ms = (await driver.open()).job_ms
        await driver.stage("a", small_block(["a"]))
        await second.stage("b", small_block(["b"]))
        async with trio.open_nursery() as nursery:
            answers: list[JobStatus] = []

            async def race(one: Driver, part: str) -> None:
                answers.append(read(JobStatus, await one.commit((part, 1))))

            nursery.start_soon(race, driver, "a")
            nursery.start_soon(race, second, "b")
        assert sorted(one.taken for one in answers) == [False, True]
        await done(driver)

        again = [read(JobStatus, await driver.commit((part, 1))) for part in ("a", "b")]
        assert [one.state for one in again] == [JobState.DONE] * 2
        assert sorted(one.taken for one in again) == [False, True]
        assert len(records(running)) == 1
        await trio.sleep(10)
        assert (await driver.open()).job_ms == first_ms
        assert refusal_in(await driver.stage_block("c", 0, small_block(["c"]))) == (
            "BULK_HANDED_OVER"
        )


async def test_a_name_used_again_for_other_rows_is_refused(autojump_clock: MockClock) -> None:
    """While the job is ingested, when it is done, behind a restart; the same rows are done."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running:
        driver = Driver(running.connect())
        await driver.open()
        await driver.stage("a", small_block(["a"]))
        assert read(JobStatus, await driver.commit(("a", 1), fingerprint="one")).taken
        again = await driver.commit(("b", 1), fingerprint="two")
        assert (again.code, again.remark) == (
            29,
            "BULK_JOB_DIFFERS: job J was committed before with other rows: expected fingerprint "
            "one, found two; nothing of these is scheduled: give them a job of another name",
        )
        await done(driver)
    async with running_broker(disk=disk) as running:
        driver = Driver(running.connect())
        for fingerprint in ("one", ""):
            same = await driver.commit(("b", 1), fingerprint=fingerprint)
            assert not read(JobStatus, same).taken
            request = bulk_request("J", AskStatus(fingerprint=fingerprint))
            assert read(JobStatus, await driver.ask(request)).state is JobState.DONE
        for refused in (CommitJob(parts=(), fingerprint="two"), AskStatus(fingerprint="two")):
            answer = await driver.ask(bulk_request("J", refused))
            assert refusal_in(answer) == "BULK_JOB_DIFFERS"
        await trio.sleep(10)

        assert [record.body for record in records(running)] == [b"a"]


async def test_a_job_without_a_fingerprint_is_done_already(autojump_clock: MockClock) -> None:
    """As a version before has left it, or a driver that states none: nothing can be compared."""
    async with running_broker() as running:
        driver = Driver(running.connect())
        await driver.open()
        await driver.stage("a", small_block(["a"]))
        await driver.commit(("a", 1))

        again = await driver.commit(("b", 1), fingerprint="two")

        assert not read(JobStatus, again).taken


async def test_rows_that_a_rule_refuses_are_remembered(autojump_clock: MockClock) -> None:
    """Each with its part, row, rule and remark, page by page; the others are ingested."""
    async with running_broker() as running:
        driver = Driver(running.connect())
        opened = await driver.open()
        far_ms = opened.job_ms + opened.limits.delay_max_ms + 1_000_000
        moments = [opened.job_ms - 1_000, far_ms, -5, opened.job_ms + 1_000]
        await driver.stage("p", small_block("abcd", deliver_ms=moments))
        await driver.stage(
            "q", small_block(["e"], queue_id=8), small_block("fg", keys=["", "\x02"])
        )
        await driver.commit(("p", 4), ("q", 3))
        status = await done(driver)

        assert (status.rows, status.adopted, status.refused) == (7, 3, 4)
        assert [one[:3] for one in status.refused_rows] == [
            ("p", 1, "TIMER_DELAY_TOO_LONG"),
            ("p", 2, "TIMER_NEGATIVE"),
            ("q", 0, "QUEUE_ID"),
            ("q", 2, "PROPERTY_TEXT"),
        ]
        assert status.next is None
        rows: list[tuple[str, int, str, str]] = []
        after: int | None = 0
        while after is not None:
            page = await driver.status(after=after, limit=1)
            rows += page.refused_rows
            after = page.next
        assert tuple(rows) == status.refused_rows


@pytest.mark.parametrize(
    ("topic", "rule"),
    [
        ("no topic!", "TOPIC_NAME"),
        ("rmq_sys_wheel_timer", "TOPIC_NOT_ALLOWED"),
        ("%RETRY%G", "BULK_TOPIC"),
        ("New", "TOPIC_NOT_EXIST"),
    ],
)
async def test_topics_that_take_nothing(topic: str, rule: str, autojump_clock: MockClock) -> None:
    """By the rules of a send, which may not make a topic here."""
    options = attrs.evolve(BROKER, auto_create_topic_enable=False)
    async with running_broker(options=options) as running:
        driver = Driver(running.connect())
        await driver.open()
        await driver.stage("p", small_block(["x"], topic=topic))
        await driver.commit(("p", 1))

        assert [one[2] for one in (await done(driver)).refused_rows] == [rule]


async def test_a_job_without_rows_is_done_at_once(autojump_clock: MockClock) -> None:
    """And remembered as any other."""
    async with running_broker() as running:
        driver = Driver(running.connect())
        await driver.open()
        await driver.commit()

        assert (await done(driver)).rows == 0


async def test_what_a_process_before_has_decided(autojump_clock: MockClock) -> None:
    """An open job keeps its parts and moment over a restart; one that is done stays done."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running:
        driver, other = Driver(running.connect()), Driver(running.connect(), "other")
        first_ms = (await driver.open()).job_ms
        await driver.stage("p", small_block(["p"]))
        await driver.stage_block("q", 0, small_block(["q"]))
        await other.open()
        await other.stage("x", small_block("xy", queue_id=9), small_block("z"))
        await other.commit(("x", 3))
        before = await done(other)
    async with running_broker(disk=disk) as running:
        driver, other = Driver(running.connect()), Driver(running.connect(), "other")
        await trio.sleep(7)
        assert (await driver.open()).job_ms == first_ms
        again = await driver.stage_block("q", 1, small_block(["q"]))
        assert refusal_in(again) == "BULK_PART_UNKNOWN"
        repeated = await driver.stage_block("p", 0, small_block(["p"]), is_last=True)
        assert repeated.code == 0
        assert await other.status() == before
        assert read(JobStatus, await other.commit(("x", 3))).taken
        await driver.commit(("p", 1))
        await done(driver)

        assert sorted(record.body for record in records(running)) == [b"p", b"z"]


async def test_parts_that_cannot_be_committed(autojump_clock: MockClock) -> None:
    """Unknown or unfinished ones, other counts of rows, changed bytes: nothing is decided."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running:
        driver = Driver(running.connect())
        await driver.open()
        await driver.stage("p", small_block("ab"), small_block("c"))
        await driver.stage_block("cut", 0, small_block(["cut"]))
        assert refusal_in(await driver.commit(("p", 3), ("none", 1))) == "BULK_PART_UNKNOWN"
        assert refusal_in(await driver.commit(("p", 3), ("cut", 1))) == "BULK_PART_UNKNOWN"
        assert refusal_in(await driver.commit(("p", 2))) == "BULK_ROWS"
        await driver.stage("bad", small_block("xyz"))
        file = disk.open(f"{ROOT}/timermq-bulk/J/bad.part")
        file.write(file.size() - 1, b"!")
        refused = await driver.commit(("p", 3), ("bad", 3))
        assert refusal_in(refused) == "BULK_PART_DAMAGED"
        assert "part bad, behind row 0: BULK_BLOCK: expected the CRC" in (refused.remark or "")
        assert (await driver.status()).state is JobState.OPEN

        await driver.stage("good", small_block("xyz"))
        assert read(JobStatus, await driver.commit(("p", 3), ("good", 3))).taken
        assert (await done(driver)).adopted == 6


async def test_parts_are_dropped_by_name_and_by_run(autojump_clock: MockClock) -> None:
    """Until the job is decided."""
    async with running_broker() as running:
        driver = Driver(running.connect())
        await driver.open()
        for part in ("run1-0", "run1-1", "run2-0"):
            await driver.stage(part, small_block([part]))

        assert await driver.drop("run2-0", "none") == 1
        assert await driver.drop(prefix="run1-") == 2
        assert refusal_in(await driver.commit(("run1-0", 1))) == "BULK_PART_UNKNOWN"
        await driver.stage("run3-0", small_block(["x"]))
        await driver.commit(("run3-0", 1))
        assert await driver.drop(prefix="run3") == 0
        assert (await done(driver)).adopted == 1


async def test_blocks_come_one_after_the_other(autojump_clock: MockClock) -> None:
    """The newest may come again; another one is out of order; the first begins anew."""
    async with running_broker() as running:
        driver = Driver(running.connect())
        await driver.open()
        a, b, c = (small_block([body]) for body in "abc")
        assert refusal_in(await driver.stage_block("p", 1, a)) == "BULK_PART_UNKNOWN"
        await driver.stage_block("p", 0, a)
        assert (await driver.stage_block("p", 0, a)).code == 0
        assert refusal_in(await driver.stage_block("p", 2, c)) == "BULK_ORDER"
        await driver.stage_block("p", 0, b)
        await driver.stage_block("p", 1, c, is_last=True)
        assert (await driver.stage_block("p", 1, c, is_last=True)).code == 0
        assert refusal_in(await driver.stage_block("p", 2, c)) == "BULK_ORDER"
        assert refusal_in(await driver.stage_block("p", 0, a)) == "BULK_ORDER"
        await driver.commit(("p", 2))
        await done(driver)

        assert [record.body for record in records(running)] == [b"b", b"c"]


async def test_limits_are_for_a_while(autojump_clock: MockClock) -> None:
    """Of jobs and of bytes: code 2, and a rule."""
    options = attrs.evolve(BROKER, bulk_jobs_max=1, bulk_staged_size_max=100)
    async with running_broker(options=options) as running:
        driver = Driver(running.connect())
        await driver.open()
        answer = await driver.stage_block("p", 0, small_block(["x" * 100]))
        assert (answer.code, refusal_in(answer)) == (2, "BULK_STAGED_MAX")
        second = await Driver(driver.peer, "second").ask(bulk_request("second", OpenJob()))
        assert (second.code, refusal_in(second)) == (2, "BULK_JOBS_MAX")


async def test_requests_without_a_job(autojump_clock: MockClock) -> None:
    """Requests about a job that was not opened are refused as BULK_JOB."""
    async with running_broker() as running:
        driver = Driver(running.connect())
        assert refusal_in(await driver.commit()) == "BULK_JOB"
        assert refusal_in(await driver.stage_block("p", 0, small_block(["x"]))) == "BULK_JOB"


async def test_topics_that_take_no_rows(autojump_clock: MockClock) -> None:
    """They are told when a job is opened, by the rules of a send; the others are made."""
    async with running_broker() as running:
        driver = Driver(running.connect())

        opened = await driver.open("T", "a b", "SCHEDULE_TOPIC_XXXX")

        rules = {topic: text.partition(":")[0] for topic, text in opened.refused_topics.items()}
        assert {"a b": "TOPIC_NAME", "SCHEDULE_TOPIC_XXXX": "TOPIC_NOT_ALLOWED"} == rules
        assert (await driver.open("T")).queue_counts["T"] > 0


async def test_a_job_has_one_owner(autojump_clock: MockClock) -> None:
    """Another one is refused, also after a restart; who names none may ask."""
    disk = MemoryDisk()
    for first in (True, False):
        async with running_broker(disk=disk) as running:
            driver = Driver(running.connect())
            same = await driver.ask(bulk_request("S", OpenJob(owner="query-1")))
            other = await driver.ask(bulk_request("S", OpenJob(owner="query-2")))
            strange = await driver.ask(bulk_request("S", OpenJob()))

            assert (first, 0, 0) == (first, same.code, strange.code)
            assert "BULK_OWNER: job S belongs to 'query-1', found 'query-2'" == other.remark
