"""Verifying that a file is the registered one."""

from pathlib import Path

import pooch

from bnn_atlas.config.data.datasets import Copy, FileEntry, ImageTarReader, KerasReader, LabelsReader, TableReader
from bnn_atlas.data import ChecksumError, DataError
from bnn_atlas.data.readers import images, keras_imdb
from bnn_atlas.data.readers.tabular import read_table, table_hash


def verify(path: str | Path, file: FileEntry, origin: str | None = None) -> Copy:
    """The registered copy that matches a local file, by its bytes or else by its content.

    `origin` is where the file came from, for the message. Raises ChecksumError that names the file, its origin, the
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
    """Hash of the numbers or packed items in a file."""
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
