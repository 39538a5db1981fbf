"""Data sets: registered files, verified downloads, prepared arrays, splits."""


class DataError(ValueError):
    """Data are not valid; the message says what is wrong, where, and what to do."""


class ChecksumError(DataError):
    """A file is not the registered one."""


class DownloadError(DataError):
    """A file could not be downloaded from any of its sources."""
