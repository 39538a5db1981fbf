"""Settings of images that are changed at random in every mini-batch."""

from typing import Self

from pydantic import model_validator

from bnn_atlas.config.language.base import Model
from bnn_atlas.config.language.fields import CountOrNone


class AugmentationConfig(Model):
    """Images of a mini-batch are flipped and cropped at random, anew in every step; never those that are predicted.

    The chain or optimiser then follows gradients of E log p(y | g(x), theta) over the random changes g, which is the
    log-likelihood of no data set: the full-data log-likelihood in the trace is that of the unchanged rows.
    """

    flip: bool = True
    """Each image is flipped left to right with probability 1/2."""
    crop: CountOrNone = 4
    """Each image is moved by up to this many whole pixels along both axes, as if it were enlarged by them, with its
    outermost pixels continued, and cut to its old size at a random place; 0 leaves its place."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.flip and not self.crop:
            raise ValueError("flip: false and crop: 0 change nothing; leave the augmentation out")
        return self


def check_augmentation(augmentation: AugmentationConfig | None, batch_size: int | None) -> None:
    """Refuse an augmentation without mini-batches; ValueError."""
    if augmentation is not None and batch_size is None:
        raise ValueError("augmentation is for mini-batches: give batch_size, or leave it out")
