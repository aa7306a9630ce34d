"""The recursion engine of crvnn, its interfaces, and the host that puts variants together: for authors of plug-ins.

The names are listed in ``__init__.pyi`` and imported when they are first used, so that the command line starts quickly.
"""

from crvnn_core.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
