"""The commands sbatch and scancel."""
