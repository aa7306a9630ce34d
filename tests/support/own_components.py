"""Catalogs with a test's own components, and weights to compare."""

import torch

from crvnn_core import create_plugin_manager, hookimpl, read_catalog

SMALL = ["model.width=8", "model.scorer.transition=4"]


def weights(assembly):
    return assembly.model.state_dict()


def same_weights(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def with_components(**offers):
    """A catalog with components of a plug-in called Mine beside the installed ones."""

    class Mine:
        @hookimpl
        def crvnn_cells(self):
            return offers.get("cell", [])

        @hookimpl
        def crvnn_encoders(self):
            return offers.get("encoder", [])

        @hookimpl
        def crvnn_embeddings(self):
            return offers.get("embedding", [])

        @hookimpl
        def crvnn_tasks(self):
            return offers.get("task", [])

        @hookimpl
        def crvnn_objectives(self):
            return offers.get("objective", [])

        @hookimpl
        def crvnn_optimizers(self):
            return offers.get("optimizer", [])

    return read_catalog(create_plugin_manager(Mine()))
