"""What meets a live cluster: kopf's operator and handlers, the node reflector, the webhook configurations."""
