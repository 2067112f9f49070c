"""Everything users import, in one place: `errorfeedback` hands these names out when they are first used."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from errorfeedback import compressors, directions, downlinks, methods, probes, stepsizes
from errorfeedback.clients.exactly_once import ExactlyOnce as ExactlyOnce
from errorfeedback.clients.invitation import Invitation as Invitation
from errorfeedback.clients.joining import NotInvitedError as NotInvitedError
from errorfeedback.clients.joining import join as join
from errorfeedback.clients.memory import Shared as Shared
from errorfeedback.clients.order import Setup as Setup
from errorfeedback.clients.own_rows import OwnRows as OwnRows
from errorfeedback.clients.serving import Host as Host
from errorfeedback.clients.serving import host as host
from errorfeedback.compressors.base import Compressor as Compressor
from errorfeedback.compressors.base import Contractive as Contractive
from errorfeedback.compressors.base import Operator as Operator
from errorfeedback.compressors.base import Unbiased as Unbiased
from errorfeedback.compressors.exact_on_common import ExactOnCommon as ExactOnCommon
from errorfeedback.compressors.fitted_answer import FittedAnswer as FittedAnswer
from errorfeedback.compressors.identity import Identity as Identity
from errorfeedback.compressors.low_rank import LowRank as LowRank
from errorfeedback.compressors.natural import Natural as Natural
from errorfeedback.compressors.participating import Participating as Participating
from errorfeedback.compressors.perm_k import PermK as PermK
from errorfeedback.compressors.powers_of_two import PowersOfTwo as PowersOfTwo
from errorfeedback.compressors.qsgd import QSGD as QSGD
from errorfeedback.compressors.rand_k import RandK as RandK
from errorfeedback.compressors.rounded import Rounded as Rounded
from errorfeedback.compressors.small_float import SmallFloat as SmallFloat
from errorfeedback.compressors.some_clients import SomeClients as SomeClients
from errorfeedback.compressors.tern_grad import TernGrad as TernGrad
from errorfeedback.compressors.top_k import TopK as TopK
from errorfeedback.compressors.top_share import TopShare as TopShare
from errorfeedback.compressors.uniform_levels import Uniform as Uniform
from errorfeedback.core import Point as Point
from errorfeedback.core import Round as Round
from errorfeedback.core import RowMemory as RowMemory
from errorfeedback.core import Sample as Sample
from errorfeedback.data.libsvm import load as load
from errorfeedback.directions.base import Asking as Asking
from errorfeedback.directions.base import Direction as Direction
from errorfeedback.directions.diagonal import Diagonal as Diagonal
from errorfeedback.directions.fed_nl import FedNL as FedNL
from errorfeedback.directions.few_bit_hessians import Curvature as Curvature
from errorfeedback.directions.heavy_ball import HeavyBall as HeavyBall
from errorfeedback.directions.lbfgs import LBFGS as LBFGS
from errorfeedback.directions.steepest import Steepest as Steepest
from errorfeedback.downlinks.base import Broadcast as Broadcast
from errorfeedback.downlinks.base import Downlink as Downlink
from errorfeedback.downlinks.base import Step as Step
from errorfeedback.downlinks.changed import Changed as Changed
from errorfeedback.downlinks.compressed import Compressed as Compressed
from errorfeedback.downlinks.fitted_step import FittedStep as FittedStep
from errorfeedback.downlinks.primal import Primal as Primal
from errorfeedback.downlinks.rounded_step import RoundedStep as RoundedStep
from errorfeedback.downlinks.whole import Whole as Whole
from errorfeedback.engines.allow_list import NotAdmittedError as NotAdmittedError
from errorfeedback.engines.base import Engine as Engine
from errorfeedback.engines.base import Session as Session
from errorfeedback.engines.base import Transport as Transport
from errorfeedback.engines.conducting import gathered as gathered
from errorfeedback.engines.elsewhere import Elsewhere as Elsewhere
from errorfeedback.engines.local import Local as Local
from errorfeedback.engines.mpi import MPI as MPI
from errorfeedback.engines.ray import Actors as Actors
from errorfeedback.engines.ray import Ray as Ray
from errorfeedback.engines.remote import RemoteSession as RemoteSession
from errorfeedback.engines.stream import Listener as Listener
from errorfeedback.engines.threads import Threads as Threads
from errorfeedback.methods.base import Method as Method
from errorfeedback.methods.choco import Choco as Choco
from errorfeedback.methods.clag import CLAG as CLAG
from errorfeedback.methods.cocktail_sgd import CocktailSGD as CocktailSGD
from errorfeedback.methods.cocoa import CoCoAPlus as CoCoAPlus
from errorfeedback.methods.dasha import DASHA as DASHA
from errorfeedback.methods.dasha_pp import DASHAPP as DASHAPP
from errorfeedback.methods.dcgd import DCGD as DCGD
from errorfeedback.methods.dgd import DGD as DGD
from errorfeedback.methods.diana import DIANA as DIANA
from errorfeedback.methods.e_control import EControl as EControl
from errorfeedback.methods.ef14 import EF14 as EF14
from errorfeedback.methods.ef14_momentum import EF14Momentum as EF14Momentum
from errorfeedback.methods.ef21 import EF21 as EF21
from errorfeedback.methods.ef21_page import EF21PAGE as EF21PAGE
from errorfeedback.methods.ef21_plus import EF21Plus as EF21Plus
from errorfeedback.methods.ef21_sgdm import EF21SGDM as EF21SGDM
from errorfeedback.methods.fed_avg import FedAvg as FedAvg
from errorfeedback.methods.fed_prox import FedProx as FedProx
from errorfeedback.methods.giant import GIANT as GIANT
from errorfeedback.methods.marina import MARINA as MARINA
from errorfeedback.methods.newton_cg import NewtonCG as NewtonCG
from errorfeedback.methods.node import Node as Node
from errorfeedback.methods.scaffnew import Scaffnew as Scaffnew
from errorfeedback.methods.scaffold import SCAFFOLD as SCAFFOLD
from errorfeedback.methods.three_point import ThreePoint as ThreePoint
from errorfeedback.methods.three_point_v1 import ThreePointV1 as ThreePointV1
from errorfeedback.methods.three_point_v2 import ThreePointV2 as ThreePointV2
from errorfeedback.methods.three_point_v3 import ThreePointV3 as ThreePointV3
from errorfeedback.methods.three_point_v4 import ThreePointV4 as ThreePointV4
from errorfeedback.methods.three_point_v5 import ThreePointV5 as ThreePointV5
from errorfeedback.methods.vr_marina import VRMARINA as VRMARINA
from errorfeedback.planner.inspection import Inspection as Inspection
from errorfeedback.planner.inspection import inspect as inspect
from errorfeedback.planner.network import Links as Links
from errorfeedback.planner.network import Network as Network
from errorfeedback.probes.base import Probe as Probe
from errorfeedback.problems import losses
from errorfeedback.problems.autoencoder import autoencoder as autoencoder
from errorfeedback.problems.base import Problem as Problem
from errorfeedback.problems.estimated import Estimated as Estimated
from errorfeedback.problems.functions import problem as problem
from errorfeedback.problems.gradient_check import check_gradients as check_gradients
from errorfeedback.problems.linear_models import glm as glm
from errorfeedback.problems.linear_models import huber as huber
from errorfeedback.problems.linear_models import least_squares as least_squares
from errorfeedback.problems.linear_models import logistic as logistic
from errorfeedback.problems.linear_models import poisson as poisson
from errorfeedback.problems.linear_models import softmax as softmax
from errorfeedback.problems.linear_models import squared_hinge as squared_hinge
from errorfeedback.problems.losses.base import Loss as Loss
from errorfeedback.problems.noise import sampling_noise as sampling_noise
from errorfeedback.problems.partition import ByGroup as ByGroup
from errorfeedback.problems.partition import InOrder as InOrder
from errorfeedback.problems.partition import Shuffled as Shuffled
from errorfeedback.problems.proximal import ElasticNet as ElasticNet
from errorfeedback.problems.reduced import reduced as reduced
from errorfeedback.problems.regularizers import NonconvexPenalty as NonconvexPenalty
from errorfeedback.problems.ridged import ridged as ridged
from errorfeedback.problems.scaling import scaled as scaled
from errorfeedback.problems.synthetic import synthetic as synthetic
from errorfeedback.registry import members
from errorfeedback.runtime.arrivals import Arrivals as Arrivals
from errorfeedback.runtime.begin import Begin as Begin
from errorfeedback.runtime.extending import Extendable as Extendable
from errorfeedback.runtime.resuming import resume as resume
from errorfeedback.runtime.solve import Result as Result
from errorfeedback.runtime.solve import solve as solve
from errorfeedback.runtime.stopping import Budget as Budget
from errorfeedback.runtime.stopping import EstimatedGap as EstimatedGap
from errorfeedback.runtime.stopping import GradientMapping as GradientMapping
from errorfeedback.runtime.stopping import RelativeDecrease as RelativeDecrease
from errorfeedback.runtime.stopping import Stop as Stop
from errorfeedback.runtime.validation import Validation as Validation
from errorfeedback.runtime.verifying import verify as verify
from errorfeedback.sparsity.support import Support as Support
from errorfeedback.stepsizes.adaptive import Adaptive as Adaptive
from errorfeedback.stepsizes.armijo import Armijo as Armijo
from errorfeedback.stepsizes.automatic import Automatic as Automatic
from errorfeedback.stepsizes.averaging import Averaging as Averaging
from errorfeedback.stepsizes.base import StepSize as StepSize
from errorfeedback.stepsizes.base import Verdict as Verdict
from errorfeedback.stepsizes.best import Best as Best
from errorfeedback.stepsizes.cocoa_step import CocoaStep as CocoaStep
from errorfeedback.stepsizes.constant import Constant as Constant
from errorfeedback.stepsizes.convex import Convex as Convex
from errorfeedback.stepsizes.dasha_step import DashaPPStep as DashaPPStep
from errorfeedback.stepsizes.dasha_step import DashaStep as DashaStep
from errorfeedback.stepsizes.diana_step import DianaConvex as DianaConvex
from errorfeedback.stepsizes.diana_step import DianaStep as DianaStep
from errorfeedback.stepsizes.e_control_step import EControlStep as EControlStep
from errorfeedback.stepsizes.ef21_standard import EF21Standard as EF21Standard
from errorfeedback.stepsizes.exact_root import ExactRoot as ExactRoot
from errorfeedback.stepsizes.inverse_L import InverseL as InverseL
from errorfeedback.stepsizes.local_rules import ScaffnewStep as ScaffnewStep
from errorfeedback.stepsizes.local_rules import ScaffoldStep as ScaffoldStep
from errorfeedback.stepsizes.marina_rules import MarinaAB as MarinaAB
from errorfeedback.stepsizes.marina_rules import MarinaIndependent as MarinaIndependent
from errorfeedback.stepsizes.primal_step import PrimalStep as PrimalStep
from errorfeedback.stepsizes.rare_features import RareFeatures as RareFeatures
from errorfeedback.stepsizes.rare_heavy_ball import RareHeavyBall as RareHeavyBall
from errorfeedback.stepsizes.rare_momentum import RareMomentum as RareMomentum
from errorfeedback.stepsizes.rare_page import RarePAGE as RarePAGE
from errorfeedback.stepsizes.rare_two_way import RareTwoWay as RareTwoWay
from errorfeedback.stepsizes.spectral import Spectral as Spectral
from errorfeedback.stepsizes.three_point_step import ThreePointStep as ThreePointStep
from errorfeedback.stepsizes.vr_marina_step import VRMarinaStep as VRMarinaStep
from errorfeedback.stepsizes.weighted import Weighted as Weighted
from errorfeedback.storage.checkpoint import Checkpoint as Checkpoint
from errorfeedback.storage.packing import storable as storable
from errorfeedback.theory.analysis import Theory as Theory
from errorfeedback.theory.analysis import analyse as analyse
from errorfeedback.theory.analysis import xi as xi
from errorfeedback.watchers.live_page import LivePage as LivePage
from errorfeedback.watchers.mlflow_run import MLflow as MLflow
from errorfeedback.watchers.tensor_board import TensorBoard as TensorBoard
from errorfeedback.watchers.tqdm_bar import TqdmBar as TqdmBar
from errorfeedback.wire.message import Message as Message

FAMILIES: tuple[tuple[ModuleType, type[Any]], ...] = (
    (compressors, Compressor),
    (methods, Method),
    (directions, Direction),
    (downlinks, Downlink),
    (probes, Probe),
    (losses, Loss),
    (stepsizes, StepSize),
)


def discovered() -> dict[str, type[Any]]:
    """Every member of every family, by name; a new file joins by itself."""
    return {name: member for package, base in FAMILIES for name, member in members(package, base).items()}
