"""srun, salloc and sbcast."""
