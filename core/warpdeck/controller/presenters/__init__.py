"""Build the rows that clients and exporters get from the state.

`job_columns` contains the table of a job's fields, from which all rows of jobs are made. Nothing in this
package changes the state.
"""
