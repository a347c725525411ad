#!/usr/bin/env python3
"""Arrays that NumPy saved, through dlctl and back to NumPy."""

import os
import re

from safetensors_file import Tensor, build
from support import DlctlTest, main, np

SQUARE = np.arange(20, dtype="f4").reshape(4, 5)

ARRAYS = {
    "row_major": SQUARE,
    "column_major": np.asfortranarray(np.arange(24, dtype="f8").reshape(2, 3, 4)),
    "neither_order": np.arange(24, dtype="i2").reshape(2, 3, 4).transpose(1, 0, 2),
    "sliced": SQUARE[::2, 1:4],
    "backwards": SQUARE[::-1, ::-1],
    "column": SQUARE[:, 1:2],
    "broadcast": np.broadcast_to(np.float32(7), (3, 4)),
    "zero_dimensions": np.array(2.5),
    "one_element": np.ones((1, 1, 1), "i1"),
    "empty": np.zeros(0, "f4"),
    "empty_inside": np.zeros((3, 0, 2), "i4"),
    "empty_column_major": np.asfortranarray(np.zeros((3, 0, 2), "u2")),
    "bool": np.array([True, False, True]),
    "float16": np.array([1, -0.0, np.nan, np.inf, 6e-8], "f2"),
    "complex64": np.arange(6, dtype="c8").reshape(2, 3) * 1j,
    "complex128": np.asfortranarray(np.arange(6, dtype="c16").reshape(2, 3) - 3j),
    "int64": np.array([-2**63, -1, 0, 2**63 - 1]),
    "uint8": np.arange(256, dtype="u1"),
    "uint32": np.array([2**32 - 1], "u4"),
    "uint64": np.array([2**64 - 1], "u8"),
    "five_dimensions": np.arange(720, dtype="u2").reshape(2, 3, 4, 5, 6),
    "thirty_two_dimensions": np.ones((1,) * 31 + (2,), "f4"),
    "large": np.arange(700000, dtype="u8").reshape(700, 1000),
    "large_column_major": np.asfortranarray(np.arange(600000).reshape(600, 1000)),
}

REFUSED = {
    "object": (np.array([{}], dtype=object), "Python objects"),
    "bytes": (np.array([b"ab"]), "byte strings"),
    "text": (np.array(["ab"]), "Unicode strings"),
    "dates": (np.array(["2020-01-01"], "M8[D]"), "dates"),
    "spans": (np.array([1], "m8[s]"), "time spans"),
    "records": (np.zeros(2, [("a", "f4")]), "save each field as an array of its own"),
    "void": (np.zeros(2, "V2"), "put a .safetensors file"),
    "long_double": (np.zeros(2, "g"), "floats of this width"),
    "long_complex": (np.zeros(2, "G"), "complex numbers of this width"),
}


