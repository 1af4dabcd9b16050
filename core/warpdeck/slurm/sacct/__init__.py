"""The accounting commands sacct, sstat, sreport and seff.

`accounted_columns` and `step_usage` make the columns of a job or step. `reports` and `size_reports` make
the tables of sreport.
"""
