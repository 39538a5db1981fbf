# A target for each run and each entry of a study: its scores, and so everything that they need.

TAKEN = {*RULES, *STEPS, *ATLAS.studies, *claim_targets(ATLAS)}
TAKEN |= {*FIGURES.targets, *(figure.target for figure in FIGURES.all)}

for name, tables in INPUTS.run_targets.items():
    # A figure of the same name is made together with the scores (figures.smk).
    if name in TAKEN:
        continue

    rule:
        """Make the scores of a run, or of all runs of an entry."""
        name:
            name
        input:
            tables,
        message:
            f"The scores of {name} are made"
