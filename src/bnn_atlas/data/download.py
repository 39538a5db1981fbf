"""Download registered files from cache, mirror or publisher: verified, retried, and written in one step."""

import logging
import lzma
import os
import re
import shutil
import sys
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NoReturn

import pooch
import requests
from tqdm import tqdm

from bnn_atlas.config.data.datasets import Copy, FileEntry, ImageTarReader, KerasReader, LabelsReader, TableReader
from bnn_atlas.data import ChecksumError, DataError, DownloadError
from bnn_atlas.data.readers import images, keras_imdb
from bnn_atlas.data.readers.tabular import read_table, table_hash
from bnn_atlas.files import atomic
from bnn_atlas.runtime import cache_folder

logger = logging.getLogger(__name__)

MIRROR = "BNN_ATLAS_MIRROR"
CACHE = "BNN_ATLAS_CACHE"
TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


class _Unavailable(Exception):
    """One place does not have the file; the next place may have it."""


def download(
    file: FileEntry,
    destination: str | Path,
    *,
    mirror: str | None = None,
    cache: str | Path | None = None,
    attempts: int = 4,
    wait: float = 1.0,
    timeout: float = 60.0,
) -> Path:
    """Put a verified copy of `file` at `destination` and return that path.

    Places are tried in this order: `destination` itself, the cache, the mirrors, the registered URLs. Every copy is
    verified first and then renamed into place, so no reader and no second download ever sees half a file.

    A local file (`path`) is copied and not kept in the cache.

    mirror: folders or base URLs that hold files under their registered mirror paths, separated by `os.pathsep` (a
        colon) and tried in this order; default: BNN_ATLAS_MIRROR.
    cache: folder shared between clones; default: BNN_ATLAS_CACHE, or else the user's cache folder.
    attempts, wait: after a transient failure (lost connection, time-out, cut transfer, HTTP 408, 425, 429, 500, 502,
        503, 504) there are up to `attempts` tries in all, after wait, 2 wait, 4 wait, ... seconds.
    timeout: seconds without a byte after which a connection counts as lost.

    Raises ChecksumError at once for an altered file, and DownloadError if no place has the file; the message says what
    happened at each place, and what to do.
    """
    target = Path(destination)
    if _is_verified(target, file):
        return target
    if file.path is not None:
        return _copied(file, Path(file.path).expanduser(), target)
    cached = cache_path(file, cache)
    if _is_verified(cached, file):
        logger.info("%s: from the cache (%s)", file.name, cached)
        with atomic(target) as temporary:
            shutil.copyfile(cached, temporary)
        return target
    failures = []
    for place, member in _places(file, mirror):
        try:
            with atomic(target) as temporary:
                _obtain(place, member, temporary, file.name, attempts, wait, timeout)
                verify(temporary, file, origin=place if member is None else f"{place} ({member})")
        except _Unavailable as failure:
            logger.warning("%s: %s: %s", file.name, place, failure)
            failures.append(f"{place}: {failure}")
            continue
        logger.info("%s: downloaded from %s", file.name, place)
        _keep(target, cached)
        return target
    if not failures:
        raise DownloadError(
            f"{file.name} has no public address of its own: set {MIRROR} to a folder or base URL that has "
            f"{', '.join(copy.mirror for copy in file.copies if copy.mirror)}, or put the file at {cached}"
        )
    raise DownloadError(
        f"{file.name} could not be downloaded:\n  " + "\n  ".join(failures) + "\nCheck the connection and try again, "
        f"set {MIRROR} to a folder or base URL that has the file, or put the file at {cached}"
    )


def cache_path(file: FileEntry, cache: str | Path | None = None) -> Path:
    """Path of a file in the cache; the name contains the checksum, so versions do not collide."""
    folder = cache or cache_folder()
    return Path(folder).expanduser() / f"{file.checksum[:16]}-{file.name}"


