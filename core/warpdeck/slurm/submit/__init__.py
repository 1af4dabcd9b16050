"""sbatch and scancel."""
