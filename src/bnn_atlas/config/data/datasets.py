"""The registry of data sets: the source of each file, and how the file is verified and read."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, RootModel, StringConstraints, model_validator

from bnn_atlas.config.data.cells import Missing, Numbers, Skip, Written
from bnn_atlas.config.data.own_data import OwnTable, with_own_data
from bnn_atlas.config.data.synthetic import BNNHMCGenerator, GeneratorConfig, NetworkGenerator, SinusoidsGenerator
from bnn_atlas.config.language.base import (
    ConfigError,
    Count,
    CountOrNone,
    DatasetName,
    FileName,
    Given,
    Model,
    Number,
    Positive,
    Sha256,
    Url,
    validated,
)
from bnn_atlas.config.language.reading import Lines, read_yaml, with_lines


def _inside(path: str) -> str:
    """Reject a path that leaves the folder or archive in which it is looked up."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or "\\" in path or ".." in parts:
        raise ValueError("must be a relative path with '/' between its parts and without '..'")
    return path


def _row_shape(value: Any) -> Any:
    """A row's shape: one positive number, or a list of them."""
    sizes = value if isinstance(value, list | tuple) else [value]
    if not sizes or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in sizes):
        raise ValueError("must be a positive integer (tables), or a list of them such as [28, 28, 1]")
    return tuple(sizes) if isinstance(value, list | tuple) else value


RelativePath = Annotated[str, AfterValidator(_inside)]
RowShape = Annotated[int | tuple[int, ...], BeforeValidator(_row_shape)]
Part = Literal["train", "test"]
Kind = Literal["table", "image", "tokens", "predictions", "corruptions"]


class TableReader(Model):
    """Settings common to all readers of tables: the columns in file order, under the names used here."""

    columns: Annotated[tuple[str, ...], Field(min_length=2)]
    """One name per column of the file."""
    drop: tuple[str, ...] = ()
    """Columns that are not used; their cells are not checked."""
    text: tuple[str, ...] = ()
    """Columns that hold words instead of numbers."""

    def _contradictions(self) -> Iterator[str]:
        repeated = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if repeated:
            yield f"columns names {', '.join(repeated)} twice"
        for key, names in (("drop", self.drop), ("text", self.text)):
            unknown = [name for name in names if name not in self.columns]
            if unknown:
                yield f"{key} names {', '.join(unknown)}; the columns are {', '.join(self.columns)}"

    @property
    def kept(self) -> tuple[str, ...]:
        """Columns that are used, in the file's order."""
        return tuple(name for name in self.columns if name not in self.drop)


def _unnamed(header: bool | tuple[str, ...] | None, columns: tuple[str, ...]) -> Iterator[str]:
    """An error message if a header list does not have one name per column."""
    if isinstance(header, tuple) and len(header) != len(columns):
        yield f"header lists {len(header)} columns, but columns lists {len(columns)}; both need one name per column"


class WhitespaceReader(TableReader):
    """Numbers separated by blanks or tabs, no header, blank lines ignored."""

    format: Literal["whitespace"]


class CsvReader(Written, TableReader):
    """Separated text, gzipped or not; blanks after a separator, quotes and blank lines are ignored."""

    format: Literal["csv"]
    separator: Annotated[str, StringConstraints(min_length=1, max_length=1)] = ","
    """Separator between the cells; a blank means any run of blanks and tabs."""
    header: bool | Annotated[tuple[str, ...], Field(min_length=1)]
    """Whether the first row holds column names, which must match `columns` apart from case, blanks and punctuation; if
    the names in the file differ, give a list of these names."""
    comment: str | None = None
    """Lines that start with this are skipped."""
    missing: Missing = None
    """Marker of missing values, or a list of markers; rows with such a cell are left out. In numeric columns, markers
    are compared as numbers: -200 also matches -200.0."""
    strip_end: dict[str, str] = Field(default_factory=dict)
    """Text column -> characters to remove from the end of its cells."""

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        yield from _unnamed(self.header, self.columns)
        unsuitable = [name for name in self.strip_end if name not in self.text]
        if unsuitable:
            yield f"strip_end names {', '.join(unsuitable)}; allowed are the text columns {', '.join(self.text)}"


