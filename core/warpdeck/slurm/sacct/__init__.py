"""sacct, sstat and sacctmgr: one printer of columns (printing), what a job or step has in each (values, usage), the commands."""
