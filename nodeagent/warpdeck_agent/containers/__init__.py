"""Runs a job's command in a container of Enroot, Apptainer or Podman."""
