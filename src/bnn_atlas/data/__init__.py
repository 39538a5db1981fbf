"""Data sets: registered files, verified downloads, prepared arrays, splits."""


class DataError(ValueError):
    """Data are not as they should be; the message says what, where, and what to do."""


class ChecksumError(DataError):
    """A file is not the registered one."""


class DownloadError(DataError):
    """A file could not be downloaded from any of its sources."""
