"""What pinning costs in waiting: a stream of jobs on the real scheduler, with and without the webhook."""
