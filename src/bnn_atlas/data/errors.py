"""What can be wrong with data."""

import zlib
from zipfile import BadZipFile

ZIP_DAMAGE = (BadZipFile, zlib.error, EOFError, KeyError, ValueError, RuntimeError, OSError)
"""What reading a damaged zip or .npz raises: a changed byte can also ask for a password (RuntimeError), a compression
that there is not (NotImplementedError, a RuntimeError) or a place before the file's beginning (OSError)."""


class DataError(ValueError):
    """Data are not what they should be; the message says what, where, and what to do."""


class ChecksumError(DataError):
    """A file is not the registered one."""


class DownloadError(DataError):
    """A file could not be had from any of its places."""
