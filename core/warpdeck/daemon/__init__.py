"""The composition root: it builds an engine and the server, and runs them as one process.

`controller_process` runs our own scheduler with its store and fleet. `gateway_process` runs the engine over a real
Slurm, and `site_gateway_process` the process that asks Slurm for the gateways of all users. `home_process` contains the
parts that they share. `mailer` and `prometheus_exporter` read from the running
controller. `collector` and `log_limit` configure the process itself.
"""
