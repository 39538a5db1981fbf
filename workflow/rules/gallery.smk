# What a study shows to readers who do not run it, as under docs/results/; made only when asked for.
from bnn_atlas.pipeline.figures import JUDGING, code
from bnn_atlas.pipeline.targets import step_inputs
from bnn_atlas.pipeline.study_page import KEPT, pages, so_far

SO_FAR = so_far(PATHS)


rule galleries:
    """Make a folder per study with claims, small pictures, scores and times, once everything is run."""
    input:
        expand(f"{RESULTS}/gallery/{{study}}", study=ATLAS.studies),
    message:
        "The galleries are made"


rule gallery:
    """Make the folder of one study."""
    input:
        f"{RESULTS}/tables/{{study}}.parquet",
        lambda w: FIGURES.files(w.study),
        lambda w: FIGURES.caption_files(w.study),
        lambda w: f"{RESULTS}/claims.parquet" if w.study in ATLAS.claims else [],
    output:
        directory(f"{RESULTS}/gallery/{{study}}"),
    log:
        PATHS.log("gallery/{study}"),
    conda:
        "../../envs/python.yaml"
    threads: 1
    params:
        lambda w: {"study": ATLAS.studies[w.study].config.model_dump(include={"title", "paper", "differences"})},
        *code("bnn_atlas.gallery.study", "bnn_atlas.kept.pieces", "bnn_atlas.config.claims.claim", without=JUDGING),
        **told(pages=lambda w: pages(ATLAS, PATHS, INPUTS, FIGURES, f"{RESULTS}/gallery", [w.study], kept=False)),
    message:
        "Making the gallery of {wildcards.study}"
    script:
        "../scripts/step.py"


# These rules have no outputs that Snakemake knows, so they run whenever they are asked for.
rule so_far:
    """Make the same folder from what has been run so far and what docs/results keeps from earlier; runs nothing."""
    log:
        PATHS.log("so_far"),
    conda:
        "../../envs/python.yaml"
    threads: 1
    params:
        **told(pages=lambda w: pages(ATLAS, PATHS, INPUTS, FIGURES, SO_FAR, ATLAS.studies)),
    message:
        "Judging what has been run so far"
    script:
        "../scripts/step.py"


rule keep:
    """Put what has been run so far into docs/results, where the next session finds it; runs nothing."""
    input:
        lambda w: TARGETS.at_its_scale("keep"),
    log:
        PATHS.log("keep"),
    conda:
        "../../envs/python.yaml"
    threads: 1
    params:
        **told(pages=lambda w: pages(ATLAS, PATHS, INPUTS, FIGURES, KEPT, ATLAS.studies)),
    message:
        "Keeping what has been run so far"
    script:
        "../scripts/step.py"


for name, of_studies in STEPS.items():

    rule:
        """Check some of the papers' claims, and print their verdicts."""
        name:
            name
        input:
            lambda w, name=name: TARGETS.at_its_scale(name),
            step_inputs(ATLAS, INPUTS, FIGURES, name),
        log:
            PATHS.log(name),
        localrule: True
        conda:
            "../../envs/python.yaml"
        threads: 1
        params:
            **told(pages=lambda w, of_studies=of_studies: pages(ATLAS, PATHS, INPUTS, FIGURES, SO_FAR, of_studies)),
            step="study_page.study_pages",
        message:
            f"Judging the claims of {name}"
        script:
            "../scripts/step.py"
