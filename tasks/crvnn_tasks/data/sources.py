"""The published files: their URLs and checksums.

The publishers list no checksums. Those of the archives are the ones that other public projects use; those of the logic
files were computed from copies. A file without one is compared with what was downloaded first.
"""

from __future__ import annotations

from attrs import frozen


@frozen
class Part:
    """A file to download: either a data file itself, or a zip archive with ``members`` to extract."""

    url: str
    sha256: str = ""
    members: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Its name, from the URL."""
        return self.url.rpartition("/")[2]

    @property
    def wanted(self) -> tuple[str, ...]:
        """The names of the data files that it provides."""
        return self.members or (self.file,)


_LISTOPS = "https://raw.githubusercontent.com/nyu-mll/spinn/listops-release/python/spinn/data/listops"
_LOGIC = (
    "https://raw.githubusercontent.com/yikangshen/Ordered-Neurons/9d193144971aa0f3f13a5f1b5246cf97477dc2f6/data/"
    "propositionallogic"
)
_LOGIC_SUMS = (  # of train0, train1, ...
    "6b7679d24a5121e747bbb6e1606c33773ef2803d2f1e3e5961f396bfe6d5ead1",
    "b18140de23966481c20d6d4cac1f014322f760d6f891f643ff4beca48df1d347",
    "b08cfe4e89fa941d053b7ba229f3743d25d0a73235c628bf45da645336ecc22a",
    "ab0dd5694b97815ed29d2be7016790ba78b5173b68df5702ed4d0f9cad087041",
    "ca53b91edcb966330ca6a4241ca313932f3dd897ce7af18b2446e6c551bb63fc",
    "8c6db46c7527aea7f685400075c2cebad2a36acb4904371c052827f3769baa00",
    "ab507a99dcd2f7a2c4a3c81fbdbf0e55e1169d48f1be177ee8278778f34cf141",
    "939a58dfb0ca552eedf479c4db414e115da88d9a5e665cf101a35dfa735d1d51",
    "469f3e45b28a63ddc48f687d9b8a6813f431f8cd38366c90facf8ea6e677dc34",
    "b65a324de9862d74de4165696b5570342f5e323eb95ceccb679959a71978d769",
    "dd50e0c545773f84767c4ecde1a4d331217e7a8cc2ecfb487a80525d05b73e1a",
    "18012480bb981a6d03cb3225b0e5761b84df9e4e2a659b5fdf911e0d0b35993e",
    "cfeced4bcf2c4364fec121b1c97cbd59a535a377d6123bd280400d627da9ec4c",
)

#: The data sets of ``crvnn data get``, by name.
DATASETS: dict[str, tuple[Part, ...]] = {
    "listops": tuple(Part(f"{_LISTOPS}/{split}_d20s.tsv") for split in ("train", "test")),
    "logic": (
        *(Part(f"{_LOGIC}/train{number}", sha256) for number, sha256 in enumerate(_LOGIC_SUMS)),
        *(Part(f"{_LOGIC}/test{number}") for number in range(13)),
    ),
    "sst": (
        Part(
            "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",
            "5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc",
            ("train.txt", "dev.txt", "test.txt"),
        ),
    ),
    "snli": (
        Part(
            "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
            "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
            ("snli_1.0_train.jsonl", "snli_1.0_dev.jsonl", "snli_1.0_test.jsonl"),
        ),
    ),
    "mnli": (
        Part(
            "https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip",
            "049f507b9e36b1fcb756cfd5aeb3b7a0cfcb84bf023793652987f7e7e0957822",
            (
                "multinli_1.0_train.jsonl",
                "multinli_1.0_dev_matched.jsonl",
                "multinli_1.0_dev_mismatched.jsonl",
            ),
        ),
    ),
    "glove": (  # is read without unpacking
        Part(
            "https://nlp.stanford.edu/data/glove.840B.300d.zip",
            "c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f",
        ),
    ),
    "glove-6b": (
        Part(
            "https://nlp.stanford.edu/data/glove.6B.zip",
            "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
            tuple(f"glove.6B.{width}d.txt" for width in (50, 100, 200, 300)),
        ),
    ),
}
#: Tasks whose data set has another name.
SAME = {"sst2": "sst", "sst5": "sst"}
