"""Reads #PBS and #BSUB directives and translates them into Slurm's options."""
