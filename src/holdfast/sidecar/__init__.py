"""The sidecar: the HTTP API with the worker inside, one process on one port."""
