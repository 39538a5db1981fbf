"""Readers of image and label files, on small files made here."""

from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.config.data.datasets import CifarReader
from bnn_atlas.data import DataError
from bnn_atlas.data.readers import images as module
from bnn_atlas.data.readers.images import (
    images_hash,
    labels_hash,
    read_cifar,
    read_idx,
    read_image_tar,
    read_labels,
    read_png_rows,
    read_svhn,
    tar_files,
)
from tests.data import raw_files

RNG = np.random.default_rng(3)
GREY = RNG.integers(0, 256, (5, 3, 4), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
CIFAR = CifarReader(format="cifar_binary", train=("d/one.bin", "d/two.bin"), test=("d/test.bin",))


def _file(folder: Path, content: bytes) -> Path:
    path = folder / "raw"
    path.write_bytes(content)
    return path


def _records(images: np.ndarray, *marks: int) -> bytes:
    """CIFAR's records by its description: label bytes, then the three colour planes."""
    return b"".join(bytes(marks) + b"".join(image[:, :, c].tobytes() for c in range(3)) for image in images)


def test_idx_images_and_labels(tmp_path: Path) -> None:
    rows = read_idx(_file(tmp_path, raw_files.idx(GREY)))
    assert rows.x is not None
    assert rows.y is None
    np.testing.assert_array_equal(rows.x, GREY[..., None])
    rows = read_idx(_file(tmp_path, raw_files.idx(np.array([2, 0, 9], np.uint8))))
    assert rows.x is None
    assert rows.y is not None
    assert rows.y.tolist() == [2, 0, 9]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (raw_files.idx(GREY)[:-12], r"raw: not an intact gzip file \(Compressed file ended"),
        (b"no gzip at all", r"raw: not an intact gzip file"),
        (b"", r"raw: byte 0: magic number"),
        (raw_files.idx(GREY)[:30] + b"\xff" * 20, r"raw: not an intact gzip file"),
        (raw_files.idx(GREY, magic=0x0D03), r"byte 0: magic number 0x00000d03; expected 0x00000803"),
        (raw_files.idx(GREY, promised=(6, 3, 4)), r"promises 6 x 3 x 4 = 72 values, the file holds fewer: 60"),
        (raw_files.idx(GREY, promised=(2**32 - 1,) * 3), r"values, the file holds fewer: 60"),
        (raw_files.idx(GREY, rest=b"\x00"), r"promises 5 x 3 x 4 = 60 values, the file holds more: 61"),
        (raw_files.idx(GREY[:0, :0, :0], promised=(5,), magic=0x803), r"header ends after 8 of 16 bytes"),
    ],
    ids=raw_files.brief,
)
def test_damaged_idx(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_idx(_file(tmp_path, content))


def test_cifar_records(tmp_path: Path) -> None:
    members = {
        "d/test.bin": _records(COLOUR[4:], 7), "d/readme.html": b"words", "d/two.bin": _records(COLOUR[1:4], 1),
        "d/one.bin": _records(COLOUR[:1], 9),
    }  # fmt: skip
    parts = read_cifar(_file(tmp_path, raw_files.tar(members)), CIFAR)
    assert set(parts) == {"train", "test"}
    np.testing.assert_array_equal(parts["train"].x, COLOUR[:4])
    np.testing.assert_array_equal(parts["train"].y, [9, 1, 1, 1])
    np.testing.assert_array_equal(parts["test"].x, COLOUR[4:])
    np.testing.assert_array_equal(parts["test"].y, [7, 7])


def test_cifar100_takes_the_fine_label(tmp_path: Path) -> None:
    reader = CifarReader(format="cifar_binary", train=("t",), test=("u",), labels=2)
    content = raw_files.tar({"t": _records(COLOUR[:2], 3, 88), "u": _records(COLOUR[2:3], 4, 5)})
    parts = read_cifar(_file(tmp_path, content), reader)
    np.testing.assert_array_equal(parts["train"].x, COLOUR[:2])
    np.testing.assert_array_equal(parts["train"].y, [88, 88])
    np.testing.assert_array_equal(parts["test"].y, [5])


def test_damaged_cifar(tmp_path: Path) -> None:
    members = {"d/one.bin": _records(COLOUR, 1), "d/two.bin": _records(COLOUR, 1), "d/test.bin": _records(COLOUR, 1)}
    whole = raw_files.tar(members)
    for content in (whole[: len(whole) // 2], whole[:-60], b"", b"no tar"):
        with pytest.raises(DataError, match=r"raw: not an intact tar archive .*download it again"):
            read_cifar(_file(tmp_path, content), CIFAR)
    with pytest.raises(DataError, match=r"the archive has no d/test\.bin"):
        read_cifar(_file(tmp_path, raw_files.tar({k: v for k, v in members.items() if "test" not in k})), CIFAR)
    with pytest.raises(DataError, match=r"member 'd/two\.bin' has 18437 bytes, .* 3073 bytes of a record"):
        read_cifar(_file(tmp_path, raw_files.tar(members | {"d/two.bin": _records(COLOUR, 1)[:-1]})), CIFAR)


def test_no_name_in_a_tar_becomes_a_path_and_links_are_not_followed(tmp_path: Path) -> None:
    members: dict[str, bytes | str] = {"../outside": b"1", "/etc/outside": b"2", "link": "/etc/passwd"}
    path = _file(tmp_path, raw_files.tar(members))
    assert list(tar_files(path)) == [("../outside", b"1"), ("/etc/outside", b"2")]
    assert list(tmp_path.iterdir()) == [path]


def test_a_member_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 3)
    with pytest.raises(DataError, match="raw: member 'b' has 4 bytes"):
        list(tar_files(_file(tmp_path, raw_files.tar({"a": b"123", "b": b"1234"}))))


def test_png_rows(tmp_path: Path) -> None:
    images = COLOUR[:, :4, :4]
    rows = read_png_rows(_file(tmp_path, raw_files.picture(images.reshape(6, 16, 3))))
    assert rows.y is None
    np.testing.assert_array_equal(rows.x, images)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (raw_files.picture(COLOUR[0])[:-400], r"raw: not an intact PNG"),
        (b"", r"raw: not an intact PNG"),
        (raw_files.picture(COLOUR[0], "JPEG"), r"raw: not an intact PNG"),
        (raw_files.picture(COLOUR[0, :, :15]), r"raw: RGB \(32, 15, 3\); expected an RGB image with a square"),
        (raw_files.picture(GREY[0]), r"raw: L \(3, 4\)"),
    ],
    ids=raw_files.brief,
)
def test_damaged_png(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_png_rows(_file(tmp_path, content))


def _flat(level: int, size: int = 8) -> bytes:
    """A JPEG of one grey level, which compression keeps exactly."""
    return raw_files.picture(np.full((size, size, 3), level, np.uint8), "JPEG")


FOLDERS = {
    "top/test/b/0.jpg": _flat(40), "top/train/b/0000.jpg": _flat(10), "top/train/a/0001.jpg": _flat(20),
    "top/readme.md": b"words", "top/train/a/0000.jpg": _flat(30), "top/test/a/0.jpg": _flat(50),
}  # fmt: skip


def test_image_tar(tmp_path: Path) -> None:
    parts = read_image_tar(_file(tmp_path, raw_files.tar(FOLDERS, "w:xz")), ("a", "b"))
    for part, levels, counts in (("train", [30, 20, 10], [2, 1]), ("test", [50, 40], [1, 1])):
        x = parts[part].x
        assert x is not None
        assert x.shape == (len(levels), 8, 8, 3)
        np.testing.assert_array_equal(x, np.array(levels)[:, None, None, None] + np.zeros_like(x))
        np.testing.assert_array_equal(parts[part].counts, counts)
        assert parts[part].y is None


def test_content_of_an_image_tar_does_not_depend_on_the_packing(tmp_path: Path) -> None:
    first = images_hash(_file(tmp_path, raw_files.tar(FOLDERS, "w:xz")))
    other = {name.removeprefix("top/").replace("0000", "0"): FOLDERS[name] for name in reversed(FOLDERS)}
    assert images_hash(_file(tmp_path, raw_files.tar(other, "w:gz"))) == first
    changed = FOLDERS | {"top/test/a/0.jpg": _flat(51)}
    assert images_hash(_file(tmp_path, raw_files.tar(changed, "w:xz"))) != first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train/z/0.jpg": _flat(1)}, r"folder 'train/z': no such class in a, b"),
        ({"train/b/2.jpg": _flat(1)}, r"images of train/ are not numbered from 0 without gaps"),
        ({"train/b/1.jpg": _flat(1, 16)}, r"differ in size: \(8, 8, 3\), \(16, 16, 3\)"),
        ({"train/b/1.jpg": _flat(1)[:150]}, r"train/b/1: not an intact JPEG"),
        ({"train/b/1.jpg": b""}, r"train/b/1: not an intact JPEG"),
        ({"train/b/1.jpg": raw_files.picture(GREY[0], "JPEG")}, r"expected an RGB image, found L"),
    ],
    ids=raw_files.brief,
)
def test_damaged_image_tar(tmp_path: Path, change: dict[str, bytes], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_image_tar(_file(tmp_path, raw_files.tar(FOLDERS | change)), ("a", "b"))


def test_image_tar_without_test_images(tmp_path: Path) -> None:
    content = raw_files.tar({name: image for name, image in FOLDERS.items() if "test" not in name})
    with pytest.raises(DataError, match=r"images of test/ are not numbered"):
        read_image_tar(_file(tmp_path, content), ("a", "b"))


def test_labels(tmp_path: Path) -> None:
    values = np.array([3, 0, 200])
    hashes = set()
    for dtype in ("u1", "<i8", ">i4"):
        path = _file(tmp_path, raw_files.npy(values.astype(dtype)))
        assert read_labels(path).tolist() == [3, 0, 200]
        hashes.add(labels_hash(path))
    assert len(hashes) == 1
    assert labels_hash(_file(tmp_path, raw_files.npy(values + 1))) not in hashes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (raw_files.npy(np.arange(9))[:-3], "not an intact"),
        (b"", "not an intact"),
        (raw_files.npy(np.arange(9)) + b"\0", "bytes after the array"),
        (raw_files.npy(np.zeros(3)), r"found float64 \(3,\)"),
        (raw_files.npy(np.zeros((3, 1), int)), r"found int64 \(3, 1\)"),
        (raw_files.object_npy([[1], [2]]), "not an intact .*Object arrays cannot be loaded"),
    ],
    ids=raw_files.brief,
)
def test_damaged_labels(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_labels(_file(tmp_path, content))


def test_svhn(tmp_path: Path) -> None:
    x = np.ascontiguousarray(COLOUR.transpose(1, 2, 3, 0))
    rows = read_svhn(
        _file(tmp_path, raw_files.mat({"X": x, "y": np.array([[1], [10], [9], [10], [2], [5]], np.uint8)}))
    )
    np.testing.assert_array_equal(rows.x, COLOUR)
    np.testing.assert_array_equal(rows.y, [1, 0, 9, 0, 2, 5])


MAT = {"X": np.ascontiguousarray(COLOUR.transpose(1, 2, 3, 0)), "y": np.ones((6, 1), np.uint8)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (raw_files.mat(MAT)[:3000], "not an intact MATLAB file"),
        (raw_files.mat(MAT)[:60], "not an intact MATLAB file"),
        (b"", "not an intact MATLAB file"),
        (raw_files.mat({"X": MAT["X"]}), "no variable y"),
        (raw_files.mat(MAT | {"y": np.ones((5, 1))}), r"uint8 \(32, 32, 3, 6\) with 5 labels"),
        (raw_files.mat(MAT | {"X": MAT["X"] / 255}), r"X is float64"),
        (raw_files.mat(MAT | {"y": np.array([1, 2, 3, 0, 1, 1])}), r"row 3: label 0; expected 1 to 10"),
    ],
    ids=raw_files.brief,
)
def test_damaged_svhn(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_svhn(_file(tmp_path, content))
