"""The submitted code on a node: packed trees, their checkouts, and the working folders of jobs."""
