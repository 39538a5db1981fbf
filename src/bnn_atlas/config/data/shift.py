"""Shifts of image sets by the names that runs use, such as `rotated30` or `gaussian_noise3`."""

import re
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from bnn_atlas.config.language.base import ConfigError

ROTATION = "rotated"
CORRUPTIONS = (
    "gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "blur", "defocus_blur", "zoom_blur", "fog",
    "brightness", "contrast", "saturate", "jpeg_compression", "pixelate",
)  # fmt: skip
OF_COLOURS = ("saturate",)
"""Corruptions that need images with three channels."""
OF_SPLIT = ("dead_pixels", "live_pixels")
"""Noise in the dead pixels (constant over all rows that the likelihood sees), or in all other pixels."""
PUBLISHED_SHIFTS = "cifar10c"
"""The data set of published corruptions, and the prefix of their names."""
PUBLISHED_CORRUPTIONS = (
    "brightness", "contrast", "defocus_blur", "elastic_transform", "fog", "frost", "gaussian_blur", "gaussian_noise",
    "glass_blur", "impulse_noise", "jpeg_compression", "motion_blur", "pixelate", "saturate", "shot_noise", "snow",
    "spatter", "speckle_noise", "zoom_blur",
)  # fmt: skip
SEVERITIES = 5
ALLOWED = (
    f"allowed are {ROTATION}<whole degrees from 0 to 359>, such as {ROTATION}30, and "
    f"{', '.join((*CORRUPTIONS, *OF_SPLIT))} followed by a severity from 1 to {SEVERITIES}, such as blur3; for "
    f"CIFAR-10 also {PUBLISHED_SHIFTS}_ before one of {', '.join(PUBLISHED_CORRUPTIONS)} and a severity, such as "
    f"{PUBLISHED_SHIFTS}_fog3"
)
NAME = re.compile(r"((?:cifar10c_)?[a-z_]+)(0|[1-9][0-9]*)")


class Shift(NamedTuple):
    """The change made to every image of a set, and its strength."""

    kind: str
    """`rotated`, one of CORRUPTIONS or of OF_SPLIT, or `cifar10c_` and one of PUBLISHED_CORRUPTIONS."""
    level: int
    """Degrees counter-clockwise for a rotation, a severity from 1 to 5 for a corruption."""

    @property
    def name(self) -> str:
        """The name that `parse_shift` reads; it can be used as a file name."""
        return f"{self.kind}{self.level}"

    @property
    def published(self) -> str | None:
        """The corruption of CIFAR-10-C; None for a shift that is computed here."""
        prefix = f"{PUBLISHED_SHIFTS}_"
        return self.kind.removeprefix(prefix) if self.kind.startswith(prefix) else None


def parse_shift(name: str) -> Shift:
    """The shift with this name; ConfigError lists the allowed names."""
    match = NAME.fullmatch(name) if isinstance(name, str) else None
    kind, level = (match[1], int(match[2])) if match else ("", 0)
    shift = Shift(kind, level)
    corrupted = kind in (*CORRUPTIONS, *OF_SPLIT) or shift.published in PUBLISHED_CORRUPTIONS
    if (kind == ROTATION and level < 360) or (corrupted and 1 <= level <= SEVERITIES):
        return shift
    raise ConfigError(f"there is no shift {name!r}; {ALLOWED}")


def _read(value: object) -> Shift:
    """A validated shift from a name (in a file) or a `Shift` (in code)."""
    return parse_shift(value.name if isinstance(value, Shift) else value)  # type: ignore[arg-type]


ShiftSetting = Annotated[
    Shift,
    BeforeValidator(_read),
    PlainSerializer(lambda shift: shift.name, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^({ROTATION}|{'|'.join((*CORRUPTIONS, *OF_SPLIT))}|{PUBLISHED_SHIFTS}_[a-z_]+)[0-9]+$",
        }
    ),
]
"""A field of a configuration model that is written as a name and read as a Shift."""
