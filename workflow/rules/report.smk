# What a study shows to readers who do not run it, as under docs/results/.
from bnn_atlas.pipeline.claims import about_claims
from bnn_atlas.pipeline.figures import JUDGING, code
from bnn_atlas.pipeline.targets import step_inputs
from bnn_atlas.pipeline.study_page import KEPT, pages, so_far

SO_FAR = so_far(PATHS)


rule write_site:
    """Write the site: a folder per study with pages of its claims, figures and runs, also as Markdown."""
    input:
        [f"{RESULTS}/tables/{study}.parquet" for study in ATLAS.studies],
        [path for study in ATLAS.studies for path in PATHS.overviews(study)],
        [FIGURES.files(study) for study in ATLAS.studies],
        list(dict.fromkeys(file for study in ATLAS.studies for file in FIGURES.caption_files(study))),
        rules.claims.output if ATLAS.claims else [],
        [FIGURES.pages(study) for study in ATLAS.studies] if SCALE != "demo" else [],
    output:
        site=directory(f"{RESULTS}/site"),
    log:
        PATHS.log("site"),
    benchmark:
        PATHS.benchmark("site")
    conda:
        "../../envs/python.yaml"
    threads: 1
    params:
        *[
            {f"{name}: about": study.config.model_dump(include={"title", "paper", "differences"})}
            for name, study in ATLAS.studies.items()
        ],
        *[{f"{study}: claims": about_claims(ATLAS, study)} for study in ATLAS.studies],
        *code("bnn_atlas.report.page", "bnn_atlas.report.site", "bnn_atlas.kept", without=JUDGING),
        **told(pages=lambda w: pages(ATLAS, PATHS, INPUTS, FIGURES, f"{RESULTS}/site", ATLAS.studies, kept=False)),
    message:
        "Making the site"
    script:
        "../scripts/step.py"


# With all inputs of the site, since Snakemake makes nothing again that is gone while what was made from it is there.
rule site:
    """Make the site of all studies, once everything is run, and whatever it shows that is not there."""
    input:
        rules.write_site.input,
        rules.write_site.output,
    message:
        "The site is made"


# These rules have no outputs that Snakemake knows, so they run whenever they are asked for.
rule so_far:
    """Make the site of what has been run so far and what docs/results keeps from earlier; runs nothing."""
    log:
        PATHS.log("so_far"),
    conda:
        "../../envs/python.yaml"
    threads: 1
    params:
        **told(pages=lambda w: pages(ATLAS, PATHS, INPUTS, FIGURES, SO_FAR, ATLAS.studies), site=lambda w: SO_FAR),
    message:
        "Judging what has been run so far"
    script:
        "../scripts/step.py"


rule keep:
    """Keep the results so far, and the pages made from them, in docs/results; runs nothing."""
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
            **told(site=lambda w: SO_FAR, count_here=lambda w: True),
            step="study_page.study_pages",
        message:
            f"Judging the claims of {name}"
        script:
            "../scripts/step.py"
