"""Rules of access that change while the broker serves, and rules that cannot be read."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from broker_rig import BROKER, Rig, send_ext
from signed import RULES, SECRET, sign, write_rules
from timermq.broker.security.plain_acl import PlainAcl, PlainAclError
from timermq.broker.security.watched_files import AclFiles, Stamp
from unit.broker.security.guarded_rig import answering, code_of, guarded, statistics


async def test_changed_rules_are_read(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Within a second or two, without a restart."""
    rig = guarded(tmp_path)
    async with answering(rig):
        assert code_of(rig, sign(rig.command(10, send_ext("U"), b"x"), "producer")) == 16
        write_rules(tmp_path, RULES.replace("T=PUB", "U=PUB"))
        await trio.sleep(2.5)
        await trio.testing.wait_all_tasks_blocked()

    assert code_of(rig, sign(rig.command(10, send_ext("U"), b"x"), "producer")) == 0
    assert code_of(rig, sign(rig.command(10, send_ext("T"), b"x"), "producer")) == 16


async def test_a_rolled_secret_is_taken(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The old one is worth nothing from then on."""
    rig = guarded(tmp_path)
    write_rules(tmp_path, RULES.replace(SECRET, "new-secret"))
    access = rig.broker.access
    assert access is not None
    await access.reload()

    assert code_of(rig, sign(rig.command(206), "the-admin")) is None
    assert code_of(rig, sign(rig.command(206), "the-admin", "new-secret")) == 0


async def test_bad_new_rules_leave_the_old_ones(tmp_path: Path, autojump_clock: MockClock) -> None:
    """That is logged once and stands in the statistics, until the file is corrected."""
    rig = guarded(tmp_path)
    access = rig.broker.access
    assert access is not None
    path = write_rules(tmp_path, "accounts: 7")
    with capture_logs() as logs:
        await access.reload()
        await access.reload()

    (log,) = logs
    reason = f"{path}: accounts: expected a list, found something else"
    assert (log["log_level"], log["reason"]) == ("error", reason)
    assert statistics(rig).problem == reason
    assert code_of(rig, sign(rig.command(206), "the-admin")) == 0
    (tmp_path / "plain_acl.yml").unlink()
    await access.reload()
    assert "No such file" in str(statistics(rig).problem)
    write_rules(tmp_path)
    await access.reload()
    assert statistics(rig).problem is None


async def test_a_mistake_in_reading_rules_leaves_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is known; it would end the broker, and its text may quote a secret."""
    rig = guarded(tmp_path)
    access = rig.broker.access
    assert access is not None

    def fail(_files: object) -> PlainAcl:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(PlainAcl, "parse", fail)
    write_rules(tmp_path, "accounts: 7")
    await access.reload()

    assert statistics(rig).problem == "reading them failed with ZeroDivisionError"
    assert code_of(rig, sign(rig.command(206), "the-admin")) == 0


async def test_files_that_cannot_be_looked_for_leave_the_old_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """It does not end the broker, is logged once, and is over without a change of the files."""
    rig = guarded(tmp_path)
    stamp = AclFiles.stamp

    def fail(_files: AclFiles) -> Stamp:
        raise OSError(24, "Too many open files")

    async with answering(rig):
        with capture_logs() as logs:
            monkeypatch.setattr(AclFiles, "stamp", fail)
            await trio.sleep(5)
        assert [(log["event"], log["reason"]) for log in logs] == [
            (
                "access rules not read, the old ones stay in force",
                "[Errno 24] Too many open files",
            )
        ]
        assert statistics(rig).problem == "[Errno 24] Too many open files"
        assert code_of(rig, sign(rig.command(206), "the-admin")) == 0
        monkeypatch.setattr(AclFiles, "stamp", stamp)
        assert rig.broker.access is not None
        await rig.broker.access.reload()
        assert statistics(rig).problem is None


async def test_files_of_a_directory_count_too(tmp_path: Path) -> None:
    """Those under ``acl`` beside the file, but hidden ones; new ones are found."""
    folder = tmp_path / "acl" / "team"
    folder.mkdir(parents=True)
    more = "accounts:\n- {accessKey: another, secretKey: hidden-secret, admin: true}\n"
    (folder / "one.yaml").write_text(more)
    (folder / "read.me").write_text("no rules")
    (tmp_path / "acl" / "..data").mkdir()
    (tmp_path / "acl" / "..data" / "one.yaml").write_text(more)
    rig = guarded(tmp_path)
    access = rig.broker.access
    assert access is not None

    assert code_of(rig, sign(rig.command(206), "another")) == 0
    (folder / "two.yml").write_text(more.replace("another", "a-third"))
    await access.reload()
    assert code_of(rig, sign(rig.command(206), "a-third")) == 0


async def test_a_start_without_rules_fails(tmp_path: Path) -> None:
    """Nothing is served under rules that were not seen."""
    with pytest.raises(FileNotFoundError):
        Rig(options=attrs.evolve(BROKER, acl_enable=True, acl_file=str(tmp_path / "none")))
    with pytest.raises(PlainAclError):
        guarded(tmp_path, "accounts: 7")
    with pytest.raises(ValueError, match="acl_file: expected the path"):
        attrs.evolve(BROKER, acl_enable=True)
