"""The contract of embeddings: built-in embeddings satisfy it, and each check fails for one that violates it."""

import torch

from contract_cases import contract_tests
from crvnn_core import Embedding
from crvnn_core.testing.contracts.embedding import TOKENS

#: Settings away from the defaults: the component's name, and what is set.
VARIANTS = [("random", ("size=3",))]


class PlainEmbedding(Embedding):
    """Satisfies the contract; the faulty ones below differ from it in one method."""

    def table(self, tokens, width):
        return tokens, torch.randn(len(tokens), width)


class RepeatedToken(PlainEmbedding):
    def table(self, tokens, width):
        return super().table([*tokens, tokens[0]], width)


class TokensAreNumbers(PlainEmbedding):
    def table(self, tokens, width):
        return list(range(len(tokens))), torch.ones(len(tokens), width)


class NoTokenFound(PlainEmbedding):
    def table(self, tokens, width):
        return super().table(["something", "else"], width)


class OneVectorMissing(PlainEmbedding):
    def table(self, tokens, width):
        return tokens, torch.ones(len(tokens) - 1, width)


class WholeNumbers(PlainEmbedding):
    def table(self, tokens, width):
        return tokens, torch.ones(len(tokens), width, dtype=torch.long)


class NanVector(PlainEmbedding):
    def table(self, tokens, width):
        tokens, vectors = super().table(tokens, width)
        vectors[-1, 0] = torch.nan
        return tokens, vectors


class ListOfLists(PlainEmbedding):
    def table(self, tokens, width):
        return tokens, [[0.0] * width for _ in tokens]


class UndecidedTraining(PlainEmbedding):
    trainable = "perhaps"


class OwnGenerator(PlainEmbedding):
    generator = torch.Generator().manual_seed(0)

    def table(self, tokens, width):
        return tokens, torch.randn(len(tokens), width, generator=self.generator)


class CountsCalls(PlainEmbedding):
    """The first table differs from the next."""

    asked = 0

    def table(self, tokens, width):
        self.asked += 1
        return tokens, torch.full((len(tokens), width), float(self.asked))


class SortsItsInput(PlainEmbedding):
    def table(self, tokens, width):
        if isinstance(tokens, list):
            tokens.sort()
        return super().table(tokens, width)


class SharesItsVectors(PlainEmbedding):
    def __init__(self):
        self.vectors = torch.ones(len(TOKENS), 3)

    def table(self, tokens, width):
        return tokens, self.vectors[: len(tokens)]


class NeedsTwoTokens(PlainEmbedding):
    def table(self, tokens, width):
        if len(tokens) < 2:
            raise ZeroDivisionError
        return super().table(tokens, width)


#: A check, an embedding that fails it, and a part of the reason that is given.
FAULTY = [
    ("names_its_tokens", RepeatedToken, "tokens are there more than once: the"),
    ("names_its_tokens", TokensAreNumbers, "0 is not a text"),
    ("names_its_tokens", NoTokenFound, "none of the tokens that were asked for has a vector"),
    ("has_a_vector_for_each_token", OneVectorMissing, "9 tokens, but the vectors have the shape [8, 6]"),
    ("has_a_vector_for_each_token", WholeNumbers, "the vectors are torch.int64, which cannot be trained"),
    ("has_a_vector_for_each_token", NanVector, "a vector has NaN or infinity in it"),
    ("has_a_vector_for_each_token", ListOfLists, "the vectors are a list, not a torch.Tensor"),
    ("says_whether_it_is_trained", UndecidedTraining, "trainable is 'perhaps'"),
    ("depends_on_the_seed_alone", OwnGenerator, "asked a second time: the vectors differ"),
    ("depends_on_the_seed_alone", CountsCalls, "asked a second time: the vectors differ"),
    ("changes_nothing", SortsItsInput, "the list of tokens that it was given has changed"),
    ("changes_nothing", SharesItsVectors, "asked again after training on what it gave: the vectors differ"),
    ("takes_one_token", NeedsTwoTokens, "ZeroDivisionError"),
]


test_built_in, test_plain, test_faulty, test_each = contract_tests(
    "embedding", PlainEmbedding, FAULTY, VARIANTS
)
