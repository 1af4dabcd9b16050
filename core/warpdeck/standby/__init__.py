"""A copy of the controller's database on a second machine, and the takeover by that machine.

The controller connects to the standby over SSH (`link`), brings the program there (`program`) and starts a receiver
(`receiver`), which lives as long as the connection. Over it go the batches of the store (`store.batch_log`) and the files
that a controller needs (`site_files`). `takeover` makes the standby the controller. `base.standby_files` describes the small
files that say which machine serves the site.
"""
