"""Settings of untrained networks from which chains start."""

from typing import Literal, Self

from pydantic import model_validator

from bnn_atlas.config.base import Model
from bnn_atlas.config.fields import Given


class InitialConfig(Model):
    """How the networks are drawn from which chains start without training."""

    distribution: Literal["default", "normal"] = "default"
    """`default`: the layers' own initialisers; `normal`: every parameter from N(0, scale^2), biases included."""
    scale: Given = None
    """Standard deviation of `normal`."""

    @model_validator(mode="after")
    def _scale_of_normal(self) -> Self:
        if self.distribution == "normal" and self.scale is None:
            raise ValueError("initial.distribution 'normal' needs initial.scale, its standard deviation")
        if self.distribution != "normal" and self.scale is not None:
            raise ValueError(
                f"initial.scale ({self.scale:g}) is for initial.distribution 'normal', not '{self.distribution}': set "
                "distribution: normal, or leave scale out"
            )
        return self
