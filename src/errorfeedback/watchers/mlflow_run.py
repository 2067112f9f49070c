"""Every column of the history as a metric of MLflow, over the rounds."""

from __future__ import annotations

from errorfeedback.extras import import_extra
from errorfeedback.watchers.base import RunWatcher, measures


class MLflow(RunWatcher):
    """Logs to the run that is active, or to a new one, which ends with this.

    >>> import os
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import mlflow
    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # a folder in place of your server
    >>> with TemporaryDirectory() as folder:
    ...     mlflow.set_tracking_uri(Path(folder, "runs").as_uri())
    ...     with ef.MLflow() as log:
    ...         result = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=30, every=10, watch=log)
    ...     told = mlflow.MlflowClient().get_metric_history(log.own.info.run_id, "f")
    >>> [each.step for each in told]
    [0, 10, 20, 30]
    """

    def __init__(self) -> None:
        self.mlflow = import_extra("mlflow", "a log for MLflow")
        self.own = None if self.mlflow.active_run() else self.mlflow.start_run()

    def __call__(self, row: dict[str, float]) -> None:
        self.mlflow.log_metrics(measures(row), step=int(row["round"]))

    def close(self) -> None:
        if self.own is not None:
            self.mlflow.end_run()
