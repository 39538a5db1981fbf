"""Archives from elsewhere: what no data set has in one, and members of a tar, read in memory.

What is odd is told from the list of members before a byte is unpacked, and no name inside an archive ever becomes a
path on disk.
"""

import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from bnn_atlas.data.errors import DataError

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
LARGEST = 4 * 2**30
"""Bytes of the largest member."""
SUSPICIOUS, TIMES = 50 * 2**20, 200
"""A member of at least as many bytes that was packed to less than its TIMES-th part is made to fill disks: tables of
numbers shrink to a tenth or so."""


def refuse_odd(member: zipfile.ZipInfo, where: str) -> None:
    """Raise DataError for a member that needs a password, is packed in an unknown way, or unpacks to too much.

    `where` names the archive. Reading never goes beyond the size that is checked here, which is the one in the list.
    """
    size = member.file_size
    if member.flag_bits & 1:
        reason = "is encrypted"
    elif member.compress_type not in METHODS:
        reason = f"is packed in an unknown way (method {member.compress_type})"
    elif size > LARGEST or (size >= SUSPICIOUS and size > TIMES * member.compress_size):
        reason = f"would unpack from {member.compress_size:,} to {size:,} bytes, far more than a data set of this size"
    else:
        return
    raise DataError(
        f"{where}: the member '{member.filename}' {reason}; do not use this archive, get the file elsewhere"
    )


def tar_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each regular file, in the archive's order; compression is recognised.

    Raises DataError for an archive that is truncated or not a tar, and for a member that `refuse_foreign` names.
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
    """Raise DataError for a member that no data set has: a path outside the archive's folder, a link, a bomb."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or "\\" in member.name:
        reason = "a path outside the archive's folder"
    elif not (member.isfile() or member.isdir()):
        reason = f"a link to '{member.linkname}'" if member.issym() or member.islnk() else "neither file nor folder"
    elif member.size > LARGEST:
        reason = f"one that would unpack to {member.size:,} bytes"
    else:
        return
    raise DataError(f"{path}: member '{member.name}' is {reason}; do not use this archive, download it again")
