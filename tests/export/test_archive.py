"""Archives: equal contents give equal bytes, and whatever is wrong with a file is one readable error."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.export.archive import (
    MANIFEST,
    ArchiveError,
    array_parts,
    arrays_parts,
    read_archive,
    read_array,
    write_archive,
)

FORM, WHAT = "a form 1", "an archive of a thing"
FILES = {"a.txt": b"some text", "folder/b.npy": b"".join(array_parts(np.arange(6.0).reshape(2, 3))), "empty": b""}


def written(path: Path, files: dict[str, bytes] | None = None, form: str = FORM) -> Path:
    write_archive(path, form, ((name, [content[:3], content[3:]]) for name, content in (files or FILES).items()))
    return path


def read(path: Path) -> dict[str, bytes]:
    return read_archive(path, FORM, WHAT)


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The zip with other contents and correct sums of its own."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    change(contents)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def test_what_is_written_comes_back_and_has_the_same_bytes(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a.zip"), written(tmp_path / "b.zip")
    assert first.read_bytes() == second.read_bytes()
    assert read(first) == FILES
    with zipfile.ZipFile(first) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[-1] == MANIFEST
        np.testing.assert_array_equal(np.load(archive.open("folder/b.npy")), np.arange(6.0).reshape(2, 3))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "b.zip"]


@pytest.mark.parametrize(
    "array", [np.float32(3.5), np.arange(5, dtype=">i4"), np.zeros((2, 0, 3)), np.ones((2, 2), bool)]
)
def test_arrays_come_back_little_endian(array: np.ndarray) -> None:
    found = read_array(b"".join(array_parts(np.asarray(array))))
    np.testing.assert_array_equal(found, array)
    assert found.shape == np.shape(array)
    assert found.dtype.str[0] in "<|"


def test_an_array_in_pieces_is_that_of_the_whole() -> None:
    whole = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    pieces = (whole[0, :3], whole[0, 3:], whole[1])
    assert b"".join(arrays_parts(whole.shape, whole.dtype, pieces)) == b"".join(array_parts(whole))


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip")
    before = path.read_bytes()

    def parts():
        yield b"half"
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_archive(path, FORM, [("a", parts())])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update({"a.txt": b"some Text"}), r"a\.txt is damaged: the manifest has another checksum"),
        (lambda c: c.update({"a.txt": b"some text "}), r"a\.txt is damaged: it has 10 bytes, and 9 in the manifest"),
        (lambda c: c.pop("empty"), r"manifest does not match \(missing: empty; unknown: none\)"),
        (lambda c: c.update({"more": b""}), r"manifest does not match \(missing: none; unknown: more\)"),
        (lambda c: c.pop(MANIFEST), r"not an archive of a thing: it has no manifest\.json"),
        (lambda c: c.update({MANIFEST: b"[1]"}), r"it has no manifest\.json of this package"),
        (lambda c: c.update({MANIFEST: b"\xff{"}), r"it has no manifest\.json of this package"),
        (lambda c: c.update({MANIFEST: b"[" * 100_000}), r"it has no manifest\.json of this package"),
        (lambda c: c.update({MANIFEST: b'{"format": "a form 2", "files": {}}'}), r"format 'a form 2'"),
        (lambda c: c.update({MANIFEST: json.dumps({"format": FORM, "files": []}).encode()}), r"lists no files"),
    ],
)  # fmt: skip
def test_other_contents_are_named(tmp_path: Path, change: Callable[[dict[str, bytes]], None], message: str) -> None:
    path = rewritten(written(tmp_path / "odd.zip"), change)
    with pytest.raises(ArchiveError, match=rf"odd\.zip: .*{message}"):
        read(path)


@pytest.mark.parametrize("damage", ["empty", "text", "first half", "no end", "another zip"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    path = written(tmp_path / "odd.zip")
    content = path.read_bytes()
    changed = {"empty": b"", "text": b"words", "first half": content[: len(content) // 2], "no end": content[:-9]}
    if damage in changed:
        path.write_bytes(changed[damage])
    else:
        np.savez(path.with_suffix(".npz"), a=np.ones(2))
        path.with_suffix(".npz").replace(path)
    with pytest.raises(ArchiveError, match=r"odd\.zip: not an archive of a thing"):
        read(path)


def test_a_flipped_bit_is_an_error_or_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "odd.zip")
    content, messages = path.read_bytes(), []
    for place in range(0, len(content), 3):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            assert read(path) == FILES, f"byte {place}"
        except ArchiveError as error:
            messages.append(str(error))
    assert len(messages) > len(content) // 3 / 2
    assert all("odd.zip" in message for message in messages)


def test_a_name_given_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "odd.zip")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("a.txt", FILES["a.txt"])
    with pytest.raises(ArchiveError, match="two of its files have the same name"):
        read(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_nothing_is_unpacked_that_is_larger_than_the_archive(tmp_path: Path, method: int) -> None:
    path = tmp_path / "odd.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("bomb", bytes(10**6))
    with pytest.raises(ArchiveError, match=r"odd\.zip: bomb is compressed or encrypted"):
        read(path)


def test_names_are_checked_before_anything_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "odd.zip")
    with pytest.raises(ArchiveError, match=r"\(missing: b; unknown: a\.txt, folder/b\.npy\)"):
        read_archive(path, FORM, WHAT, required=["b"], allowed="empty")


def test_a_file_that_is_not_there_is_not_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.zip")
