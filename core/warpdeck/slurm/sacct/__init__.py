"""The accounting commands sacct, sstat, sreport and seff.

`accounted_values` and `accounted_usage` make the fields of a job or step. `reports` and `size_reports` make
the tables of sreport.
"""
