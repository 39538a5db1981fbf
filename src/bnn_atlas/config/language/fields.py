"""Types of settings: numbers within the bounds that a run can have, and text in a certain form."""

from typing import Annotated

from pydantic import Field, StringConstraints

SMALLEST, LARGEST = 1e-18, 1e18
"""Bounds of a setting: its square, such as a variance, is a float32 number with full precision."""
MOST = 10**9
"""Bound of what is counted without a memory of its own, such as steps and epochs."""
MOST_CHAINS = 100_000
MOST_SPLITS = 1_000
MOST_JOBS = 10_000
"""Bound of the jobs that sample for one run: its splits times its blocks of chains."""
MOST_RUNS = 10_000
"""Bound of the runs that one grid gives."""
WIDEST = 100_000
"""Bound of the units in one layer."""


Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Positive = Annotated[float, Field(ge=SMALLEST, le=LARGEST)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST)]
Share = Annotated[float, Field(ge=0, lt=1)]
Fraction = Annotated[float, Field(gt=0, lt=1)]

Count = Annotated[int, Field(ge=1, le=MOST)]
CountOrNone = Annotated[int, Field(ge=0, le=MOST)]
"""A count that may be 0."""
Given = Annotated[Positive | None, Field(exclude_if=lambda value: value is None)]
GivenCount = Annotated[Count | None, Field(exclude_if=lambda value: value is None)]
"""Numbers that are part of the settings only where they are given."""
Chains = Annotated[int, Field(ge=1, le=MOST_CHAINS)]
Splits = Annotated[int, Field(ge=1, le=MOST_SPLITS)]
Width = Annotated[int, Field(ge=1, le=WIDEST)]
Depth = Annotated[int, Field(ge=1, le=1_000)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]

_DATASET = r"^[a-z][a-z0-9_]{0,99}$"
_FILE = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
_SHA256 = r"^[0-9a-f]{64}$"
_URL = r"^https?://[^\s]+$"
WANTED = {
    _DATASET: "a lower-case letter, then lower-case letters, digits and '_' are allowed, at most 100 in all",
    _FILE: "a file name of letters, digits, '.', '_' and '-' is wanted, without folders, of at most 200 characters",
    _SHA256: "the 64 digits (0-9, a-f) that `sha256sum` prints are wanted",
    _URL: "an address that begins with http:// or https:// and holds no blanks is wanted",
}
"""Form of a text as a regular expression -> the same for readers."""

DatasetName = Annotated[str, StringConstraints(pattern=_DATASET)]
FileName = Annotated[str, StringConstraints(pattern=_FILE)]
Sha256 = Annotated[str, StringConstraints(pattern=_SHA256)]
Url = Annotated[str, StringConstraints(pattern=_URL)]
