"""A reader sees the old file or the new one, never a part."""

import errno
import os
import threading
from pathlib import Path

import pytest

from bnn_atlas.files import DiskError, atomic, put_back, refusals, replaced


def test_content_appears_at_the_end_only(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "er" / "table.parquet"
    with atomic(target) as temporary:
        temporary.write_text("new")
        assert temporary.parent == target.parent, "a rename stays within one file system"
        assert temporary.suffix == ".parquet"
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_failure_keeps_the_old_content_and_leaves_nothing_behind(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "a.npz"
    target.write_text("old")

    def fail() -> None:
        with atomic(target) as temporary:
            temporary.write_text("half")
            raise error("stop")

    with pytest.raises(error, match="stop"):
        fail()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_forgotten_content_is_an_error(tmp_path: Path) -> None:
    target = tmp_path / "a.npz"
    target.write_text("old")
    with pytest.raises(FileNotFoundError), atomic(target):
        pass
    assert target.read_text() == "old"


def test_folders_appear_whole(tmp_path: Path) -> None:
    target = tmp_path / "trace.zarr"
    with atomic(target) as temporary:
        temporary.mkdir()
        (temporary / "zarr.json").write_text("{}")
    assert (target / "zarr.json").read_text() == "{}"

    def fail() -> None:
        with atomic(tmp_path / "other.zarr") as temporary:
            (temporary / "inner").mkdir(parents=True)
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert list(tmp_path.iterdir()) == [target]


def test_writers_at_the_same_time_leave_one_whole_file(tmp_path: Path) -> None:
    target = tmp_path / "shared.txt"
    size, writers, rounds = 20_000, 4, 8
    target.write_text("x" * size)
    stop, torn = threading.Event(), []

    def write(letter: str) -> None:
        for _ in range(rounds):
            with atomic(target) as temporary, temporary.open("w") as handle:
                for _ in range(4):
                    handle.write(letter * (size // 4))
                    handle.flush()

    def read() -> None:
        while not stop.is_set():
            text = target.read_text()
            if len(text) != size or len(set(text)) != 1:
                torn.append(text)

    reader = threading.Thread(target=read)
    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"[:writers]]
    reader.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    reader.join()
    assert not torn
    assert set(target.read_text()) < set("abcd")
    assert list(tmp_path.iterdir()) == [target]


def filled(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "page.md").write_text(text)
    return folder


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    page = filled(tmp_path / "page", "old")
    (page / "gone.csv").write_text("old")
    with replaced(page) as new:
        (new / "page.md").write_text("new")
        assert (page / "page.md").read_text() == "old"
    assert [path.name for path in page.iterdir()] == ["page.md"]
    assert (page / "page.md").read_text() == "new"
    assert list(tmp_path.iterdir()) == [page]
    with replaced(tmp_path / "deep" / "page") as new:
        assert list(new.iterdir()) == []
    assert (tmp_path / "deep" / "page").is_dir()


def test_a_failure_keeps_the_old_folder(tmp_path: Path) -> None:
    page = filled(tmp_path / "page", "old")

    def fail() -> None:
        with replaced(page) as new:
            (new / "page.md").write_text("half")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert (page / "page.md").read_text() == "old"
    assert list(tmp_path.iterdir()) == [page]


def test_a_folder_that_was_moved_away_is_put_back(tmp_path: Path) -> None:
    """As where the process ends between the two renames."""
    page = tmp_path / "page"
    filled(tmp_path / ".page.before", "old")
    put_back(page)
    assert (page / "page.md").read_text() == "old"
    filled(tmp_path / ".page.before", "older")
    put_back(page)
    assert (page / "page.md").read_text() == "old", "what is there stays"
    with replaced(page):
        pass
    assert list(tmp_path.iterdir()) == [page]


def fill(disk: Path, write, error: OSError) -> None:
    with write(disk):
        raise error


@pytest.mark.parametrize("write", [atomic, replaced])
def test_a_full_disk_names_the_file_and_what_to_do_whoever_writes(tmp_path: Path, write) -> None:
    target, full = tmp_path / "page", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(DiskError, match=r"cannot write .*page: No space left.* Free or repair") as caught:
        fill(target, write, full)
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []
    with (
        pytest.raises(DiskError, match=r"page: No space left[^.]*\. Wait\.$"),
        refusals(target, "Wait."),
    ):
        fill(target, write, full)
    with pytest.raises(ConnectionError):
        fill(target, write, ConnectionError("has nothing to do with the disk"))


@pytest.mark.parametrize("write", [atomic, replaced])
def test_contents_and_their_folder_are_on_disk_before_and_after_the_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write
) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(Path(f"/proc/self/fd/{number}").readlink()))
    with write(tmp_path / "page") as temporary:
        temporary.mkdir(exist_ok=True)
        (temporary / "README.md").touch()
    assert synced == [temporary / "README.md", temporary, tmp_path]
