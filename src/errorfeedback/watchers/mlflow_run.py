"""Every column of the history as a metric of MLflow, over the rounds."""

from __future__ import annotations

from errorfeedback.extras import import_extra
from errorfeedback.watchers.base import RunWatcher, measures


class MLflow(RunWatcher):
    """Logs to the run that is active, or to a new one, which ends with this."""

    def __init__(self) -> None:
        self.mlflow = import_extra("mlflow", "a log for MLflow")
        self.own = None if self.mlflow.active_run() else self.mlflow.start_run()

    def __call__(self, row: dict[str, float]) -> None:
        self.mlflow.log_metrics(measures(row), step=int(row["round"]))

    def close(self) -> None:
        if self.own is not None:
            self.mlflow.end_run()