class WorkbookReader(Numbers, TableReader):
    """One sheet of an Excel workbook, with a row of column names above the data; empty rows and columns are ignored."""

    format: Literal["xls", "xlsx"]
    sheet: str | None = None
    """Name of the sheet; null takes the first one."""
    header: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """The column names in the sheet, if they differ from `columns` in more than case, blanks and punctuation."""
    skip: Skip = 0
    """Number of rows to skip at the top of the sheet, such as a title. A list of two numbers also gives the number of
    rows to skip below the column names, such as a row of units: [0, 1]."""
    missing: Annotated[Missing, Field(exclude_if=lambda value: value is None)] = None
    """Marker of missing values, or a list of markers; rows with such a cell are left out."""

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        yield from _unnamed(self.header, self.columns)


class IdxReader(Model):
    """MNIST's format, gzipped: uint8 images [n, height, width] or labels [n], told apart by the magic number."""

    format: Literal["idx"]


class CifarReader(Model):
    """CIFAR's binary version, a tar of records: label bytes, then 32 x 32 pixels of red, of green and of blue."""

    format: Literal["cifar_binary"]
    train: Annotated[tuple[RelativePath, ...], Field(min_length=1)]
    """Members with the training images, in order."""
    test: Annotated[tuple[RelativePath, ...], Field(min_length=1)]
    """Members with the test images, in order."""
    labels: Annotated[int, Field(ge=1, le=2)] = 1
    """Label bytes of a record; the last one is used (CIFAR-100: coarse, fine)."""


class PngRowsReader(Model):
    """One RGB image in which every row of pixels holds a whole picture, row after row; no labels."""

    format: Literal["png_rows"]


class ImageTarReader(Model):
    """Tar of <train or test>/<class>/<number>.jpg, in any folder; the number is an image's rank within its class.

    Labels must come from separate files, which also give the order in which the classes are interleaved.
    """

    format: Literal["image_tar"]


class LabelsReader(Model):
    """Labels [n] of any integer type as .npy."""

    format: Literal["npy_labels"]
    first: Count | None = None
    """Use only this many labels, from the start of the file; null uses all."""


class SvhnReader(Model):
    """SVHN's MATLAB file: X [32, 32, 3, n] uint8 and y [n, 1] from 1 to 10, where 10 is the digit 0."""

    format: Literal["svhn_mat"]


class KerasReader(Model):
    """Sequences of word numbers as in `keras.datasets.imdb`, turned into rows of tokens by Keras' conventions.

    `keras_npz` is the published imdb.npz (lists in object arrays), `tokens_npz` has flat arrays `{train,test}_tokens`,
    `_offsets` and `_labels`. Rows have the length given by `inputs`, and token ids are below `vocabulary`.
    """

    format: Literal["keras_npz", "tokens_npz"]
    seed: CountOrNone = 113
    """Seed of the one RandomState that shuffles the training rows, then the test rows."""
    start: CountOrNone = 1
    """Token before a review."""
    unknown: CountOrNone = 2
    """Token for a word beyond the vocabulary."""
    offset: CountOrNone = 3
    """Added to the file's word numbers."""


class ProbabilitiesReader(Model):
    """One row of probabilities per line, separated by blanks."""

    format: Literal["probabilities"]


class CorruptionsReader(Model):
    """CIFAR-10-C's tar, one array of images for each corruption (`bnn_atlas.data.evaluation_sets`)."""

    format: Literal["cifar10c"]


Tables = WhitespaceReader | CsvReader | WorkbookReader
Images = IdxReader | CifarReader | PngRowsReader | ImageTarReader | LabelsReader | SvhnReader
Reader = Annotated[
    Tables | Images | KerasReader | ProbabilitiesReader | CorruptionsReader, Field(discriminator="format")
]

KINDS: dict[str, tuple[type[Model], ...]] = {
    "table": (TableReader,),
    "image": (IdxReader, CifarReader, PngRowsReader, ImageTarReader, LabelsReader, SvhnReader),
    "tokens": (KerasReader,),
    "predictions": (ProbabilitiesReader,),
    "corruptions": (CorruptionsReader,),
}
"""Kind of data set -> readers of its files."""
BOTH_PARTS = (CifarReader, ImageTarReader, KerasReader)
"""Readers of files that hold training and test rows."""
CONTENT = (ImageTarReader, LabelsReader, KerasReader)
"""Readers of files that may be packed in several ways, and are therefore identified by a hash of their content."""


