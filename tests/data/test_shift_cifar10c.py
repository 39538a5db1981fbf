"""The reader of CIFAR-10-C, on a small tar of the same form."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.config.data.shift import PUBLISHED_CORRUPTIONS
from bnn_atlas.data.errors import DataError
from bnn_atlas.data.readers.cifar10c import read_cifar10c

ROWS, SIDE = 6, 4
RNG = np.random.default_rng(0)
IMAGES = {name: RNG.integers(256, size=(5 * ROWS, SIDE, SIDE, 3), dtype=np.uint8) for name in ("fog", "zoom_blur")}
LABELS = np.tile(RNG.integers(10, size=ROWS), 5)

Members = dict[str, bytes]


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _write(path: Path, members: Members, kind: str = "w") -> Path:
    with tarfile.open(path, kind) as tar:  # type: ignore[call-overload]
        folder = tarfile.TarInfo("CIFAR-10-C")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def _members() -> Members:
    return {
        "CIFAR-10-C/fog.npy": _npy(IMAGES["fog"]),
        "CIFAR-10-C/labels.npy": _npy(LABELS),
        "CIFAR-10-C/zoom_blur.npy": _npy(IMAGES["zoom_blur"]),
    }


def _read(path: Path, corruption: str = "fog", severity: int = 2) -> tuple[np.ndarray, np.ndarray]:
    return read_cifar10c(path, corruption, severity, rows=ROWS, side=SIDE)


@pytest.mark.parametrize("severity", [1, 2, 5])
@pytest.mark.parametrize("corruption", ["fog", "zoom_blur"])
def test_severities_are_blocks_in_order(tmp_path: Path, corruption: str, severity: int) -> None:
    images, labels = _read(_write(tmp_path / "c.tar", _members()), corruption, severity)
    np.testing.assert_array_equal(images, IMAGES[corruption][(severity - 1) * ROWS : severity * ROWS])
    np.testing.assert_array_equal(labels, LABELS[:ROWS])
    assert images.dtype == np.uint8
    assert labels.dtype == np.int64


def test_only_the_block_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(tmp_path / "c.tar", _members())
    read, original = [], tarfile.ExFileObject.read
    monkeypatch.setattr(
        tarfile.ExFileObject, "read", lambda self, size=-1: read.append(size) or original(self, size), raising=True
    )
    _read(path, "zoom_blur", 4)
    assert max(read) == ROWS * SIDE * SIDE * 3
    assert list(tmp_path.iterdir()) == [path]


def test_there_are_nineteen_corruptions() -> None:
    assert len(set(PUBLISHED_CORRUPTIONS)) == 19


@pytest.mark.parametrize(("corruption", "severity"), [("blur", 1), ("labels", 1), ("fog", 0), ("fog", 6)])
def test_unknown_corruptions_and_severities_list_what_there_is(tmp_path: Path, corruption: str, severity: int) -> None:
    with pytest.raises(DataError, match=rf"no '{corruption}' of severity {severity}; it has brightness.* 1 to 5"):
        _read(tmp_path / "c.tar", corruption, severity)


def _without(name: str) -> Callable[[Members], None]:
    return lambda members: members.__delitem__(f"CIFAR-10-C/{name}.npy")


def _with(name: str, content: bytes) -> Callable[[Members], None]:
    return lambda members: members.__setitem__(name if "/" in name else f"CIFAR-10-C/{name}.npy", content)


LOST = _npy(IMAGES["fog"])[:-1]
OTHER = LABELS.copy()
OTHER[-1] = (OTHER[-1] + 1) % 10


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_without("fog"), r"no member CIFAR-10-C/fog\.npy; the tar holds labels, zoom_blur"),
        (_without("labels"), r"no member CIFAR-10-C/labels\.npy"),
        (_with("fog", LOST), r"fog\.npy has 1439 bytes for uint8 of shape \[30, .*truncated"),
        (_with("fog", b"not an array"), r"fog\.npy is not an \.npy array"),
        (_with("fog", b""), r"fog\.npy is not an \.npy array"),
        (_with("fog", _npy(IMAGES["fog"][:-ROWS])), r"uint8 of shape \[24, 4, 4, 3\]; expected uint8 of \[30"),
        (_with("fog", _npy(IMAGES["fog"].astype(np.float32))), r"fog\.npy holds float32"),
        (_with("fog", _npy(np.asfortranarray(IMAGES["fog"]))), r"fog\.npy .* in Fortran order"),
        (_with("labels", _npy(LABELS[:-1])), r"labels\.npy holds int64 of shape \[29\]"),
        (_with("labels", _npy(LABELS.astype(float))), r"labels\.npy holds float64"),
        (_with("labels", _npy(LABELS + 5)), r"labels from \d+ to 1\d; expected 0 to 9"),
        (_with("labels", _npy(LABELS - 10)), r"labels from -\d+ to -\d"),
        (_with("labels", _npy(OTHER)), "differ between severities"),
        (_with("../escape.npy", b"x"), r"member '\.\./escape\.npy' is a path outside the archive"),
        (_with("CIFAR-10-C/../../escape.npy", b"x"), "is a path outside the archive"),
        (_with("/etc/escape.npy", b"x"), "is a path outside the archive"),
        (_with("CIFAR-100-C/fog.npy", b"x"), "is outside the folder"),
    ],
)  # fmt: skip
def test_damage_is_named(tmp_path: Path, damage: Callable[[Members], None], message: str) -> None:
    members = _members()
    damage(members)
    path = _write(tmp_path / "c.tar", members)
    with pytest.raises(DataError, match=message) as caught:
        _read(path)
    assert str(path) in str(caught.value)
    assert list(tmp_path.iterdir()) == [path]


def test_labels_may_have_any_whole_type(tmp_path: Path) -> None:
    members = _members() | {"CIFAR-10-C/labels.npy": _npy(LABELS.astype(np.uint8))}
    np.testing.assert_array_equal(_read(_write(tmp_path / "c.tar", members))[1], LABELS[:ROWS])


def test_a_member_that_is_a_link_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.tar"
    with tarfile.open(path, "w") as tar:
        link = tarfile.TarInfo("CIFAR-10-C/fog.npy")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    with pytest.raises(DataError, match=r"member 'CIFAR-10-C/fog\.npy' is a link to '/etc/hostname'"):
        _read(path)


def test_a_truncated_tar_is_said_to_be_truncated(tmp_path: Path) -> None:
    """Wherever it ends: inside the images wanted, later ones, or a header."""
    whole = _write(tmp_path / "c.tar", _members()).read_bytes()
    path = tmp_path / "part.tar"
    starts = [whole.index(name) for name in (b"CIFAR-10-C/fog", b"CIFAR-10-C/labels", b"CIFAR-10-C/zoom")]
    for end in (0, 100, starts[0] + 300, starts[0] + 900, starts[1] + 600, starts[1] + 20, starts[2] + 900):
        path.write_bytes(whole[:end])
        with pytest.raises(DataError, match=r"part\.tar: (not an intact tar .*truncated|no member)"):
            _read(path)


def test_what_is_no_tar_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.tar"
    with pytest.raises(DataError, match="no such file"):
        _read(path)
    path.write_bytes(b"<html>not found</html>" * 100)
    with pytest.raises(DataError, match="not an intact tar"):
        _read(path)
    _write(path, _members(), "w:gz")
    with pytest.raises(DataError, match="not an intact tar"):
        _read(path)