class Npy(DlctlTest):
    def save(self, name, array):
        path = self.path(name + ".npy")
        np.save(path, array, allow_pickle=True)
        return path

    def test_an_array_comes_back_as_the_same_file(self):
        for name, array in ARRAYS.items():
            with self.subTest(name):
                saved = self.save(name, array)
                self.dlctl("put", "n/" + name, saved)
                self.dlctl("get", "n/" + name, self.path("back.npy"))
                self.assert_same_file(saved, self.path("back.npy"))
                back = np.load(self.path("back.npy"))
                self.assertEqual((back.dtype, back.shape), (array.dtype, array.shape))
                np.testing.assert_array_equal(back, array)

    def test_a_column_major_array_lies_in_memory_as_it_did_in_the_file(self):
        self.dlctl("put", "f", self.save("f", ARRAYS["column_major"]))
        self.assertEqual(self.json("show", "f")["strides"], [1, 2, 6])

    def test_headers_of_later_format_versions_are_read(self):
        for version in (2, 0), (3, 0):
            with open(self.path("v.npy"), "wb") as file:
                np.lib.format.write_array(file, SQUARE, version=version)
            self.dlctl("put", "v", self.path("v.npy"))
            self.dlctl("get", "v", self.path("back.npy"))
            np.testing.assert_array_equal(np.load(self.path("back.npy")), SQUARE)

    def test_the_remedy_for_a_big_endian_array_works(self):
        for dtype in ">f4", ">i8", ">c16", ">u2", ">f2":
            a = np.arange(6).reshape(2, 3).astype(dtype)
            line = self.refused(1, "put", "x", self.save("a", a))
            self.assertIn(f"dtype '{dtype}' is big-endian", line)
            self.assertEqual(self.names(), [])
            remedy = re.search(r"convert it first with (.*)", line)[1]
            self.dlctl("put", "x", self.save("a", eval(remedy, {"a": a})))
            self.dlctl("get", "x", self.path("back.npy"))
            np.testing.assert_array_equal(np.load(self.path("back.npy")), a)
            self.dlctl("rm", "x")

    def test_what_is_no_tensor_is_refused_by_what_it_is(self):
        for name, (array, why) in REFUSED.items():
            with self.subTest(name):
                path = self.save(name, array)
                line = self.refused(1, "put", "x", path)
                self.assertTrue(line.startswith(f"dlctl: put: {path}: "), line)
                self.assertIn(why, line)
        self.assertEqual(self.names(), [])

    def test_a_broken_file_is_refused_by_what_is_wrong(self):
        whole = self.save("whole", SQUARE).read_bytes()
        broken = {
            b"": "does not begin with the magic string",
            b"hello, this is text": "does not begin with the magic string",
            whole[:6] + b"\x09" + whole[7:]: "format version 9 is not known",
            whole[:9]: "the file ends within the header",
            whole[:50]: "the header claims 118 bytes, the file has 40",
            whole[:-1]: "the shape needs 80 bytes of data, the file has 79",
            whole + b"!": "1 bytes follow the array",
            whole.replace(b"'descr'", b"'descR'"): "not a dictionary of descr, fortran_order",
            whole.replace(b"(4, 5)", b"(4,-5)"): "not a dictionary of descr, fortran_order",
            whole.replace(b"'<f4'", b"'<q4'"): "dtype '<q4' is not known",
            whole.replace(b"(4, 5), }" + b" " * 20, b"(4611686018427387904, 5), }  "):
                "the shape overflows",
        }
        for content, why in broken.items():
            with self.subTest(why):
                self.assertIn(why, self.refused(1, "put", "x", self.path("b.npy", content)))
        self.assertEqual(self.names(), [])

    def test_what_numpy_has_no_name_for_is_not_written(self):
        old = self.path("out.npy", b"old")
        file = self.path("b.safetensors", build([Tensor("b", "BF16", [2], b"abcd")]))
        self.dlctl("put", "w", file)
        line = self.refused(1, "get", "w/b", old)
        self.assertIn("'w/b' is bfloat16, which .npy has no name for", line)
        self.assertIn("--raw", line)
        self.assertEqual(old.read_bytes(), b"old")
        self.dlctl("get", "w/b", old, "--raw")
        self.assertEqual(old.read_bytes(), b"abcd")
        self.assertEqual(self.files(), ["b.safetensors", "out.npy"])

    def test_a_file_that_is_replaced_keeps_its_permissions_and_its_links(self):
        saved = self.save("a", SQUARE)
        self.dlctl("put", "a", saved)
        target = self.path("target.npy", b"old")
        target.chmod(0o604)
        os.symlink("target.npy", self.path("link.npy"))
        self.dlctl("get", "a", self.path("link.npy"))
        self.assert_same_file(saved, target)
        self.assertTrue(self.path("link.npy").is_symlink())
        self.assertEqual(target.stat().st_mode & 0o777, 0o604)
        self.assertEqual(self.files(), ["a.npy", "link.npy", "target.npy"])

    def test_get_insists_on_a_version(self):
        self.dlctl("put", "a", self.save("a", SQUARE))
        version = self.json("show", "a")["version"]
        self.dlctl("get", "a", self.path("back.npy"), "--version", version)
        self.assert_same_file(self.path("a.npy"), self.path("back.npy"))
        self.dlctl("put", "a", self.save("b", SQUARE + 1))
        self.assertIn("'a' is not there", self.refused(1, "get", "a", self.path("c.npy"),
                                                       "--version", version))
        self.assertFalse(self.path("c.npy").exists())


if __name__ == "__main__":
    main()