class Copy(Model):
    """One source of a file, its checksum, and how it is read.

    A file is accepted if its bytes have the SHA-256 `sha256`, or if the numbers in it have the hash `table_sha256`
    (`bnn_atlas.data.readers.tabular.table_hash`), which does not change with line endings or when the table is saved
    again. Images and sequences that are packed in several ways have `content_sha256` instead (hashes in
    `bnn_atlas.data.readers`). One of these hashes is enough.
    """

    url: Url | None = None
    """Address of the file, or of the zip that contains it; null if it is only on a mirror."""
    member: RelativePath | None = None
    """Path inside the zip at `url`; null if `url` is the file itself."""
    mirror: RelativePath | None = None
    """Path of the file itself below a mirror's root."""
    path: str | None = None
    """A file on this machine, relative to the repository, in place of `url` and `mirror`; if `sha256` is left out, it
    is computed at every start."""
    sha256: Sha256 | None = None
    """SHA-256 of the file's bytes."""
    table_sha256: Sha256 | None = None
    """SHA-256 of the numbers in the file."""
    content_sha256: Sha256 | None = None
    """SHA-256 of the images, labels or sequences in the file."""
    read: Reader
    """Format of the file and its columns."""

    def _contradictions(self) -> Iterator[str]:
        if self.path is not None and (self.url or self.mirror):
            yield "path is for a file on this machine: leave url and mirror out"
        if self.path is None and self.url is None and self.mirror is None:
            yield "url or mirror is needed to get the file; or path, for a file on this machine"
        if not self.checksum:
            yield "sha256 or table_sha256 or content_sha256 is needed, so that the file can be verified"
        text = not isinstance(self.read, TableReader) or set(self.read.text) & set(self.read.kept)
        if self.table_sha256 is not None and text:
            yield "table_sha256 is for tables of numbers; give sha256 if text columns are used"
        if self.content_sha256 is not None and not isinstance(self.read, CONTENT):
            yield f"content_sha256 is not for the format '{self.read.format}'; give sha256"

    @property
    def checksum(self) -> str:
        """The hash that identifies this copy."""
        return self.sha256 or self.table_sha256 or self.content_sha256 or ""


class FileEntry(Copy):
    """A raw file under its name in this project, with alternative copies of the same content."""

    name: FileName
    """Name of the file in this project."""
    part: Part | None = None
    """Part (training or test rows) that an image file holds; null for tables and for files that hold both parts."""
    alternatives: tuple[Copy, ...] = ()
    """Further sources of the file, each with the keys of a file except `name`, `part` and `alternatives`."""

    @property
    def copies(self) -> tuple[Copy, ...]:
        """All sources of the file, in the order in which they are tried."""
        return (self, *self.alternatives)


class PublishedScaling(Model):
    """Constants with which a paper scaled images: (pixel / 255 - mean) / scale, one of each per channel."""

    mean: Annotated[tuple[Number, ...], Field(min_length=1)]
    """Subtracted from pixel / 255, one per channel."""
    scale: Annotated[tuple[Positive, ...], Field(min_length=1)]
    """Divides the difference, one per channel."""


