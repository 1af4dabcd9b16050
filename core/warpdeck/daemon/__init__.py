"""The composition root: it builds the store, fleet, controller and server, and runs them as one process.

`mailer` and `prometheus_exporter` read from the running controller. `collector` and `log_limit` configure the
process itself.
"""
