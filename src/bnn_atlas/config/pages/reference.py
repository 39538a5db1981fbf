"""The page of all configuration fields for readers, made from the schemas: docs/configuration.md."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from bnn_atlas.config.claims.load import ClaimsFile
from bnn_atlas.config.data.datasets import RegistryFile
from bnn_atlas.config.methods.registry import METHODS
from bnn_atlas.config.runs.studies import StudyConfig
from bnn_atlas.config.settings import Settings

Schema = Mapping[str, Any]


class Part(NamedTuple):
    """A file of the configuration and the sections that explain it."""

    title: str
    model: type[BaseModel]
    sections: dict[str, tuple[str, ...]]
    """Heading -> definitions of the schema, in order; `*<ending>` stands for all others whose names end so."""


METHODS_HEADING = "Methods"
PARTS = (
    Part("config/config.yaml", Settings, {}),
    Part(
        "config/studies/&lt;study&gt;.yaml",
        StudyConfig,
        {
            "Runs": ("RunEntry",),
            "Splits": ("SplitConfig",),
            "Models": (
                "MLPConfig", "LeNetConfig", "LeNet5Config", "LeNet5MaxConfig", "LeNettiConfig", "*FRNConfig",
                "CNNLSTMConfig",
            ),
            "Likelihoods": ("*Likelihood",),
            "Priors": ("*Prior",),
            "Warm starts": ("WarmStartConfig",),
            "Starts": ("InitialConfig", "StartConfig"),
            "Stopping": ("StoppingConfig",),
            "Alignments": ("AlignmentEntry",),
            "Figures": (
                "FigureEntry", "SubsetConfig", "GridConfig", "FunctionsConfig", "SurfaceConfig", "PlaneConfig",
                "PointConfig",
            ),
            "Further evaluation": ("EvaluationConfig",),
            "Barriers between chains": ("BarrierConfig",),
            "Pruning": ("PruningConfig",),
            "Optimisers": ("AdamConfig", "AMSGradConfig", "SGDConfig"),
            "Optimisers of a path": ("MeanAdamConfig", "MeanSGDConfig"),
            "Generators of implicit variational inference": (
                "MLPGenerator", "MatrixGenerator", "CorrelatedGenerator", "Part", "FactorisedGenerator",
                "GeneratedConfig",
            ),
            "Entropies of implicit variational inference": ("*Entropy",),
            "Step sizes and masses of stochastic-gradient methods": ("*Schedule", "RMSpropConfig"),
            "Augmentation": ("AugmentationConfig",),
            METHODS_HEADING: tuple(record.__name__ for record in METHODS.values()),
        },
    ),
    Part(
        "config/claims/&lt;study&gt;.yaml",
        ClaimsFile,
        {
            "A finding": ("FindingEntry",),
            "A step": ("StepEntry",),
            "A claim": ("ClaimEntry",),
            "What it is compared with": ("Other",),
            "A number of a figure": ("FigureValue",),
            "Why it is missed": ("Cause",),
        },
    ),
    Part(
        "config/datasets.yaml",
        RegistryFile,
        {
            "Your own table": ("OwnTable",),
            "A data set": ("DatasetEntry", "PublishedScaling"),
            "Its files": ("FileEntry", "Copy"),
            "How a file is read": ("*Reader",),
            "Synthetic data": ("*Generator",),
        },
    ),
)  # fmt: skip


MEANINGS = {
    "title": "Name of the study, on pages and in texts.",
    "studies": "Files in config/studies, without the ending.",
    "StudyConfig.runs": "Name -> run.",
    "StudyConfig.figures": "Name -> figure.",
    "model": "Network; its kinds are below.",
    "likelihood": "How targets follow from the network's outputs; its kinds are below.",
    "prior": "Of the network's parameters; its kinds are below. Left out, it is `standard_normal`.",
    "method": "How draws are made; its kinds are below.",
    "float64": "Compute in double precision.",
    "RunEntry.description": "One line for readers of the results.",
    "RunEntry.dataset": "A name in config/datasets.yaml.",
    "split": "Left out, 20 % test rows and 10 % of the others for validation.",
    "evaluate": "Further sets and references.",
    "RunEntry.chains": "Number of chains, or of members of an ensemble.",
    "steps": "Steps after warm-up, of which every `thinning`-th is kept.",
    "thinning": "Every n-th state or draw is kept.",
    "checkpoint_every": "Steps between two checkpoints (a segment); never changes a draw.",
    "target_acceptance": "Acceptance rate at which the step size is tuned.",
    "trust_in_estimate": "The larger, the less a large energy error lowers the weight of a step in the average.",
    "diagonal_preconditioning": "Scale parameters by their standard deviations, from the second phase of tuning.",
    "step_size_init": "Step size at which tuning begins.",
    "filters": "Number of filters.",
    "cycle_epochs": "Epochs of a cycle.",
    "PublishedScaling.scale": "Divides what is left, one per channel.",
    "PublishedScaling.mean": "Subtracted from pixel / 255, one per channel.",
    "scale": "See the formula above.",
    "scales": "Standard deviations of the components.",
    "loc": "See the formula above.",
    "var_eps": "See the formula above.",
    "factor": "See the formula above.",
    "decay": "See the formula above.",
    "epsilon": "See the formula above.",
    "momentum": "See the formula above.",
    "offset_epochs": "See the formula above.",
    "slope": "See the formula above.",
    "frequency": "See the formula above.",
    "low": "See above.",
    "high": "See above.",
    "seed": "Seed of its random numbers.",
    "sigma": "Standard deviation of the noise, in units of the standardised target.",
    "activation": "Function of the hidden units.",
    "bias": "Whether layers add biases.",
    "epochs": "Passes over the training rows.",
    "optimiser": "Its kinds are under Optimisers.",
    "mass": "`diagonal`: inverse masses are the posterior variances, estimated in warm-up; `unit`: all are 1.",
    "burn_in_epochs": "Epochs that are not kept.",
    "ensemble_every": "Epochs between two kept draws.",
    "schedule": "How the step size changes; its kinds are above.",
    "preconditioner": "Mass; see above.",
    "subset": "Parameters and draws that the figure shows.",
    "grid": "Bivariate marginal densities that it shows.",
    "functions": "Functions of the draws that it shows.",
    "surface": "Planes through parameter space that it shows.",
    "layers": "Numbers of layers, from 0; null takes all.",
    "roles": "Roles of parameters; null takes all.",
    "learning_rate": "Of AdamW.",
    "weight_decay": "Of AdamW.",
    "max_epochs": "Passes over the training rows, at most.",
    "ClaimsFile.claims": "Name -> claim.",
    "section": "Where the paper says it, for readers.",
    "statement": "What the paper says, in a sentence.",
    "bound": "Limit of the relation.",
    "Other.in_figure": "Another number of the same CSV file.",
    "column": "Column that has the number.",
    "Other.metric": "Metric of the other value.",
    "Other.at": "What that metric is taken at.",
    "Other.runs": "Runs of the other value.",
    "Other.dataset": "Rows of the other value.",
    "CifarReader.test": "Members with the test images, in order.",
    "ClustersGenerator.test": "Where x of the test rows lies.",
    "BNNHMCGenerator.test": "Where x of the test rows lies.",
    "hidden": "Widths of the hidden layers of f.",
    "prior_sd": "Standard deviation of the parameters of f.",
    "unit": "f is a function of x / unit.",
    "sha256": "SHA-256 of the file's bytes.",
    "table_sha256": "SHA-256 of the numbers in it.",
    "content_sha256": "SHA-256 of the images, labels or sequences in it.",
    "read": "Format of the file and its columns; formats are below.",
    "separator": "Between the cells.",
    "task": "What is predicted: a number or a class.",
    "DatasetEntry.kind": "What a row is.",
    "target": "The column that is predicted.",
    "published_scaling": "Constants by which a paper scaled images.",
    "licence": "Of the data, for readers.",
    "note": "For readers.",
    "FileEntry.name": "Name of the file here.",
    "alternatives": "Further places to get it from, with the keys of a file but `name`, `part` and `alternatives`.",
    "format": "Format of the file.",
}
"""`Definition.field` or field -> meaning, for fields whose names or formulas say all to those who read the code."""


def page() -> str:
    """Text of docs/configuration.md."""
    lines = [
        "# Configuration",
        "",
        "All keys of the files in `config/`, with what each may be and its default. A section with a `kind` takes the",
        "keys of that kind, such as `model: { kind: mlp, hidden: [8, 8] }` or `prior: { kind: normal, scale: 0.5 }`.",
        "`make schema` writes this page, and the JSON schemas in `workflow/schemas/` by which editors check the files.",
    ]
    for part in PARTS:
        lines += ["", f"## {part.title}", *_part(part)]
    return "\n".join(lines) + "\n"


def _part(part: Part) -> Iterator[str]:
    schema = part.model.model_json_schema()
    definitions: dict[str, Schema] = schema.get("$defs", {})
    if "properties" in schema:
        yield from _fields(schema, part.model.__name__)
    named = {name for names in part.sections.values() for name in names}
    for heading, names in part.sections.items():
        yield from ("", f"### {heading}")
        if heading == METHODS_HEADING:
            yield from _methods()
        for name in names:
            others = (one for one in definitions if one.endswith(name[1:]) and one not in named)
            for one in others if name.startswith("*") else (name,):
                named.add(one)
                yield from _definition(definitions[one], one)


def _methods() -> Iterator[str]:
    """A table of the methods, from their records."""
    yield from ("", "| kind | name in figures | method | draws |", "|---|---|---|---|")
    for kind, record in METHODS.items():
        about = (record.__doc__ or "").partition("\n")[0].removesuffix(".")
        yield f"| `{kind}` | {record.title} | {_text(about)} | {record.kind_of_draws} |"


def _definition(schema: Schema, name: str) -> Iterator[str]:
    """One section: its kind, what it is, and a table of its keys."""
    fields = schema["properties"]
    tag = next((f"`{key}: {_value(fields[key])}`. " for key in ("kind", "format") if _is_tag(fields.get(key))), "")
    yield from ("", f"{tag}{_text(schema.get('description', ''))}")
    yield from _fields(schema, name)


def _fields(schema: Schema, definition: str) -> Iterator[str]:
    shown = {name: field for name, field in schema["properties"].items() if not _is_tag(field)}
    if shown:
        yield from ("", "| key | value | default | meaning |", "|---|---|---|---|")
    for name, field in shown.items():
        required = name in schema.get("required", ())
        default = "**required**" if required else _default(field)
        meaning = field.get("description") or MEANINGS.get(f"{definition}.{name}") or MEANINGS[name]
        yield f"| `{name}` | {_allowed(field)} | {default} | {_text(meaning)} |"


def _is_tag(field: Schema | None) -> bool:
    """Whether a field only says which kind of section it is in."""
    return field is not None and "const" in field


def _value(field: Schema) -> str:
    return str(field["const"])


def _default(field: Schema) -> str:
    value = field.get("default", "")
    if value in ({}, [], "") or isinstance(value, dict):
        return ""
    return f"`{'null' if value is None else str(value).lower() if isinstance(value, bool) else value}`"


def _allowed(field: Schema) -> str:
    """The values of a field in a few words."""
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "$ref" in field:
        return "section"
    if options := field.get("anyOf") or field.get("oneOf"):
        if "discriminator" in field:
            return ", ".join(f"`{kind}`" for kind in field["discriminator"]["mapping"])
        return " or ".join(dict.fromkeys(_allowed(option) for option in options))
    kind = field.get("type")
    if kind == "array":
        items: Schema = field.get("items") or next(iter(field.get("prefixItems", ())), {})
        return f"list of {_allowed(items)}" if items else "list"
    if kind == "object":
        return "section for each name"
    return {"string": "text", "boolean": "`true`, `false`", "null": "`null`"}.get(str(kind), _number(field))


def _number(field: Schema) -> str:
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    bounds = " and ".join(f"{sign} {field[key]:g}" for key, sign in signs.items() if key in field)
    noun = {"integer": "whole number", "number": "number"}.get(str(field.get("type")), "anything")
    return f"{noun} {bounds}".strip()


def _text(description: str) -> str:
    return re.sub(r"\s+", " ", description).replace("|", "\\|").strip()