class DatasetEntry(Model):
    """One data set: its target, its files, and the shape of the prepared array."""

    title: str | None = None
    """Name in figures; null takes the data set's name, with underscores replaced by spaces."""
    task: Literal["regression", "classification"]
    """What is predicted: a number or a class."""
    kind: Kind = "table"
    """Type of a row."""
    target: str
    """The column that is predicted."""
    classes: tuple[str, ...] = ()
    """Classification: the labels in the file, in the order in which classes are numbered."""
    files: tuple[FileEntry, ...] = ()
    """Files whose rows are joined in this order, training rows before test rows."""
    bundled: Literal["diabetes", "digits"] | None = None
    """A data set that comes with scikit-learn, in place of files."""
    generate: GeneratorConfig | None = None
    """Generator of a synthetic table with one input, in place of files."""
    rows: Count
    """Rows of the prepared array."""
    inputs: RowShape
    """A row's shape: input columns of a table (text columns counted one-hot), [height, width, channels] of an image,
    [length] of a sequence, number of classes of predictions."""
    published_train: CountOrNone | None = None
    """Number of the publisher's training rows, which come first; the others are the publisher's test rows. Null if
    there is no published split."""
    published_scaling: PublishedScaling | None = None
    """Constants with which a paper scaled images."""
    pixel_divisor: Given = None
    """For images that only serve as an out-of-distribution set: pixels are divided by this number before they are
    scaled, to reproduce a published loader that divides by 255 once too often; null does not divide."""
    vocabulary: CountOrNone = 0
    """Sequences: number of token ids."""
    of: DatasetName | None = None
    """Predictions and corruptions: the data set to whose published test rows they belong."""
    order: Literal["file", "tfds"] | None = None
    """Predictions: their order in the file (`bnn_atlas.data.orders`)."""
    training_rows: Count | None = None
    """Predictions: number of training rows that their posterior is conditioned on; runs with a different number are not
    compared with them. Null if unknown: every comparison then states the run's rows and prior."""
    licence: str
    """Licence and authors of the data, for readers."""
    note: str = ""
    """Remark for readers."""
    dependent_rows: str | None = None
    """Why rows are not independent, such as `hours of the same days`; tables, captions and claims mention it. Null if
    they are independent, as far as is known."""

    def _contradictions(self) -> Iterator[str]:
        if [bool(self.files), self.bundled is not None, self.generate is not None].count(True) != 1:
            yield "give either files or bundled or generate"
        if (self.task == "classification") != (len(self.classes) >= 2):
            yield "classes: a classification needs at least two, a regression none"
        names = [file.name for file in self.files]
        if len(set(names)) != len(names):
            yield f"files: two files have the same name; the names are {', '.join(names)}"
        yield from self._wrong_columns([copy.read for file in self.files for copy in file.copies])
        yield from self._wrong_rows()
        yield from self._wrong_parts()
        yield from self._wrong_generator()

    @property
    def recipe(self) -> dict[str, Any]:
        """The parts of the entry that jobs need, as plain values: everything except descriptions."""
        recipe = self.model_copy(update={"title": None, "licence": "", "note": ""}).model_dump(
            mode="json", exclude={"dependent_rows", "training_rows"}
        )
        for file in recipe["files"]:
            for copy in (file, *file["alternatives"]):
                if copy["path"] is None:
                    del copy["path"]
        return recipe

    @property
    def own_checksums(self) -> dict[str, str]:
        """Name -> checksum of each file that exists only on this machine."""
        return {file.name: file.checksum for file in self.files if file.path is not None}

    def _wrong_columns(self, readers: list[Any]) -> Iterator[str]:
        """Error messages unless readers suit the kind, and table readers agree with each other and with the target."""
        unsuitable = [reader.format for reader in readers if not isinstance(reader, KINDS[self.kind])]
        if unsuitable:
            yield f"files: the format '{unsuitable[0]}' does not contain data of the kind '{self.kind}'"
        if self.kind != "table" or not readers:
            return
        if len({(frozenset(r.kept), frozenset(r.text) & frozenset(r.kept)) for r in readers}) > 1:
            yield "files: all files and alternatives must use the same columns, and have text in the same ones"
        if self.target not in readers[0].kept:
            yield f"target '{self.target}' is not a column in use; these are {', '.join(readers[0].kept)}"
        if (self.target in readers[0].text) != (self.task == "classification"):
            must = "must" if self.task == "classification" else "must not"
            yield f"target '{self.target}' of a {self.task} {must} be listed under read.text"

    def _wrong_rows(self) -> Iterator[str]:
        """Error messages unless the shape of a row and the related fields suit the kind."""
        sizes = {"table": 0, "image": 3, "tokens": 1, "predictions": 0, "corruptions": 3}[self.kind]
        if sizes != (len(self.inputs) if isinstance(self.inputs, tuple) else 0):
            form = {0: "one number", 1: "[length]", 3: "[height, width, channels]"}[sizes]
            yield f"inputs: the kind '{self.kind}' needs {form}"
        if self.kind != "table" and self.task != "classification":
            yield f"task: the kind '{self.kind}' is for classification"
        if (self.kind == "tokens") != (self.vocabulary > 0):
            yield "vocabulary: sequences need the number of token ids; leave it out for other kinds"
        constants = self.published_scaling
        if constants and (self.kind != "image" or {len(constants.mean), len(constants.scale)} != {self.shape[-1]}):
            yield "published_scaling: images need one mean and one scale per channel; leave it out for other kinds"
        if self.pixel_divisor is not None and (self.kind != "image" or self.published_train != 0):
            yield "pixel_divisor: only for images without training rows (published_train: 0)"
        if (self.kind in ("predictions", "corruptions")) != (self.of is not None):
            yield "of: predictions and corruptions need the name of their data set; leave it out for other kinds"
        if (self.kind == "predictions") != (self.order is not None):
            yield "order: predictions need it; leave it out for other kinds"
        if self.training_rows is not None and self.kind != "predictions":
            yield "training_rows: only for predictions; give published_train for a data set"
        if self.kind == "predictions" and self.inputs != len(self.classes):
            yield f"inputs: predictions for {len(self.classes)} classes need {len(self.classes)}"
        if self.published_train is not None and self.published_train > self.rows:
            yield f"published_train: of {self.rows} rows, at most {self.rows} can be training rows"

    def _wrong_parts(self) -> Iterator[str]:
        """Error messages unless files of images and sequences state their part, and there is a published split."""
        if self.kind not in ("image", "tokens") or not self.files:
            if any(file.part is not None for file in self.files):
                yield f"files: part is not for the kind '{self.kind}'"
            return
        if self.published_train is None:
            yield "published_train: files of training and test rows need it (0 without training rows)"
        for file in self.files:
            if (file.part is None) != isinstance(file.read, BOTH_PARTS):
                has = "holds both parts: leave part out" if file.part else "needs part: train or test"
                yield f"files: {file.name} ({file.read.format}) {has}"

    def _wrong_generator(self) -> Iterator[str]:
        """Error messages about synthetic data: a regression on one input, and only some have a published split."""
        if self.generate is None:
            return
        if (self.task, self.kind, self.inputs) != ("regression", "table", 1):
            yield "generate: needs task 'regression', kind 'table' and inputs 1"
        if isinstance(self.generate, SinusoidsGenerator):
            train, test = sum(self.generate.train), sum(self.generate.test)
            if (self.rows, self.published_train) != (train + test, train):
                yield f"generate: these intervals give rows {train + test} and published_train {train}"
            return
        clusters = isinstance(self.generate, NetworkGenerator)
        if clusters and (self.published_train is None or not 0 < self.published_train < self.rows):
            yield f"generate: clusters need published_train from 1 to {self.rows - 1}; test rows follow"
        if isinstance(self.generate, BNNHMCGenerator) and (self.published_train or 0) % len(self.generate.intervals):
            intervals = len(self.generate.intervals)
            yield (
                f"published_train: {self.published_train} training rows cannot be spread evenly over {intervals} "
                f"intervals; use a multiple of {intervals}"
            )
        if not clusters and self.published_train is not None:
            yield f"published_train: the kind '{self.generate.kind}' has no published split"

    @property
    def shape(self) -> tuple[int, ...]:
        """A row's shape."""
        return self.inputs if isinstance(self.inputs, tuple) else (self.inputs,)

    @property
    def published_test(self) -> int:
        """Number of the publisher's test rows; 0 where there is no published split."""
        return 0 if self.published_train is None else self.rows - self.published_train

    def file(self, name: str) -> FileEntry:
        """The file with this name; if there is none, ConfigError lists all names."""
        for file in self.files:
            if file.name == name:
                return file
        instead = f"bundled ('{self.bundled}')" if self.bundled else "generated"
        names = ", ".join(file.name for file in self.files) or f"no files, it is {instead}"
        raise ConfigError(f"no file '{name}' in this data set; it has {names}")


class Registry(RootModel[dict[DatasetName, DatasetEntry]]):
    """config/datasets.yaml: name -> data set."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="after")
    def _predictions_of_registered_sets(self) -> Self:
        for name, entry in self.root.items():
            if entry.of is None:
                continue
            of = self.root.get(entry.of)
            if of is None or of.published_test != entry.rows or of.classes != entry.classes:
                raise ValueError(
                    f"{name}.of = '{entry.of}': a data set with the same classes and {entry.rows} published test rows "
                    "is needed"
                )
        return self


class RegistryFile(RootModel[dict[DatasetName, DatasetEntry | OwnTable]]):
    """config/datasets.yaml as written: name -> data set, or your own table."""


def load_registry(path: str | Path) -> dict[str, DatasetEntry]:
    """Read config/datasets.yaml; your own tables (`bnn_atlas.config.data.own_data`) become full entries.

    Raises ConfigError with the file, the key, the value and the allowed values, one line per problem.
    """
    file = Path(path)
    with with_lines(file):
        written = with_own_data(read_yaml(file), str(path), file.parent.parent)
    return dict(validated(Registry, written, str(path), Lines(file)).root)
