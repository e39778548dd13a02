"""Tests of finding the files of rules while their directories change."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from timermq.broker.security.watched_files import AclFiles


def rules(directory: Path, *names: str) -> AclFiles:
    """The files of rules of a directory, with some under ``acl``."""
    for name in ("plain_acl.yml", *(f"acl/{name}" for name in names)):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return AclFiles(str(directory / "plain_acl.yml"))


def shown(files: AclFiles, directory: Path) -> list[str]:
    """What is found, below the directory."""
    return [str(Path(path).relative_to(directory)) for path in files.paths()]


def before_looking_into(
    monkeypatch: pytest.MonkeyPatch, name: str, happens: Callable[[Path], object]
) -> None:
    """Have something happen between the listing of a directory's parent and its own."""
    scan = cast("Callable[[object], object]", os.scandir)

    def scandir(path: str | os.PathLike[str]) -> object:
        if Path(path).name == name:
            happens(Path(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)


@pytest.mark.parametrize("name", ["team", "..2026_11_23"])
def test_a_directory_may_vanish_while_it_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As at every update of a mounted secret: the others are found."""
    files = rules(tmp_path, f"{name}/one.yml", "z/two.yml")
    before_looking_into(monkeypatch, name, lambda path: path.rename(tmp_path / "gone"))

    assert shown(files, tmp_path) == ["plain_acl.yml", "acl/z/two.yml"]


def test_the_directory_itself_may_be_missing(tmp_path: Path) -> None:
    """Or be a file: there are no more rules then."""
    files = rules(tmp_path)
    assert shown(files, tmp_path) == ["plain_acl.yml"]
    (tmp_path / "acl").write_text("")
    assert shown(files, tmp_path) == ["plain_acl.yml"]


@pytest.mark.parametrize(("number", "passes"), [(errno.EACCES, True), (errno.EMFILE, False)])
def test_a_directory_that_cannot_be_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, passes: bool
) -> None:
    """One of somebody else's is none of ours; what else is wrong must not look like no rules."""
    files = rules(tmp_path, "team/one.yml")

    def fail(path: Path) -> None:
        raise OSError(number, os.strerror(number), str(path))

    before_looking_into(monkeypatch, "team", fail)
    if passes:
        assert shown(files, tmp_path) == ["plain_acl.yml"]
    else:
        with pytest.raises(OSError, match="Too many open files"):
            files.stamp()


def test_links_show_what_hidden_directories_hold(tmp_path: Path) -> None:
    """As mounted secrets stand there; directories behind links are not looked into."""
    files = rules(tmp_path, "..2026/one.yml", ".hidden.yml", "team/two.yaml", "team/read.me")
    folder = tmp_path / "acl"
    (folder / "..data").symlink_to("..2026")
    (folder / "one.yml").symlink_to("..data/one.yml")
    (folder / "linked").symlink_to("team")
    (folder / "gone.yml").symlink_to("nothing")

    found = ["plain_acl.yml", "acl/gone.yml", "acl/one.yml", "acl/team/two.yaml"]
    assert shown(files, tmp_path) == found
    shutil.move(folder, tmp_path / "mounted")
    folder.symlink_to("mounted")
    assert shown(files, tmp_path) == found


def test_a_directory_with_the_name_of_a_file_is_told(tmp_path: Path) -> None:
    """Containers make one where the file to be mounted is missing: its rules are not in force."""
    files = rules(tmp_path, "team.yml/one.yml")

    assert shown(files, tmp_path) == ["plain_acl.yml", "acl/team.yml", "acl/team.yml/one.yml"]
    with pytest.raises(IsADirectoryError):
        files.read(100)
