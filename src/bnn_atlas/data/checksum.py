"""Telling whether a file is the registered one."""

from pathlib import Path

import pooch

from bnn_atlas.config.datasets import Copy, FileEntry
from bnn_atlas.data.errors import ChecksumError, DataError
from bnn_atlas.data.tables import read_table, table_hash


def verify(path: str | Path, file: FileEntry, origin: str | None = None) -> Copy:
    """The registered copy that a local file is, told by its bytes or else by its numbers.

    `origin` is where the file came from, for the message. Raises ChecksumError that names the file, the origin,
    what was expected and what was found, and what to do.
    """
    found = f"sha256 {pooch.file_hash(str(path), alg='sha256')}"
    for copy in file.copies:
        if copy.sha256 is not None and found == f"sha256 {copy.sha256}":
            return copy
    for copy in file.copies:
        if copy.table_sha256 is None:
            continue
        try:
            hashed = table_hash(read_table(path, copy.read))
        except DataError as error:
            found += f"; its table cannot be read: {error}"
            continue
        if hashed == copy.table_sha256:
            return copy
        found += f"; table_sha256 {hashed}"
    hashes = [(key, getattr(copy, key)) for copy in file.copies for key in ("sha256", "table_sha256")]
    expected = " or ".join(dict.fromkeys(f"{key} {value}" for key, value in hashes if value is not None))
    size = Path(path).stat().st_size
    raise ChecksumError(
        f"{file.name} from {origin or path} is not the registered file: it is truncated or altered ({size} bytes). "
        f"Expected {expected}; found {found}. Delete that copy and download again; if the publisher has changed the "
        "file on purpose, compare both and update config/datasets.yaml"
    )
