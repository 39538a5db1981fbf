"""Steps of checking claims as targets: what each has to make, and at which scale."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from bnn_atlas.claims.plan import claimed_study
from bnn_atlas.config.claims.load import ClaimsConfig, Step, claims_of, figures_of
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.runs.studies import Scale
from bnn_atlas.config.settings import Atlas
from bnn_atlas.pipeline.figures import Figures
from bnn_atlas.pipeline.inputs import Inputs


def steps(claims: Mapping[str, ClaimsConfig], taken: Collection[str] = ()) -> dict[str, dict[str, Step]]:
    """Name of each step -> the studies that have it, each with its own.

    Raises ConfigError where a name is `taken` by another target, and where studies give a step different scales.
    """
    found: dict[str, dict[str, Step]] = {}
    for study, config in claims.items():
        for name, step in config.steps.items():
            if name in taken:
                raise ConfigError(
                    f"config/claims/{study}.yaml: steps.{name}: '{name}' is a target already; rename the step"
                )
            for other, same in found.setdefault(name, {}).items():
                if same.scale != step.scale:
                    raise ConfigError(
                        f"config/claims/{study}.yaml: steps.{name}: it is at scale {step.scale}, and in "
                        f"config/claims/{other}.yaml at {same.scale}; give both the same scale"
                    )
            found[name][study] = step
    return found


def wanted_scale(claims: Mapping[str, ClaimsConfig], argv: Sequence[str]) -> Scale | None:
    """The scale of the step that a command line asks for; None where it asks for none, or gives a scale itself.

    Raises ConfigError for steps of different scales.
    """
    if any(argument.startswith("scale=") for argument in argv):
        return None
    scales = {step.scale for name, of in steps(claims).items() if name in argv for step in of.values()}
    if len(scales) > 1:
        raise ConfigError(f"these steps are at scales {' and '.join(sorted(scales))}; ask for one after the other")
    return scales.pop() if scales else None


def step_inputs(atlas: Atlas, inputs: Inputs, figures: Figures, name: str) -> list[str]:
    """Files that a step needs: tables of the runs behind its claims, of their warm starts alone, and its figures.

    Empty at another scale than the step's.
    """
    files: list[str] = []
    for study, step in steps(atlas.claims)[name].items():
        if step.scale != atlas.settings.scale:
            continue
        config = atlas.claims[study]
        chosen = {claim: config.claims[claim] for claim in claims_of(config, name)}
        claimed = claimed_study(atlas.studies[study], config.model_copy(update={"claims": chosen}), step.scale)
        files += [file for run in claimed.runs for file in inputs.tables_of(atlas.studies[study].runs[run])]
        drawn = set(figures_of(config, name))
        files += [file for figure in figures.of(study) if figure.name in drawn for file in figure.outputs]
    return files


def wrong_scale(claims: Mapping[str, ClaimsConfig], name: str, scale: Scale) -> str | None:
    """What to say of a step that is asked for at another scale than its own; None where nothing is wrong."""
    of: Iterable[Step] = steps(claims).get(name, {}).values()
    for step in of:
        if step.scale != scale:
            return f"{name} is at scale {step.scale}: leave out scale={scale}, or say scale={step.scale}"
    return None
