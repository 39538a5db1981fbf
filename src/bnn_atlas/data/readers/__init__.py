"""Reading raw files of images, sequences and labels, one format per module."""

from collections.abc import Sequence
from pathlib import Path
from typing import assert_never

from bnn_atlas.config.datasets import (
    CifarReader,
    IdxReader,
    ImageTarReader,
    KerasReader,
    LabelsReader,
    PngRowsReader,
    Reader,
    SvhnReader,
)
from bnn_atlas.data.errors import DataError
from bnn_atlas.data.readers import cifar, idx, image_tar, keras_imdb, labels, png_rows, svhn
from bnn_atlas.data.readers.rows import Rows


def read_images(path: Path, reader: Reader, classes: Sequence[str]) -> dict[str, Rows]:
    """Rows of an image or label file: part -> rows, or "" -> rows where the file does not say the part.

    Raises DataError that names the file and the place in it.
    """
    match reader:
        case IdxReader():
            return {"": idx.read(path)}
        case CifarReader():
            return cifar.read(path, reader)
        case PngRowsReader():
            return {"": png_rows.read(path)}
        case ImageTarReader():
            return image_tar.read(path, classes)
        case LabelsReader():
            return {"": Rows(y=labels.read(path)[: reader.first])}
        case SvhnReader():
            return {"": svhn.read(path)}
        case _:
            raise DataError(f"{path}: the format '{reader.format}' gives no images")


def content_hash(path: Path, reader: ImageTarReader | LabelsReader | KerasReader) -> str:
    """SHA-256 of what a file holds, independent of how the file is packed."""
    match reader:
        case ImageTarReader():
            return image_tar.content_hash(path)
        case LabelsReader():
            return labels.content_hash(path)
        case KerasReader():
            return keras_imdb.content_hash(keras_imdb.read(path, reader.format))
        case _:
            assert_never(reader)
