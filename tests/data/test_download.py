"""Downloads from a server that sends good, cut, altered, late and missing files."""

import io
import logging
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.data import ChecksumError, DownloadError
from bnn_atlas.data.download import LogProgress, cache_path, download, mirrors, verify
from bnn_atlas.data.readers.tabular import read_table, table_hash
from bnn_atlas.runtime import cache_folder
from tests.data.registered_files import CSV, Reply, Server, file_entry, sha256

ALTERED = CSV.replace(b"5.5", b"5.6")


def _zip(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _download(*args: Any, **kwargs: Any) -> Path:
    return download(*args, **{"wait": 0.0, **kwargs})


def test_good_file(server: Server, tmp_path: Path) -> None:
    file = file_entry(url=server.serve("/table.csv", Reply(CSV)))
    target = tmp_path / "new" / "folder" / "table.csv"
    assert _download(file, target) == target
    assert target.read_bytes() == CSV
    assert _files(target.parent) == ["table.csv"]


def test_second_download_needs_no_server(server: Server, tmp_path: Path) -> None:
    file = file_entry(url=server.serve("/table.csv", Reply(CSV)))
    _download(file, tmp_path / "one" / "table.csv")
    _download(file, tmp_path / "one" / "table.csv")
    _download(file, tmp_path / "two" / "table.csv")
    assert server.requests == ["/table.csv"]
    assert (tmp_path / "two" / "table.csv").read_bytes() == CSV
    assert cache_path(file).read_bytes() == CSV
    assert cache_path(file).parent == tmp_path / "cache"


def test_altered_cache_and_destination_are_replaced(server: Server, tmp_path: Path) -> None:
    file = file_entry(url=server.serve("/table.csv", Reply(CSV)))
    target = tmp_path / "table.csv"
    cache_path(file).parent.mkdir()
    for path in (target, cache_path(file)):
        path.write_bytes(ALTERED)
    _download(file, target)
    assert target.read_bytes() == CSV
    assert cache_path(file).read_bytes() == CSV


def test_cache_is_the_folder_that_everything_shares(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_path(file_entry()).parent == tmp_path / "cache"
    monkeypatch.delenv("BNN_ATLAS_CACHE")
    assert cache_path(file_entry()).parent == cache_folder()


def test_cache_argument_wins_and_may_be_unusable(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = file_entry(url=server.serve("/table.csv", Reply(CSV)))
    (tmp_path / "file").write_text("not a folder")
    _download(file, tmp_path / "table.csv", cache=tmp_path / "file")
    assert (tmp_path / "table.csv").read_bytes() == CSV
    assert "not kept in the cache" in caplog.text
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_passing_failure_is_tried_again(server: Server, tmp_path: Path, status: int) -> None:
    file = file_entry(url=server.serve("/t", Reply(b"busy", status), Reply(b"busy", status), Reply(CSV)))
    _download(file, tmp_path / "table.csv")
    assert len(server.requests) == 3


def test_waits_grow(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    file = file_entry(url=server.serve("/t", *[Reply(b"busy", 503)] * 3, Reply(CSV)))
    download(file, tmp_path / "table.csv", wait=2.0)
    assert pauses == [2.0, 4.0, 8.0]


def test_lasting_failure_names_place_and_remedy(server: Server, tmp_path: Path) -> None:
    file = file_entry(url=server.serve("/t", Reply(b"busy", 503)))
    with pytest.raises(DownloadError) as caught:
        _download(file, tmp_path / "table.csv", attempts=3)
    assert len(server.requests) == 3
    for part in ("table.csv", file.url, "503", "3 attempts", "BNN_ATLAS_MIRROR", str(cache_path(file))):
        assert part in str(caught.value)
    assert _files(tmp_path) == []


def test_missing_file_is_not_tried_again(server: Server, tmp_path: Path) -> None:
    file = file_entry(url=server.url + "/gone")
    with pytest.raises(DownloadError, match="404"):
        _download(file, tmp_path / "table.csv")
    assert server.requests == ["/gone"]


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="ConnectionError"):
        _download(file_entry(), tmp_path / "table.csv", attempts=2)


def test_cut_transfer_is_tried_again(server: Server, tmp_path: Path) -> None:
    file = file_entry(url=server.serve("/t", Reply(CSV[:10], length=len(CSV)), Reply(CSV)))
    _download(file, tmp_path / "table.csv")
    assert len(server.requests) == 2
    assert (tmp_path / "table.csv").read_bytes() == CSV


def test_transfer_that_is_always_cut_leaves_nothing(server: Server, tmp_path: Path) -> None:
    file = file_entry(url=server.serve("/t", Reply(CSV[:10], length=len(CSV))))
    with pytest.raises(DownloadError, match="IncompleteRead"):
        _download(file, tmp_path / "table.csv", attempts=2)
    assert _files(tmp_path) == []


@pytest.mark.parametrize("sent", [ALTERED, CSV[:-5], b"<html>Sorry</html>", b""])
def test_altered_or_truncated_file_is_refused_by_name_and_keeps_what_was_there(
    server: Server, tmp_path: Path, sent: bytes
) -> None:
    file = file_entry(url=server.serve("/t", Reply(sent)))
    target = tmp_path / "table.csv"
    target.write_bytes(b"old")
    with pytest.raises(ChecksumError) as caught:
        _download(file, target)
    for part in ("table.csv", file.url, sha256(CSV), sha256(sent), f"{len(sent)} bytes", "Delete"):
        assert part in str(caught.value)
    assert server.requests == ["/t"]
    assert _files(tmp_path) == ["table.csv"]
    assert target.read_bytes() == b"old"


def test_mirror_folder_comes_first(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = file_entry(url=server.serve("/t", Reply(CSV)))
    mirror = tmp_path / "mirror"
    (mirror / "some").mkdir(parents=True)
    (mirror / "some" / "table.csv").write_bytes(CSV)
    _download(file, tmp_path / "a" / "table.csv", mirror=str(mirror), cache=tmp_path / "cache1")
    monkeypatch.setenv("BNN_ATLAS_MIRROR", str(mirror))
    _download(file, tmp_path / "b" / "table.csv", cache=tmp_path / "cache2")
    assert server.requests == []
    assert (tmp_path / "b" / "table.csv").read_bytes() == CSV


def test_mirror_url_comes_first(server: Server, tmp_path: Path) -> None:
    server.serve("/base/some/table.csv", Reply(b"", 503), Reply(CSV))
    file = file_entry(url=server.url + "/t")
    _download(file, tmp_path / "table.csv", mirror=server.url + "/base/")
    assert server.requests == ["/base/some/table.csv"] * 2


def test_altered_mirror_is_refused_by_name(server: Server, tmp_path: Path) -> None:
    file = file_entry(url=server.serve("/t", Reply(CSV)))
    altered = tmp_path / "mirror" / "some" / "table.csv"
    altered.parent.mkdir(parents=True)
    altered.write_bytes(ALTERED)
    with pytest.raises(ChecksumError) as caught:
        _download(file, tmp_path / "a" / "table.csv", mirror=str(tmp_path / "mirror"))
    assert str(altered) in str(caught.value)
    assert server.requests == []


def test_mirror_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="'nowhere' is neither a folder nor a URL"):
        _download(file_entry(), tmp_path / "table.csv", mirror="nowhere")


@pytest.mark.parametrize("name", ["Folder/table.csv", "../up/table.csv"])
def test_zip_member_is_found_in_any_folder(server: Server, tmp_path: Path, name: str) -> None:
    archive = _zip(**{name: CSV, "Folder/Readme.txt": b"read me", "../../outside.txt": b"evil"})
    file = file_entry(url=server.serve("/t.zip", Reply(archive)), member="Folder/table.csv")
    _download(file, tmp_path / "raw" / "table.csv")
    assert (tmp_path / "raw" / "table.csv").read_bytes() == CSV
    assert _files(tmp_path) == sorted([f"cache/{cache_path(file).name}", "raw/table.csv"])


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"other.csv": CSV}, "has 0 members that match 'table.csv'; it holds other.csv"),
        ({"a/table.csv": CSV, "b/table.csv": CSV}, "has 2 members that match"),
    ],
)
def test_zip_without_the_member(server: Server, tmp_path: Path, members: dict[str, bytes], message: str) -> None:
    file = file_entry(url=server.serve("/t.zip", Reply(_zip(**members))), member="table.csv")
    with pytest.raises(DownloadError, match=message):
        _download(file, tmp_path / "table.csv")
    assert _files(tmp_path) == []


