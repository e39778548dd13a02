"""Names and lengths of files: as they are, as they are durable, and in which order."""

from __future__ import annotations

from random import Random

from timermq.simulator.disks.memory_journal import MemoryJournal, parent
from timermq.simulator.disks.memory_node import MemoryNode


def journal(*paths: str) -> tuple[MemoryJournal, list[MemoryNode]]:
    """A journal in which files were made, one step each."""
    one, nodes = MemoryJournal(), [MemoryNode() for _ in paths]
    for path, node in zip(paths, nodes, strict=True):
        one.change_names({path: node})
    return one, nodes


def test_names_are_durable_by_their_directory() -> None:
    """Those of other directories are gone after a power cut."""
    one, nodes = journal("/a/x", "/b/y")
    one.sync_names("/a")
    assert set(one.names) == {"/a/x", "/b/y"}
    one.cut(None)

    assert one.names == {"/a/x": nodes[0]}


def test_a_rename_between_directories_is_durable_half_by_half() -> None:
    """After a sync of the new directory alone the file has both names."""
    one, (node,) = journal("/a/x")
    one.sync_names("/a")
    one.change_names({"/a/x": None, "/b/y": node})
    one.sync_names("/b")
    one.cut(None)

    assert one.names == {"/a/x": node, "/b/y": node}


def test_files_that_lose_their_last_name_are_told() -> None:
    """Their space is free; one that is renamed keeps its own."""
    one, (first, second) = journal("/a/x", "/a/y")

    assert one.change_names({"/a/x": None, "/a/z": first}) == []
    assert one.change_names({"/a/z": None, "/a/y": first}) == [second]
    assert one.change_names({"/a/none": None}) == []


def test_a_torn_cut_keeps_the_first_changes() -> None:
    """The journal is written in order: no later change without an earlier one."""
    kept = set[tuple[str, ...]]()
    for seed in range(40):
        one, _ = journal("/a/1", "/a/2", "/a/3")
        one.cut(Random(seed))
        kept.add(tuple(sorted(one.names)))

    assert kept == {(), ("/a/1",), ("/a/1", "/a/2"), ("/a/1", "/a/2", "/a/3")}


def test_lengths_stand_in_the_same_order_as_names() -> None:
    """A sync of the file makes its length durable, and takes its changes out."""
    for is_synced, counts in ((True, {7}), (False, {0, 7})):
        found = set[int]()
        for seed in range(20):
            one, (node,) = journal("/a/x")
            one.sync_names("/a")
            node.size = 7
            one.note_size(node)
            if is_synced:
                node.durable_size = 7
                one.sync_size(node)
            one.cut(Random(seed))
            found.add(node.durable_size)
        assert found == counts


def test_after_a_cut_nothing_is_pending() -> None:
    """What went with it does not come back by a later sync."""
    one, _ = journal("/a/x")
    one.cut(None)
    one.sync_names("/a")
    one.cut(Random(1))

    assert one.names == {}


def test_the_directory_of_a_path() -> None:
    """Up to its last slash."""
    assert parent("/a/b/c") == "/a/b"
