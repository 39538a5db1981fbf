"""The page of the documentation with all targets.

`python -m bnn_atlas.pipeline.targets_page` writes docs/targets.md.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import get_args

from bnn_atlas.config.claims.load import claims_of
from bnn_atlas.config.runs.studies import Run, Scale
from bnn_atlas.config.settings import Atlas, load_atlas, read_settings
from bnn_atlas.files import atomic
from bnn_atlas.pipeline.claims import claim_targets
from bnn_atlas.pipeline.figures import Figures
from bnn_atlas.pipeline.paths import Paths
from bnn_atlas.pipeline.targets import about, steps

PAGE = Path("docs/targets.md")
HEAD = """# Targets

`snakemake --cores 2 TARGET ...` makes one or several of the targets below, with all that they need; without a target it
makes `all`. `--config scale=laptop` chooses another scale than `demo`, and `-n` only says what would run. Each file of
the results is a target, too, by its path. Other names are refused, with a suggestion.

Generated from the rules, the Makefile and `config/` by `python -m bnn_atlas.pipeline.targets_page`.
"""
SHARED = ("all", "site", "so_far", "keep", "claims", "tables", "diagnostics", "check", "traces", "export")
"""Targets of all studies together."""
RULE = re.compile(r'^rule (\w+):\n    """(.+?)"""', re.MULTILINE | re.DOTALL)
MADE = re.compile(r"^([\w-]+):.*?## (.+)$", re.MULTILINE)
"""A target of make and, after two hashes, what it does."""
CLAIMS = "Judge the claims by the tables, and write the verdicts as a table."
"""What the targets of claims do, whose rules have no names of their own."""
COMMANDS = {
    "python -m bnn_atlas why NAME": "Say how a file, a figure or a run was made, and what would run for it now.",
    "python -m bnn_atlas new TABLE --target Y": "Check a table of yours; write its entry and a study of three methods.",
}
"""Commands of the package, and what they do."""


def targets_page(repository: Path = Path()) -> str:
    """Text of the page, for the studies with published numbers; others are a user's own."""
    config = repository / "config"
    settings = read_settings(config / "config.yaml")
    studies = [study for study in settings["studies"] if (config / "published" / f"{study}.csv").is_file()]
    settings |= {"studies": studies}
    atlases = {scale: load_atlas({**settings, "scale": scale}, config) for scale in get_args(Scale)}
    whole = atlases["paper"]
    files = [repository / "Snakefile", *sorted(repository.glob("workflow/rules/*.smk"))]
    rules = {name: text for file in files for name, text in RULE.findall(file.read_text(encoding="utf-8"))}
    shared = {name: CLAIMS if name == "claims" else rules[name] for name in SHARED}
    made = MADE.findall((repository / "Makefile").read_text(encoding="utf-8"))
    parts = [
        HEAD,
        "## All studies\n",
        _table(("target", "what it does"), shared.items()),
        "## Checks of claims\n",
        "Each makes the runs that its claims need, judges them, and prints each verdict with the expected one.\n",
        _table(("target", "scale", "claims", "on two cores", "studies"), _steps(whole)),
        *(part for study in whole.studies for part in _study(study, atlases)),
        "## Without Snakemake\n",
        _table(("command", "what it does"), [*((f"make {name}", text) for name, text in made), *COMMANDS.items()]),
    ]
    return "\n".join(parts)


def _steps(atlas: Atlas) -> Iterable[tuple[str, ...]]:
    """A row for each step for checking claims."""
    for name, of in steps(atlas.claims).items():
        number = sum(len(claims_of(atlas.claims[study], name)) for study in of)
        first = next(iter(of.values()))
        takes, studies = first.takes.removesuffix(" on two cores"), ", ".join(f"`{study}`" for study in of)
        yield name, first.scale, str(number), takes, studies


def _study(study: str, atlases: Mapping[Scale, Atlas]) -> list[str]:
    """The section of a study: the study itself, its figures and tables, and its runs by entry."""
    atlas = atlases["paper"]
    figures = {scale: Figures(one, Paths(f"results/{scale}"), None, set()) for scale, one in atlases.items()}
    own = [("Make all figures and tables of the study.", study)]
    own += [(CLAIMS, name) for name in claim_targets(atlas) if name == f"{study}_claims"]
    drawn = {figure.name: figure for of in figures.values() for figure in of.of(study)}
    bare = figures["paper"].targets
    rows = [
        (
            name if name in bare else figure.target,
            about(figure),
            _at(scale for scale, of in figures.items() if name in _names(of, study)),
        )
        for name, figure in drawn.items()
    ]
    entries: dict[str, dict[Scale, list[Run]]] = {}
    for scale, one in atlases.items():
        for run in one.studies[study].runs.values():
            entries.setdefault(run.entry, {}).setdefault(scale, []).append(run)
    return [
        f"## {study}\n",
        f"{atlas.studies[study].config.title}.\n",
        _table(("target", "what it does"), ((name, text) for text, name in own)),
        "### Figures and tables\n",
        f"Each is also called `{study}_NAME`.\n",
        _table(("target", "what it shows", "scales"), rows),
        "### Runs\n",
        "Each makes the scores of one run or, by the name of an entry with several, of all of them. With `-n`,\n"
        "Snakemake lists their names, which are targets, too.\n",
        _table(
            ("target", "what it is", "runs at each scale"), (_entry(name, of) for name, of in sorted(entries.items()))
        ),
    ]


def _names(figures: Figures, study: str) -> set[str]:
    return {figure.name for figure in figures.of(study)}


def _at(scales: Iterable[str]) -> str:
    """Scales, or `all` of them."""
    found = list(scales)
    return "all" if len(found) == len(get_args(Scale)) else ", ".join(found)


def _entry(name: str, of: Mapping[Scale, list[Run]]) -> tuple[str, ...]:
    """A row for an entry of a study."""
    described = next(iter(of.values()))[0].config.description
    return name, described, ", ".join(f"{scale} {len(runs)}" for scale, runs in of.items())


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table whose first column is code."""
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for name, *texts in rows:
        cells = (" ".join(text.split()).replace("|", r"\|") for text in texts)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    with atomic(PAGE) as temporary:
        temporary.write_text(targets_page(), encoding="utf-8")
