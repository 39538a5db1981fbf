# Draws from Gaussians with the moments of other runs.


rule gaussian:
    """Draw a block of networks from the Gaussian that has the moments of another run's draws."""
    input:
        INPUTS.source_traces,
        pool=INPUTS.source_pool,
        frame=INPUTS.source_frame,
    output:
        destination=f"{RUN}/start/compact{{block}}.npz",
    log:
        PATHS.log("gaussian/{study}/{run}/split{split}/block{block}"),
    benchmark:
        PATHS.benchmark("gaussian/{study}/{run}/split{split}/block{block}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        runtime=60,
    params:
        gaussian=INPUTS.gaussian,
    message:
        "Drawing {wildcards.run} from the moments of its source (split {wildcards.split})"
    script:
        "../scripts/step.py"
