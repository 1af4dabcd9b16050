"""The commands srun, salloc and sbcast, which run on the caller's terminal."""
