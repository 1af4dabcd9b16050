"""Pipelines: stages with different resources that depend on each other. Each stage is a job, or an array.

The record of jobs is the only state of a pipeline. The comment of a stage's job has the name of the pipeline and of the stage, the
number of the attempt, a digest of the stage's definition, and the attempts of the stages before it whose results it uses:

    pipeline_file   the TOML file of a pipeline
    stages          the stages as the record of jobs shows them, and `decide`, which says which ones to submit
    driver          reads the record, decides, cancels and submits
"""
