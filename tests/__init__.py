"""Tests of warpdeck. Many of their agents run on one machine at once, which agents refuse unless they are told."""

import os

os.environ["WARPDECK_SHARE_MACHINE"] = "1"
