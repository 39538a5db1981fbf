"""Steps of checking claims as targets: what each has to make, and at which scale."""

from collections.abc import Collection, Mapping, Sequence

from bnn_atlas.claims.plan import claimed_study
from bnn_atlas.config.claims.load import STEP_SCALE, ClaimsConfig, Step, claims_of, figures_of
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.runs.studies import Scale
from bnn_atlas.config.settings import Atlas
from bnn_atlas.workflow.figures import Figures
from bnn_atlas.workflow.inputs import Inputs


def steps(claims: Mapping[str, ClaimsConfig], taken: Collection[str] = ()) -> dict[str, dict[str, Step]]:
    """Name of each step -> the studies that have it, each with its own.

    Raises ConfigError where a name is `taken` by another target.
    """
    found: dict[str, dict[str, Step]] = {}
    for study, config in claims.items():
        for name, step in config.steps.items():
            if name in taken:
                raise ConfigError(
                    f"config/claims/{study}.yaml: steps.{name}: '{name}' is a target already; rename the step"
                )
            found.setdefault(name, {})[study] = step
    return found


def wanted_scale(claims: Mapping[str, ClaimsConfig], argv: Sequence[str]) -> Scale | None:
    """The scale of steps where a command line asks for one; None where it does not, or gives a scale itself."""
    if any(argument.startswith("scale=") for argument in argv):
        return None
    return STEP_SCALE if any(name in argv for name in steps(claims)) else None


def step_inputs(atlas: Atlas, inputs: Inputs, figures: Figures, name: str) -> list[str]:
    """Files that a step needs: tables of the runs behind its claims, of their warm starts alone, and its figures.

    Empty at another scale than that of steps.
    """
    files: list[str] = []
    if atlas.settings.scale != STEP_SCALE:
        return files
    for study in steps(atlas.claims)[name]:
        config = atlas.claims[study]
        chosen = {claim: config.claims[claim] for claim in claims_of(config, name)}
        claimed = claimed_study(atlas.studies[study], config.model_copy(update={"claims": chosen}), STEP_SCALE)
        files += [file for run in claimed.runs for file in inputs.tables_of(atlas.studies[study].runs[run])]
        drawn = set(figures_of(config, name))
        files += [file for figure in figures.of(study) if figure.name in drawn for file in figure.outputs]
    return files


def wrong_scale(claims: Mapping[str, ClaimsConfig], name: str, scale: Scale) -> str | None:
    """What to say of a step that is asked for at another scale than its own; None where nothing is wrong."""
    if scale == STEP_SCALE or name not in steps(claims):
        return None
    return f"{name} is at scale {STEP_SCALE}: leave out scale={scale}, or say scale={STEP_SCALE}"
