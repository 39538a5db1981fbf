"""Small raw files in the formats of the published ones, written by hand."""

import gzip
import io
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.io
from PIL import Image

from bnn_atlas.config.data.datasets import DatasetEntry
from tests.data.registered_files import sha256


def brief(value: Any) -> str | None:
    """Name of a test's parameter: none for bytes, which may hold the time and differ between processes."""
    return "bytes" if isinstance(value, bytes) else None


def idx(
    values: np.ndarray, magic: int | None = None, promised: Sequence[int] | None = None, rest: bytes = b""
) -> bytes:
    """An IDX file, gzipped; other magic numbers, sizes and trailing bytes on request."""
    sizes = values.shape if promised is None else promised
    header = struct.pack(">I", 0x0800 + values.ndim if magic is None else magic) + struct.pack(
        f">{len(sizes)}I", *sizes
    )
    return gzip.compress(header + values.tobytes() + rest, mtime=0)


def tar(members: Mapping[str, bytes | str], mode: Any = "w:gz") -> bytes:
    """An archive of files; a text instead of bytes makes a symbolic link to it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def picture(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def mat(arrays: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    scipy.io.savemat(out, dict(arrays), do_compression=True)
    return out.getvalue()


def npy(values: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, values)
    return out.getvalue()


def object_npy(
    items: Any, protocol: int = 3, shape: tuple[int, ...] | None = None, stream: bytes | None = None
) -> bytes:
    """A .npy of an object array as NumPy writes it, with any protocol, or with another stream in its place."""
    out = io.BytesIO()
    array = np.empty(len(items), dtype=object)
    array[:] = items
    header = {"descr": "|O", "fortran_order": False, "shape": array.shape if shape is None else shape}
    np.lib.format.write_array_header_1_0(out, header)
    out.write(pickle.dumps(array, protocol=protocol) if stream is None else stream)
    return out.getvalue()


def npz(members: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return out.getvalue()


def entry(files: Sequence[Mapping[str, Any]], contents: Sequence[bytes], **changes: Any) -> DatasetEntry:
    """An entry for files with these contents."""
    fields = {
        "task": "classification", "kind": "image", "target": "label", "classes": ["a", "b", "c"], "licence": "none",
        "files": [
            {"name": f"file{i}", "mirror": f"file{i}", "sha256": sha256(content)} | file
            for i, (file, content) in enumerate(zip(files, contents, strict=True))
        ],
    }  # fmt: skip
    return DatasetEntry.model_validate(fields | changes)
