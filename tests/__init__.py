"""Tests of warpdeck. The variable lets several agents run on one machine, which agents otherwise refuse."""

import os

os.environ["WARPDECK_SHARE_MACHINE"] = "1"
