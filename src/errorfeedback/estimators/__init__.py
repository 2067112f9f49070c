"""EF21 for scikit-learn: `from errorfeedback.estimators import EF21Classifier, EF21Regressor, EF21PoissonRegressor`."""

from errorfeedback.estimators.classifier import EF21Classifier as EF21Classifier
from errorfeedback.estimators.poisson_regressor import EF21PoissonRegressor as EF21PoissonRegressor
from errorfeedback.estimators.regressor import EF21Regressor as EF21Regressor
