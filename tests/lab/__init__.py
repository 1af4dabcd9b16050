"""Test hosts with real sshd in namespaces, and a stand-in NVML library."""
