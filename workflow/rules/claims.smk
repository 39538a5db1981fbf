# Claims of the papers against the tables: `claims` for all loaded studies, `<study>_claims` for one.
from bnn_atlas.pipeline.claims import claim_settings, claim_targets, claimed_studies, compared_predictions
from bnn_atlas.pipeline.figures import JUDGING, code

for name, (studies, stem) in claim_targets(ATLAS).items():

    rule:
        """Judge the papers' claims by the tables, and write the verdicts as a table."""
        name:
            name
        input:
            tables=[f"{RESULTS}/tables/{study}.parquet" for study in studies],
            pictures=list(FIGURES.claimed(studies).values()),
            densities=list(compared_predictions(ATLAS, PATHS, studies).values()),
        output:
            table=f"{RESULTS}/{stem}.parquet",
        log:
            PATHS.log(stem),
        benchmark:
            PATHS.benchmark(stem)
        localrule: True
        conda:
            "../../envs/python.yaml"
        threads: 1
        params:
            *claim_settings(ATLAS, studies),
            *code(
                "bnn_atlas.claims.verdict", "bnn_atlas.claims.table", "bnn_atlas.config.claims.claim", without=JUDGING
            ),
            **told(figures=lambda w, studies=studies: list(FIGURES.claimed(studies))),
            **told(studies=lambda w, studies=studies: claimed_studies(ATLAS, studies)),
            **told(compared=lambda w, studies=studies: list(compared_predictions(ATLAS, PATHS, studies))),
            step="tables.claims",
        message:
            "Judging the claims"
        script:
            "../scripts/step.py"
