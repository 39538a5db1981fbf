"""Settings of generators: networks that turn noise into the weights of a network."""

from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, model_validator

from bnn_atlas.config.language.base import ByKind, Model
from bnn_atlas.config.language.fields import Count, Positive, Width

Shape = tuple[Width, Width]
"""Rows and columns of a matrix."""

Published = Literal["cifar100_gen_arch", "cifar_gen_architecture"]
"""Files of the published code of the paper's two residual networks, and of the folder `architectures`."""


class _LastLayer(Model):
    """What a generator's last layer starts from."""

    last_bias: Literal["random", "warm_start"] = "random"
    """Where the last bias starts, about which the generated weights lie: at random as published, or where the chain
    starts (its warm start), which makes a Bayesian network of a deterministic one."""
    spread: Positive = 1.0
    """Factor on the last layer's weights at the start; less than 1 keeps the first weights near the last bias."""


class _LastMatrix(_LastLayer):
    """The last layer of generators that end in matrices."""

    bias_rank: Count | None = None
    """Rank of the last bias B, which then is a product of two narrow matrices; null for a full matrix, of as many
    numbers as there are weights."""

    @model_validator(mode="after")
    def _one_kind_of_bias(self) -> Self:
        if self.bias_rank is not None and self.last_bias == "warm_start":
            raise ValueError(
                "bias_rank and last_bias: warm_start exclude each other, since a bias of low rank cannot be any given "
                "weights: leave one of them out"
            )
        return self


class MLPGenerator(_LastLayer):
    """A dense network with elu between its layers and as many outputs as weights are generated.

    One of 60 noise numbers and 105 hidden units for 105 weights has 17,535 parameters. Its last matrix has hidden units
    x weights entries: for networks of up to some thousand weights.
    """

    kind: Literal["mlp"] = "mlp"
    noise: Width
    """Independent standard normal numbers that it takes."""
    hidden: tuple[Width, ...]
    """Widths of its hidden layers; of none, weights are a linear map of the noise: a normal with a full covariance."""


class MatrixGenerator(_LastMatrix):
    """A network of matrices: a layer maps X to (A X + C) W + B, with elu between layers.

    The last matrix is cut into the weights row by row.
    With noise 40 x 40, three hidden layers of 420 x 420 and the output 957 x 500 it has 3,130,380 parameters, for the
    478,410 weights of a 784-400-400-10 network.
    """

    kind: Literal["matrix"] = "matrix"
    noise: Shape
    """Rows and columns of its standard normal noise."""
    hidden: Annotated[tuple[Shape, ...], Field(min_length=1)]
    """Rows and columns of its hidden layers."""
    output: Shape | None = None
    """Rows and columns of its last matrix, with at least as many entries as weights are generated; entries beyond their
    number do not exist. Null takes the nearest to a square."""


class Part(Model):
    """One of the generators that a correlated one ends in."""

    input: Shape
    """Rows and columns of what it takes of the trunk."""
    hidden: Annotated[tuple[Shape, ...], Field(min_length=1)]
    """Rows and columns of its hidden layers."""
    output: Shape
    """Rows and columns of its last matrix."""


class CorrelatedGenerator(_LastMatrix):
    """A trunk of matrix layers whose last matrix is cut into the inputs of several matrix generators.

    Their outputs are consecutive weights: layers of a network share noise, and sizes stay moderate.
    `architecture` takes all sizes from a file of the published code.
    """

    kind: Literal["correlated"] = "correlated"
    architecture: Published | None = None
    """A published architecture, in place of all keys below except `trunk`: `cifar_gen_architecture` has none, and
    without one the published code stops, too."""
    noise: Shape | None = None
    """Rows and columns of its standard normal noise."""
    trunk: tuple[Shape, ...] | None = None
    """Rows and columns of the trunk's layers; with `architecture`, in place of that file's."""
    parts: tuple[Part, ...] = ()
    """Generators of consecutive weights."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.architecture is not None and (self.noise is not None or self.parts):
            raise ValueError("architecture has noise and parts: leave these out, or architecture")
        if self.architecture is None and (self.noise is None or not self.parts):
            raise ValueError("noise and parts are missing: give them, or the name of a published architecture")
        whole = self.written_out()
        taken = sum(prod(part.input) for part in whole.parts)
        if not whole.trunk:
            raise ValueError(
                f"trunk is missing: give one whose last matrix has the {taken:,} entries that the parts take"
            )
        if taken != (there := prod(whole.trunk[-1])):
            raise ValueError(
                f"the trunk ends in {there:,} numbers, but the parts take {taken:,}: change the trunk or the inputs"
            )
        return self

    def written_out(self) -> Self:
        """The same with the sizes of the published architecture; a file without a trunk leaves it None."""
        if self.architecture is None:
            return self
        path = Path(__file__).parent / "architectures" / f"{self.architecture}.yaml"
        stored: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        sizes = {
            "noise": tuple(stored["noise"]),
            "trunk": self.trunk or tuple(map(tuple, stored.get("trunk", ()))) or None,
            "parts": tuple(Part.model_validate(part) for part in stored["parts"]),
        }
        return self.model_copy(update={"architecture": None, **sizes})


class FactorisedGenerator(Model):
    """A generator for each layer of the network with noise of its own, so that layers are independent.

    The published class of this name feeds one noise to all of them and cannot run.
    """

    kind: Literal["factorised"] = "factorised"
    parts: Annotated[
        tuple[Annotated[MLPGenerator | MatrixGenerator, Field(discriminator="kind"), ByKind], ...], Field(min_length=1)
    ]
    """Generators of the layers from the input on; one alone serves every layer."""


GeneratorConfig = Annotated[
    MLPGenerator | MatrixGenerator | CorrelatedGenerator | FactorisedGenerator, Field(discriminator="kind"), ByKind
]
