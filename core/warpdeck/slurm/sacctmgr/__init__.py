"""sacctmgr: reads and changes accounts, users and QoS in config.toml."""