def test_zip_with_an_altered_member(server: Server, tmp_path: Path) -> None:
    file = file_entry(url=server.serve("/t.zip", Reply(_zip(**{"table.csv": ALTERED}))), member="table.csv")
    with pytest.raises(ChecksumError, match=r"t\.zip \(table\.csv\)"):
        _download(file, tmp_path / "table.csv")


def _marked(flags: int = 0, method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip of the table whose headers say that it is encrypted or packed in another way."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("table.csv", CSV)
    marked = bytearray(content.getvalue())
    for signature, start in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = marked.index(signature) + start
        marked[place : place + 4] = struct.pack("<HH", flags, method)
    return bytes(marked)


def test_no_zip_or_a_damaged_one(server: Server, tmp_path: Path) -> None:
    archive = _zip(**{"table.csv": CSV})
    place = archive.index(b"table.csv") + 15
    damaged = archive[:place] + bytes(b ^ 0xFF for b in archive[place : place + 8]) + archive[place + 8 :]
    for content in (b"<html>Sorry</html>", archive[: len(archive) // 2], damaged, _marked(flags=1), _marked(method=99)):
        file = file_entry(url=server.serve("/t.zip", Reply(content)), member="table.csv")
        with pytest.raises(ChecksumError, match=r"table\.csv: what .*t\.zip sent is not an intact zip"):
            _download(file, tmp_path / "table.csv")
    assert _files(tmp_path) == []


def test_resaved_table_is_accepted_by_its_numbers(server: Server, tmp_path: Path) -> None:
    resaved = CSV.replace(b"\r\n", b"\n").replace(b"9e-3", b"0.0090")
    (tmp_path / "whole.csv").write_bytes(CSV)
    numbers = table_hash(read_table(tmp_path / "whole.csv", file_entry().read))
    both = {"sha256": sha256(CSV), "table_sha256": numbers}
    for hashes in (both, {**both, "sha256": None}):
        file = file_entry(url=server.serve("/t", Reply(resaved)), **hashes)
        _download(file, tmp_path / "raw" / "table.csv", cache=tmp_path / "cache")
        assert (tmp_path / "raw" / "table.csv").read_bytes() == resaved
    file = file_entry(url=server.serve("/t", Reply(ALTERED)), **both)
    with pytest.raises(ChecksumError) as caught:
        _download(file, tmp_path / "altered.csv", cache=tmp_path / "other")
    (tmp_path / "seen.csv").write_bytes(ALTERED)
    for found in (numbers, table_hash(read_table(tmp_path / "seen.csv", file.read)), sha256(CSV), sha256(ALTERED)):
        assert found in str(caught.value)
    file = file_entry(url=server.serve("/t", Reply(b"<html>\n")), **both)
    with pytest.raises(ChecksumError, match=r"its table cannot be read: .* row 1 has 1 cells"):
        _download(file, tmp_path / "altered.csv", cache=tmp_path / "other")


def test_alternatives_are_tried_in_order_and_told_apart(server: Server, tmp_path: Path) -> None:
    other = b"3 1 2\n6 4 5.5\n0.009 -7 8\n"
    reader = {"format": "whitespace", "columns": ["y", "a", "b"]}
    file = file_entry(
        url=server.url + "/gone",
        alternatives=[{"url": server.serve("/other", Reply(other)), "sha256": sha256(other), "read": reader}],
    )
    _download(file, tmp_path / "table.csv")
    assert server.requests == ["/gone", "/other"]
    assert verify(tmp_path / "table.csv", file) == file.alternatives[0]
    (tmp_path / "first.csv").write_bytes(CSV)
    assert verify(tmp_path / "first.csv", file).read == file.read


def test_two_processes_at_once(server: Server, tmp_path: Path) -> None:
    body = b"a,b,y\n" + b"1,2,3\n" * 50_000
    file = file_entry(body, url=server.serve("/t", Reply(body, together=2)))
    program = (
        "import sys\nfrom bnn_atlas.config.data.datasets import FileEntry\n"
        "from bnn_atlas.data.download import download\n"
        "download(FileEntry.model_validate_json(sys.argv[1]), sys.argv[2])"
    )
    target = tmp_path / "raw" / "table.csv"
    command = [sys.executable, "-c", program, file.model_dump_json(), str(target)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    assert len(server.requests) == 2
    assert target.read_bytes() == body
    assert _files(tmp_path) == sorted([f"cache/{cache_path(file).name}", "raw/table.csv"])


def test_progress_without_a_terminal(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    file = file_entry(url=server.serve("/table.csv", Reply(CSV)))
    _download(file, tmp_path / "table.csv")
    assert f"table.csv: downloaded from {file.url}" in caplog.text
    assert capsys.readouterr().err == ""
    progress = LogProgress("big.csv", interval=0.0)
    progress.total = 4e6
    progress.update(1_000_000)
    assert "big.csv: 1.0 of 4.0 MB" in caplog.text


def test_progress_on_a_terminal(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    file = file_entry(url=server.serve("/table.csv", Reply(CSV)))
    _download(file, tmp_path / "table.csv")
    assert "table.csv" in capsys.readouterr().err


def test_mirrors_are_tried_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    (second / "some").mkdir(parents=True)
    (second / "some" / "table.csv").write_bytes(CSV)
    monkeypatch.setenv("BNN_ATLAS_MIRROR", f"{first}{os.pathsep}{second}")
    target = _download(file_entry(url=None), tmp_path / "table.csv", cache=tmp_path / "cache")
    assert target.read_bytes() == CSV


def test_colons_of_urls_separate_nothing() -> None:
    places = ["/data/a", "https://host:8080/x", "http://other/y", "~/b"]
    assert mirrors(os.pathsep.join(places)) == places
