"""The commands by which a reader checks a study, from a second to days."""

from collections.abc import Mapping


def ladder(study: str, with_claims: bool) -> list[Mapping[str, str]]:
    """Steps of a study's page, from short to long: `cost`, `command` (empty where there is none) and `shows`.

    Costs are those of findings (`config.findings.Cost`), and a last one for the paper's own settings.
    """
    chosen = f"'studies=[{study}]'"
    what = "Findings, claims and scores" if with_claims else "Scores"
    steps = [
        ("1 s", "", f"{what} as they were measured here."),
        ("10 min", "snakemake --cores 2 evaluate", "Claims that can be judged in minutes."),
        ("1 h", "snakemake --cores 2 evaluate_hour", "Claims that can be judged within an hour."),
        ("1 day", f"snakemake --cores 2 --config scale=laptop {chosen}", "All runs, reduced; a stopped run resumes."),
        ("days on a GPU", f"snakemake --cores 12 --config scale=paper {chosen}", "All runs at the paper's settings."),
    ]
    return [
        {"cost": cost, "command": command, "shows": shows}
        for cost, command, shows in steps
        if with_claims or "evaluate" not in command
    ]
