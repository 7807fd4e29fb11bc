"""What meets a live cluster: kopf's operator and handlers, what is followed of the cluster, the webhook
configurations."""
