"""The names of ``crvnn_core.trees``."""

from crvnn_core.trees.extraction import tree_of as tree_of
from crvnn_core.trees.extraction import trees_of as trees_of
from crvnn_core.trees.formats import FORMATS as FORMATS
from crvnn_core.trees.formats import READABLE as READABLE
from crvnn_core.trees.tree import Nested as Nested
from crvnn_core.trees.tree import Node as Node
from crvnn_core.trees.tree import Tree as Tree
