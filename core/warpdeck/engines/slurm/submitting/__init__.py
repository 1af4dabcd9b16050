"""Submits jobs with sbatch, each of them once, and their code.

- `sbatch_options`: the options of sbatch for a request, as a table.
- `wrapper`: the text of the script that is given to sbatch and that starts the user's script. Both are pure.
- `job_folder`: the folder of a submission, which is the durable intent to submit it.
- `sbatch`: runs sbatch, and decides from its words whether it is certain that nothing was submitted.
- `unsettled`: finds the job that an interrupted submission has become. `new_jobs` are the records of submitted jobs.
- `dry_run`: the forecast of sbatch --test-only.
- `submissions`: the part of the engine that uses all of these. `recorded_code` adds code that was recorded later.
- `upkeep`: completes interrupted submissions in the background, and removes files that no job needs.
"""
