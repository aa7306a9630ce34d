"""The names of ``crvnn``: what programs need. ``__init__.py`` reads this list."""

from crvnn.encoder import CRvNN as CRvNN
from crvnn.specs import assemble as assemble
from crvnn.specs import catalog as catalog
from crvnn.specs import components as components
from crvnn.specs import read_spec as read_spec
from crvnn.training import resume as resume
from crvnn.training import train as train
from crvnn_core.engine.trace import Trace as Trace
from crvnn_core.errors import CrvnnError as CrvnnError
from crvnn_core.errors import InputError as InputError
from crvnn_core.errors import SpecError as SpecError
from crvnn_core.errors import UnknownNameError as UnknownNameError
from crvnn_core.inference.inspection import Inspection as Inspection
from crvnn_core.inference.predictions import Prediction as Prediction
from crvnn_core.inference.predictions import Predictions as Predictions
from crvnn_core.inference.published_weights import load_published_weights as load_published_weights
from crvnn_core.inference.trained import Trained as Trained
from crvnn_core.inference.trained import load as load
from crvnn_core.inference.tree_scores import TreeScores as TreeScores
from crvnn_core.inference.tree_scores import score_trees as score_trees
from crvnn_core.interfaces import Encoding as Encoding
from crvnn_core.runs.results import Result as Result
from crvnn_core.runs.results import Results as Results
from crvnn_core.runs.results import Score as Score
from crvnn_core.spec import RunSpec as RunSpec
from crvnn_core.trees import Tree as Tree

__version__: str
