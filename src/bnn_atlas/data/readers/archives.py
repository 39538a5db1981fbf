"""Members of a tar, read in memory; no name inside an archive ever becomes a path on disk."""

import gzip
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from bnn_atlas.data.errors import DataError

LARGEST = 4 * 2**30
"""Bytes of the largest member that is unpacked."""


def tar_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each regular file, in the archive's order; compression is recognised.

    Raises DataError for an archive that is truncated or not a tar, and for members that `refuse_foreign` refuses.
    """
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                refuse_foreign(path, member)
                if member.isfile():
                    source = archive.extractfile(member)
                    assert source is not None
                    yield member.name, source.read()
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{path}: not an intact tar archive ({reason}): it is truncated or altered; download it again"
        ) from error


def refuse_foreign(path: str | Path, member: tarfile.TarInfo) -> None:
    """Raise DataError for a member with a path outside the archive's folder, a link, or one above LARGEST."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or "\\" in member.name:
        reason = "a path outside the archive's folder"
    elif not (member.isfile() or member.isdir()):
        reason = f"a link to '{member.linkname}'" if member.issym() or member.islnk() else "neither file nor folder"
    elif member.size > LARGEST:
        reason = f"one that would unpack to {member.size:,} bytes"
    else:
        return
    raise DataError(f"{path}: member '{member.name}' is {reason}; delete this archive and download it again")
