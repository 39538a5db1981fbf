"""Zips from elsewhere: what no data set has in one, told from the list of members before a byte is unpacked."""

import zipfile

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
