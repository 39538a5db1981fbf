"""The commands by which a reader checks a study, from a second to days."""

from collections.abc import Iterable, Mapping


def ladder(study: str, steps: Iterable[tuple[str, str, int]] = ()) -> list[Mapping[str, str]]:
    """Commands on a study's page, from short to long: `cost`, `command` (empty for the page itself) and `shows`.

    `steps` are the steps of its claims (`config.claims.load`), each with its name, duration and number of claims.
    """
    chosen = f"'studies=[{study}]'"
    return [
        {"cost": "1 s", "command": "", "shows": "Everything as it was measured here."},
        *(
            {"cost": takes, "command": f"snakemake --cores 2 {name}", "shows": f"{claims} claims, with their verdicts."}
            for name, takes, claims in steps
        ),
        {
            "cost": "1 day",
            "command": f"snakemake --cores 2 --config scale=laptop {chosen}",
            "shows": "All runs, reduced; a stopped run resumes.",
        },
        {
            "cost": "days on a GPU",
            "command": f"snakemake --cores 2 --config scale=paper {chosen}",
            "shows": "All runs at the paper's settings.",
        },
    ]
