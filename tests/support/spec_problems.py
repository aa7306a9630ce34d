"""The problems that reading a spec reports, as texts."""

import pytest

from crvnn_core import SpecError
from crvnn_core.spec import read_spec


def problems_of(catalog, *args, **kwargs):
    with pytest.raises(SpecError) as caught:
        read_spec(catalog, *args, **kwargs)
    return [str(problem) for problem in caught.value.problems]


def the_problem_of(catalog, *args, **kwargs):
    (problem,) = problems_of(catalog, *args, **kwargs)
    return problem