def _copied(file: FileEntry, source: Path, target: Path) -> Path:
    """Copy a local file to `target`; ChecksumError if it has changed since the plan."""
    if not source.is_file():
        raise DownloadError(f"{source}: no such file; put it there, or correct `path` in config/datasets.yaml")
    with atomic(target) as temporary:
        shutil.copyfile(source, temporary)
        try:
            verify(temporary, file)
        except ChecksumError:
            raise ChecksumError(f"{source} has changed since this run was planned; start Snakemake again") from None
    return target


def _is_verified(path: Path, file: FileEntry) -> bool:
    if not path.is_file():
        return False
    try:
        verify(path, file)
    except ChecksumError as error:
        logger.warning("replacing %s: %s", path, error)
        return False
    return True


def _keep(source: Path, cached: Path) -> None:
    """Copy a file into the cache; if the cache cannot be written, the file will be downloaded again next time."""
    try:
        with atomic(cached) as temporary:
            shutil.copyfile(source, temporary)
    except OSError as error:
        logger.warning(
            "%s not kept in the cache: %s; set %s to a folder that can be written", cached.name, error, CACHE
        )


def mirrors(text: str) -> list[str]:
    """Folders and base URLs in a list separated by `os.pathsep`; colons inside a URL do not separate."""
    return re.findall(rf"https?://[^/:]*(?::\d+)?[^{os.pathsep}]*|[^{os.pathsep}]+", text)


def _places(file: FileEntry, mirror: str | None) -> Iterator[tuple[str, str | None]]:
    """Every place to try, in order: path or URL, and the name of the member if the place is a zip."""
    for base in mirrors(mirror or os.environ.get(MIRROR) or ""):
        remote = base.startswith(("http://", "https://"))
        folder = Path(base).expanduser()
        if not remote and not folder.is_dir():
            raise DownloadError(f"the mirror '{base}' is neither a folder nor a URL; correct or unset {MIRROR}")
        for copy in file.copies:
            if copy.mirror is not None:
                yield f"{base.rstrip('/')}/{copy.mirror}" if remote else str(folder / copy.mirror), None
    for copy in file.copies:
        if copy.url is not None:
            yield copy.url, copy.member


def _obtain(place: str, member: str | None, out: Path, name: str, attempts: int, wait: float, timeout: float) -> None:
    """Write the file at `place`, or the member of the zip there, to `out`."""
    if not place.startswith(("http://", "https://")):
        if not Path(place).is_file():
            raise _Unavailable("no such file")
        shutil.copyfile(place, out)
    elif member is None:
        _transfer(place, out, name, attempts, wait, timeout)
    else:
        archive = out.with_name(f"{out.name}.zip")
        try:
            _transfer(place, archive, name, attempts, wait, timeout)
            _unpack(archive, member, out, place, name)
        finally:
            archive.unlink(missing_ok=True)


def _transfer(url: str, out: Path, name: str, attempts: int, wait: float, timeout: float) -> None:
    """HTTP download with retries; requests detects a cut transfer by its length."""
    for attempt in range(1, attempts + 1):
        progress = progress_display(name)
        try:
            pooch.HTTPDownloader(progressbar=progress, chunk_size=2**16, timeout=timeout)(url, str(out), None)
            return
        except requests.HTTPError as error:
            reason = str(error)
            if error.response is None or error.response.status_code not in TRANSIENT_STATUS:
                raise _Unavailable(reason) from error
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            reason = f"{type(error).__name__}: {error}"
        except requests.RequestException as error:
            raise _Unavailable(f"{type(error).__name__}: {error}") from error
        finally:
            progress.close()
        if attempt < attempts:
            pause = wait * 2 ** (attempt - 1)
            logger.warning("%s: %s; attempt %d of %d in %g s", url, reason, attempt + 1, attempts, pause)
            time.sleep(pause)
    raise _Unavailable(f"{reason} ({attempts} attempts)")


