"""The composition root: it builds an engine and the server, and runs them as one process.

`controller_process` runs our own scheduler with its store and fleet. `gateway_process` runs the engine over a real
Slurm. `home_process` contains the parts that both share. `mailer` and `prometheus_exporter` read from the running
controller. `collector` and `log_limit` configure the process itself.
"""
