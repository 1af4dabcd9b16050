"""Handlers of srun's requests: making a step, joining its streams, and ending it when its srun is gone."""
