"""What follows a run while it lasts: `ef.solve(..., watch=watcher)`, one watcher per file."""
