"""The registry of data sets: where each file comes from, how it is verified, and how it is read."""

import difflib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, PositiveInt, RootModel, StringConstraints, model_validator

from bnn_atlas.config.base import ConfigError, Model, read_yaml, validated


def _inside(path: str) -> str:
    """Refuse a path that leaves the folder or archive it is looked up in."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or "\\" in path or ".." in parts:
        raise ValueError("a relative path with '/' between its parts and without '..' is allowed")
    return path


DatasetName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
RelativePath = Annotated[str, AfterValidator(_inside)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")]


class TableReader(Model):
    """What all readers of tables share: the columns of the file, in its order, under the names used here."""

    columns: Annotated[tuple[str, ...], Field(min_length=2)]
    """One name per column of the file."""
    drop: tuple[str, ...] = ()
    """Columns that are not used; their cells are not looked at."""
    text: tuple[str, ...] = ()
    """Columns that hold words instead of numbers."""

    @model_validator(mode="after")
    def _columns_exist(self) -> Self:
        twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if twice:
            raise ValueError(f"columns names {', '.join(twice)} twice")
        for key, names in (("drop", self.drop), ("text", self.text)):
            unknown = [name for name in names if name not in self.columns]
            if unknown:
                raise ValueError(f"{key} names {', '.join(unknown)}; the columns are {', '.join(self.columns)}")
        return self

    @property
    def kept(self) -> tuple[str, ...]:
        """Columns that are used, in the file's order."""
        return tuple(name for name in self.columns if name not in self.drop)


class WhitespaceReader(TableReader):
    """Numbers separated by blanks or tabs, no header, blank lines ignored."""

    format: Literal["whitespace"]


class CsvReader(TableReader):
    """Separated text; blanks after a separator, quotes and blank lines are ignored."""

    format: Literal["csv"]
    separator: Annotated[str, StringConstraints(min_length=1, max_length=1)] = ","
    header: bool
    """The first row holds column names, which are skipped."""
    comment: str | None = None
    """Lines that start with this are skipped."""
    missing: str | None = None
    """A cell that says that the value is not known; its row is left out."""
    strip_end: dict[str, str] = Field(default_factory=dict)
    """Text column -> characters taken off the end of its cells."""

    @model_validator(mode="after")
    def _text_columns_only(self) -> Self:
        wrong = [name for name in self.strip_end if name not in self.text]
        if wrong:
            raise ValueError(f"strip_end names {', '.join(wrong)}; allowed are the text columns {', '.join(self.text)}")
        return self


class WorkbookReader(TableReader):
    """One sheet of an Excel workbook; its first row holds column names; empty rows and columns are ignored."""

    format: Literal["xls", "xlsx"]
    sheet: str | None = None
    """Name of the sheet; null takes the first one."""


Reader = Annotated[WhitespaceReader | CsvReader | WorkbookReader, Field(discriminator="format")]


class Copy(Model):
    """One place from which a file can be had, what proves that it is the right one, and how it is read.

    A file is accepted if its bytes have the SHA-256 `sha256`, or if the numbers in it have the hash `table_sha256`
    (`bnn_atlas.data.tables.table_hash`), which line ends and re-saving do not change. One of the two is enough.
    """

    url: Url
    member: RelativePath | None = None
    """Path inside the zip at `url`; null where `url` is the file itself."""
    mirror: RelativePath | None = None
    """Path of the file itself below a mirror's root."""
    sha256: Sha256 | None = None
    table_sha256: Sha256 | None = None
    read: Reader

    @model_validator(mode="after")
    def _verifiable(self) -> Self:
        if self.sha256 is None and self.table_sha256 is None:
            raise ValueError("sha256 or table_sha256 is needed, so that the file can be verified")
        if self.table_sha256 is not None and set(self.read.text) & set(self.read.kept):
            raise ValueError("table_sha256 is for tables of numbers; give sha256 where text columns are used")
        return self

    @property
    def checksum(self) -> str:
        """The hash that names this copy."""
        return self.sha256 or self.table_sha256 or ""


class FileEntry(Copy):
    """A raw file under the name it has here, with further copies that hold the same table."""

    name: FileName
    alternatives: tuple[Copy, ...] = ()

    @property
    def copies(self) -> tuple[Copy, ...]:
        """All places, in the order in which they are tried."""
        return (self, *self.alternatives)


class DatasetEntry(Model):
    """One data set: what is predicted, from which files, and what shape the prepared table must have."""

    task: Literal["regression", "classification"]
    target: str
    classes: tuple[str, ...] = ()
    """Classification: the labels in the file; the label's place in this list is its number."""
    files: tuple[FileEntry, ...] = ()
    """Files whose rows are joined in this order."""
    bundled: Literal["diabetes", "digits"] | None = None
    """A data set that comes with scikit-learn, instead of files."""
    rows: PositiveInt
    """Rows of the prepared table."""
    inputs: PositiveInt
    """Input columns of the prepared table, text columns counted one-hot."""
    licence: str
    note: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if bool(self.files) == (self.bundled is not None):
            raise ValueError("give either files or bundled")
        if (self.task == "classification") != (len(self.classes) >= 2):
            raise ValueError("classes: a classification needs at least two, a regression none")
        names = [file.name for file in self.files]
        if len(set(names)) != len(names):
            raise ValueError(f"files: two have the same name; names are {', '.join(names)}")
        readers = [copy.read for file in self.files for copy in file.copies]
        if len({(frozenset(r.kept), frozenset(r.text) & frozenset(r.kept)) for r in readers}) > 1:
            raise ValueError("files: all files and alternatives must have the same used columns, and text in the same")
        if readers and self.target not in readers[0].kept:
            raise ValueError(f"target '{self.target}' is not a used column; those are {', '.join(readers[0].kept)}")
        if readers and (self.target in readers[0].text) != (self.task == "classification"):
            must = "must" if self.task == "classification" else "must not"
            raise ValueError(f"target '{self.target}' of a {self.task} {must} be listed under read.text")
        return self

    def file(self, name: str) -> FileEntry:
        """The file with this name; ConfigError lists the names there are."""
        for file in self.files:
            if file.name == name:
                return file
        known = ", ".join(file.name for file in self.files) or f"no files, it is bundled ('{self.bundled}')"
        raise ConfigError(f"no file '{name}' in this data set; it has {known}")


class Registry(RootModel[dict[DatasetName, DatasetEntry]]):
    """config/datasets.yaml: name -> data set."""

    model_config = ConfigDict(frozen=True)


def load_registry(path: str | Path) -> dict[str, DatasetEntry]:
    """Read config/datasets.yaml.

    Raises ConfigError that names the file, the key, the value and what is allowed, one line per problem.
    """
    return dict(validated(Registry, read_yaml(Path(path)), str(path)).root)


def dataset_entry(registry: Mapping[str, DatasetEntry], name: str) -> DatasetEntry:
    """The data set with this name; ConfigError suggests close names and lists all."""
    if name not in registry:
        close = difflib.get_close_matches(name, registry, n=1)
        hint = f" (did you mean '{close[0]}'?)" if close else ""
        raise ConfigError(f"no data set '{name}'{hint}; config/datasets.yaml has {', '.join(sorted(registry))}")
    return registry[name]