def _unpack(archive: Path, member: str, out: Path, url: str, name: str) -> None:
    """Write one member of a zip to `out`; no name inside the zip ever becomes a path on disk.

    A member that has moved to another folder of the zip is found by its file name if this name is unique. Raises
    DownloadError for a missing member, and ChecksumError for a damaged zip.
    """
    wanted = PurePosixPath(member)
    try:
        with zipfile.ZipFile(archive) as zipped:
            members = [info for info in zipped.infolist() if not info.is_dir()]
            found = [one for one in members if one.filename == member]
            found = found or [one for one in members if PurePosixPath(one.filename).name == wanted.name]
            if len(found) != 1:
                names = ", ".join(one.filename for one in members)
                raise DownloadError(
                    f"{name}: the zip at {url} has {len(found)} members that match '{member}'; it holds "
                    f"{names}. Correct `member` in config/datasets.yaml or use a mirror ({MIRROR})"
                )
            with zipped.open(found[0]) as source, out.open("wb") as handle:
                shutil.copyfileobj(source, handle)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError) as error:
        raise ChecksumError(
            f"{name}: what {url} sent is not an intact zip ({archive.stat().st_size} bytes, {error}): it is truncated, "
            f"altered, or an error page. Open the URL in a browser, try again later, or use a mirror ({MIRROR})"
        ) from error


class LogProgress:
    """Log the progress of a transfer, at most once per `interval` seconds; a progress display for pooch."""

    def __init__(self, name: str, interval: float = 5.0) -> None:
        self.total: float | None = None
        self._name = name
        self._interval = interval
        self._done = 0
        self._last = time.monotonic()

    def update(self, n: int) -> None:
        """Count `n` more bytes."""
        self._done += n
        if time.monotonic() - self._last >= self._interval:
            self._last = time.monotonic()
            of = f" of {self.total / 1e6:.1f}" if self.total else ""
            logger.info("%s: %.1f%s MB", self._name, self._done / 1e6, of)

    def reset(self) -> None:
        """Start counting again."""
        self._done = 0

    def close(self) -> None:
        """Do nothing; pooch calls this at the end of a transfer."""


def progress_display(name: str) -> "LogProgress | tqdm[NoReturn]":
    """A progress bar if standard error is a terminal, otherwise log lines."""
    if sys.stderr.isatty():
        # pooch uses the display's truth value, which tqdm has only with a total; pooch then sets the real one.
        return tqdm(desc=name, unit="B", unit_scale=True, leave=False, total=1)
    return LogProgress(name)


def verify(path: str | Path, file: FileEntry, origin: str | None = None) -> Copy:
    """The registered copy that matches a local file, by its bytes or else by its content.

    `origin` is where the file came from, for the message. Raises a ChecksumError that names the file, its origin, the
    expected and the found hashes, and what to do.
    """
    found = f"sha256 {pooch.file_hash(str(path), alg='sha256')}"
    for copy in file.copies:
        if copy.sha256 is not None and found == f"sha256 {copy.sha256}":
            return copy
    for copy in file.copies:
        for key, wanted in (("table_sha256", copy.table_sha256), ("content_sha256", copy.content_sha256)):
            if wanted is None:
                continue
            try:
                hashed = _content(Path(path), copy)
            except DataError as error:
                found += f"; its {'table' if copy.table_sha256 else 'content'} cannot be read: {error}"
                continue
            if hashed == wanted:
                return copy
            found += f"; {key} {hashed}"
    keys = ("sha256", "table_sha256", "content_sha256")
    hashes = [(key, getattr(copy, key)) for copy in file.copies for key in keys]
    expected = " or ".join(dict.fromkeys(f"{key} {value}" for key, value in hashes if value is not None))
    size = Path(path).stat().st_size
    raise ChecksumError(
        f"{file.name} from {origin or path} is not the registered file: it is truncated or altered ({size} bytes). "
        f"Expected {expected}; found {found}. Delete that copy and download again; if the publisher has changed the "
        "file on purpose, compare both and update config/datasets.yaml"
    )


def _content(path: Path, copy: Copy) -> str:
    """Hash of the numbers in a file, or of the items packed in it."""
    if isinstance(copy.read, TableReader):
        return table_hash(read_table(path, copy.read))
    match copy.read:
        case ImageTarReader():
            return images.images_hash(path)
        case LabelsReader():
            return images.labels_hash(path)
        case KerasReader():
            return keras_imdb.content_hash(keras_imdb.read(path, copy.read.format))
    raise DataError(f"{path}: the format '{copy.read.format}' has no content hash")
