"""Studies: Optuna proposes the parameters of trials, and each trial is a job.

The controller's own record of the jobs is the only state of a study. A trial's job carries the name of the study, its number and
its parameters, and its metric is read from its output. So a driver that was killed continues where it was, two drivers create
no trial twice, and no database on a shared disk is needed:

    study_file   the TOML file of a study
    trials       the trials as the record of jobs shows them, and `decide`, which says what to do next
    proposals    Optuna: the parameters of the next trial, and which running trials are hopeless
    driver       reads the record, decides, submits and cancels, until the study is over
"""
