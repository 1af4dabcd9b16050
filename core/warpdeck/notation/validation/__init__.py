"""Predicts what Slurm's own sbatch, srun and salloc say about options: their errors, exit codes and final values."""
