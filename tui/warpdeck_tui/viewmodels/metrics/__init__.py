"""View models of metrics: values read from logs, and curves drawn from them."""
