# One rule for each figure, `<study>_<figure>`; a name that only one study uses is a target, too.


for figure in FIGURES.all:

    rule:
        """Draw a figure of a study."""
        name:
            figure.target
        input:
            [file for files in figure.inputs.values() for file in files],
        output:
            outputs=[
                *figure.outputs[:-1],
                report(
                    figure.outputs[-1],
                    caption=f"../report/{figure.kind.name}.rst",
                    category=figure.study,
                    subcategory="figures",
                    labels={"figure": figure.label},
                ),
            ],
        log:
            PATHS.log(f"figures/{figure.study}/{figure.name}"),
        benchmark:
            PATHS.benchmark(f"figures/{figure.study}/{figure.name}")
        conda:
            "../../envs/r.yaml" if figure.uses_r else "../../envs/python.yaml"
        threads: 1
        params:
            *figure.settings,
            *figure.code,
            **told(figure=lambda w, figure=figure: figure.described()),
            step="figures.figure",
        message:
            f"Drawing figure {figure.name} of {figure.study}"
        script:
            "../scripts/step.py"


for name, figure in FIGURES.targets.items():

    rule:
        """Draw the figure of this name, which only one study has; make the scores of a run of the same name, too."""
        name:
            name
        input:
            figure.outputs,
            INPUTS.run_targets.get(name, []),
        message:
            f"The figure {name} is made"


for study in ATLAS.studies:

    rule:
        """Make all figures and tables of a study."""
        name:
            study
        input:
            FIGURES.files(study),
            f"{RESULTS}/tables/{study}.parquet",
            PATHS.overviews(study),
        message:
            f"All figures and tables of {study} are made"
