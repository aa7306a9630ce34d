"""What the tests of training share."""

import pytest

from crvnn_core.model.model import Model


@pytest.fixture
def on_forward(monkeypatch):
    """Calls a function after every forward pass in training, with the batch."""

    def register(callback):
        forward = Model.forward

        def forward_and_call(self, batch, **options):
            output = forward(self, batch, **options)
            if self.training:
                callback(batch)
            return output

        monkeypatch.setattr(Model, "forward", forward_and_call)

    return register
