"""The HTTPS server: admission, probes, metrics, certificates."""
