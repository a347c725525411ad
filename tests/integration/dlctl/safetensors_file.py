"""The .safetensors format, written anew from its description, to judge dlctl by.

Eight bytes say how long the header is, little-endian. The header is a JSON object: a name to
{"dtype", "shape", "data_offsets"} for each tensor, and "__metadata__" to an object of strings.
Then come the bytes of the tensors, without holes.
"""

import collections
import json
import struct

Tensor = collections.namedtuple("Tensor", "name dtype shape data")


def pack(header, data=b""):
    """A file from a header (an object, or the bytes of one) and data, right or wrong."""
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def build(tensors, metadata=None, indent=None):
    """A well-formed file. `indent` makes a header no program would make again by itself."""
    header = {} if metadata is None else {"__metadata__": metadata}
    data = b""
    for tensor in tensors:
        end = len(data) + len(tensor.data)
        header[tensor.name] = entry(tensor.dtype, tensor.shape, len(data), end)
        data += tensor.data
    text = json.dumps(header, indent=indent).encode()
    return pack(text + b" " * (-len(text) % 8), data)


def parse(content):
    """(metadata, {name: Tensor})"""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    data = content[8 + length:]
    metadata = header.pop("__metadata__", None)
    tensors = {}
    for name, value in header.items():
        begin, end = value["data_offsets"]
        tensors[name] = Tensor(name, value["dtype"], value["shape"], data[begin:end])
    return metadata, tensors
