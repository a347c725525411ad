#!/usr/bin/env python3
""".safetensors files: one generation in, the same bytes out, and nothing of a broken one."""

import os

from safetensors_file import Tensor, build, entry, pack, parse
from support import DlctlTest, main

ODD_NAMES = [
    "model.embed", "deep/er/est", "a@b/~c//d", "/absolute", "ends/", "~tilde", "..", "a/../b", ".",
    ".safetensors", "100%", "%41", "with space", "back\\slash", "quote\"d", "",
    "new\nline", "\x1b[31mred", "\u202eright to left", "zero\u200bwidth", "\ud83d\ude00".encode(
        "utf-16", "surrogatepass").decode("utf-16"), "größe/重み", "x" * 255,
]

# dtype, shape, bytes
KINDS = [
    ("F32", [3, 4], 48), ("BF16", [5], 10), ("F16", [2, 1, 3], 12), ("F8_E4M3", [2, 2], 4),
    ("F8_E5M2", [7], 7), ("F8_E8M0", [3], 3), ("F4", [4], 2), ("F6_E2M3", [4], 3),
    ("BOOL", [2], 2), ("U8", [3], 3), ("I8", [1], 1), ("I16", [2], 4), ("U32", [2], 8),
    ("I64", [0], 0), ("F32", [3, 0, 2], 0), ("F64", [], 8), ("U64", [2, 2], 32), ("C64", [2], 16),
]


def many_kinds():
    return [Tensor(f"layer.{i}/{dtype}", dtype, shape, os.urandom(size))
            for i, (dtype, shape, size) in enumerate(KINDS)]


def one(dtype="F32", shape=(1,), begin=0, end=4, name="t", data=b"1234", **others):
    return pack({name: entry(dtype, list(shape), begin, end), **others}, data)


BROKEN = [
    (b"", "it is shorter than 8 bytes"),
    (b"1234567", "it is shorter than 8 bytes"),
    ((1 << 63).to_bytes(8, "little") + b"{}", "the header claims 9223372036854775808 bytes; "),
    ((100).to_bytes(8, "little") + b"{}", "the header claims 100 bytes, the file has 2"),
    (pack(b""), "the header does not begin with '{'"),
    (pack(b" {}"), "the header does not begin with '{'"),
    (pack(b"[]"), "the header does not begin with '{'"),
    (pack(b"{"), "the header is not JSON"),
    (pack(b"{}!"), "the header is not JSON"),
    (pack(b'{"\xff":1}'), "the header is not JSON"),
    (pack(b'{"a\\u0000b":1}'), "the header is not JSON"),
    (pack(b'{"a":1,"a":2}'), "the header is not JSON: duplicate"),
    (pack(b'{"a":' + b"[" * 100000), "the header is not JSON"),
    (pack({"t": 3}), "tensor 't' has no dtype"),
    (pack({"t": {}}), "tensor 't' has no dtype"),
    (pack({"t": {"dtype": 7, "shape": [], "data_offsets": [0, 0]}}), "tensor 't' has no dtype"),
    (one(dtype="F7"), "tensor 't': dtype 'F7' is not known"),
    (one(dtype="f32"), "tensor 't': dtype 'f32' is not known"),
    (pack({"t": {"dtype": "F32", "data_offsets": [0, 4]}}, b"1234"), "tensor 't' has no shape"),
    (one(shape=[-1]), "tensor 't': dimension 0 is not a number of 0 or more"),
    (one(shape=[1, 1.5]), "tensor 't': dimension 1 is not a number of 0 or more"),
    (one(shape=["1"]), "tensor 't': dimension 0 is not a number of 0 or more"),
    (one(shape=[1 << 64]), "the header is not JSON: too big integer"),
    (one(shape=[1 << 62, 4]), "tensor 't': its shape does not come to a whole number of bytes"),
    (one(shape=[1] * 65), "tensor 't' has 65 dimensions; 64 is the limit"),
    (one(dtype="F4", shape=[3], end=2, data=b"12"), "does not come to a whole number of bytes"),
    (one(begin=4, end=0), "tensor 't': data_offsets are not a begin and an end"),
    (one(begin=-4, end=0), "tensor 't': data_offsets are not a begin and an end"),
    (pack({"t": {"dtype": "F32", "shape": [1]}}), "data_offsets are not a begin and an end"),
    (one(end=1 << 62), "tensor 't' ends at byte 4611686018427387904 of the data; the file has 4"),
    (one(shape=[2]), "tensor 't': dtype and shape need 8 bytes, data_offsets give 4"),
    (one(data=b"12345"), "1 bytes of data belong to no tensor"),
    (one(data=b"123"), "tensor 't' ends at byte 4 of the data; the file has 3"),
    (one(begin=4, end=8, data=b"12345678"), "a hole of 4 bytes lies before tensor 't'"),
    (pack({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, b"123456"),
     "tensors 'a' and 'b' overlap"),
    (one(__metadata__=[]), "__metadata__ is not an object of strings"),
    (one(__metadata__={"k": 1}), "__metadata__: the value of 'k' is not a string"),
    (one(name="\x1b[31m\n", dtype="?"), r"tensor '\x1b[31m\x0a': dtype '?' is not known"),
    (one(name="x" * 256), "at most 255 bytes between two slashes"),
    (one(name="/".join(["x" * 250] * 5)), "at most 1023 bytes"),
]


class Safetensors(DlctlTest):
    def put(self, name, tensors, prefix="w", **options):
        path = self.path(name, build(tensors, **options))
        self.dlctl("put", prefix, path)
        return path

    def get(self, *arguments):
        self.dlctl("get", *arguments, self.path("out.safetensors"))
        return self.path("out.safetensors")

    def test_every_dtype_comes_back_in_the_same_file(self):
        path = self.put("m.safetensors", many_kinds(), metadata={"format": "pt"})
        self.assert_same_file(path, self.get("w"))
        self.assert_same_file(path, self.get("w/"))
        self.assertTrue(self.dlctl("get", "w", "-", "--type", "safetensors") == path.read_bytes())

    def test_a_header_that_no_program_would_write_again_comes_back(self):
        tensors = [Tensor("z", "U8", [1], b"z"), Tensor("a", "F64", [], b"12345678")]
        path = self.put("m.safetensors", tensors, metadata={"b": "2", "a": "\u00e4\n"}, indent=3)
        self.assert_same_file(path, self.get("w"))

    def test_metadata_of_100_kib_comes_back(self):
        metadata = {"config": "m" * 100 * 1024, "empty": "", "quotes": "\"'\\\u2028"}
        path = self.put("m.safetensors", many_kinds(), metadata=metadata)
        self.assert_same_file(path, self.get("w"))
        self.assertEqual(parse(self.get("w").read_bytes())[0], metadata)

    def test_any_name_comes_back(self):
        path = self.put("m.safetensors", [Tensor(name, "U8", [1], bytes([i]))
                                          for i, name in enumerate(ODD_NAMES)])
        self.assertEqual(len(self.names("w/")), len(ODD_NAMES) + 1)
        self.assert_same_file(path, self.get("w"))
        # Each can be had alone, as what it is called below the prefix.
        self.assertIn("w/~tilde".replace("~", "%7E"), self.names())
        self.assertEqual(self.dlctl("get", "w/model.embed", "-"), b"\0")

    def test_a_file_without_tensors_comes_back(self):
        for content in build([]), build([], metadata={"only": "this"}), pack(b"{}"):
            path = self.path("m.safetensors", content)
            self.dlctl("put", "w", path)
            self.assert_same_file(path, self.get("w"))

    def test_a_file_is_one_generation(self):
        report = self.json("put", "w", self.path("m.safetensors", build(many_kinds())))
        self.assertEqual(report["tensors"], len(KINDS) + 1)
        versions = {tensor["version"] for tensor in self.json("list", "w/")}
        self.assertEqual(versions, {report["version"]})

    def test_a_prefix_may_end_in_a_slash(self):
        path = self.put("m.safetensors", many_kinds(), prefix="w/")
        self.assert_same_file(path, self.get("w"))

    def test_who_holds_a_generation_keeps_it_while_it_is_replaced(self):
        sizes = {"a": 300000, "b/c": 200000}
        old, new = ([Tensor(name, "U8", [size], os.urandom(size)) for name, size in sizes.items()]
                    for _ in range(2))
        first = self.put("old.safetensors", old)
        holder = self.hold("w", "--type", "safetensors")
        second = self.put("new.safetensors", new)
        self.assert_same_file(second, self.get("w"))
        retired = [tensor for tensor in self.json("list", "w/", "--retired")
                   if tensor["state"] == "retired"]
        self.assertEqual({(tensor["name"], tensor["readers"]) for tensor in retired},
                         {("w/.safetensors", 1), ("w/a", 1), ("w/b/c", 1)})
        self.assertTrue(self.let_go(holder) == first.read_bytes())
        self.until(lambda: len(self.names("w/", "--retired")) == 3, "the old generation is gone")

    def test_what_an_older_file_had_more_is_left_out_with_a_warning(self):
        self.put("old.safetensors", many_kinds())
        path = self.put("new.safetensors", many_kinds()[:2])
        result = self.run_tool("get", "w", self.path("out.safetensors"))
        self.assertEqual(result.code, 0)
        self.assertRegex(result.err, r"\Adlctl: get: 16 more below 'w' .* are left out\n\Z")
        self.assert_same_file(path, self.path("out.safetensors"))

    def test_a_changed_tensor_makes_a_new_header_and_keeps_the_metadata(self):
        tensors = many_kinds()
        self.put("m.safetensors", tensors, metadata={"format": "pt"})
        self.dlctl("put", "w/" + tensors[0].name, self.path("raw", b"12345"))
        result = self.run_tool("get", "w", self.path("out.safetensors"))
        self.assertEqual(result.code, 0)
        self.assertRegex(result.err, r"\A[^\n]* making a new header\n\Z")
        metadata, found = parse(self.path("out.safetensors").read_bytes())
        wanted = {tensor.name: tensor for tensor in tensors}
        wanted[tensors[0].name] = Tensor(tensors[0].name, "U8", [5], b"12345")
        self.assertEqual((metadata, found), ({"format": "pt"}, wanted))

    def test_tensors_that_came_from_no_file_become_one(self):
        for name, content in ("a", b"aaa"), ("b/c", b"c"), ("b/%7E", b"~"):
            self.dlctl("put", "n/" + name, self.path("raw", content))
        _, found = parse(self.get("n").read_bytes())
        self.assertEqual({name: tensor.data for name, tensor in found.items()},
                         {"a": b"aaa", "b/c": b"c", "b/~": b"~"})
        _, alone = parse(self.get("n/b/c").read_bytes())
        self.assertEqual(alone, {"c": Tensor("c", "U8", [1], b"c")})

    def test_a_broken_file_is_refused_by_what_is_wrong_and_leaves_nothing(self):
        for content, why in BROKEN:
            with self.subTest(why):
                path = self.path("b.safetensors", content)
                line = self.refused(1, "put", "w", path)
                self.assertIn(why, line)
        self.assertEqual(self.names("--retired"), [])

    def test_a_broken_file_beside_a_whole_one_leaves_nothing(self):
        whole = self.path("a.safetensors", build(many_kinds()))
        broken = self.path("b.safetensors", one(shape=[2]))
        self.refused(1, "put", "w", whole, broken)
        self.assertEqual(self.names("--retired"), [])

    def test_nothing_below_a_prefix_is_an_error_and_no_file(self):
        self.assertIn("'w' is not there", self.refused(1, "get", "w", self.path("o.safetensors")))
        self.assertEqual(self.files(), [])


class SafetensorsInLittleMemory(DlctlTest):
    daemon_arguments = ("--max-bytes", "1M")

    def test_a_file_that_does_not_fit_leaves_nothing(self):
        tensors = [Tensor(name, "U8", [400000], bytes(400000)) for name in "abcd"]
        large = self.path("large.safetensors", build(tensors))
        small = self.path("small.safetensors", build(tensors[:1]))
        for _ in range(3):
            self.assertIn("bytes", self.refused(1, "put", "w", large))
            self.assertEqual(self.names("--retired"), [])
            self.dlctl("put", "w", small)
            self.dlctl("rm", "-r", "w/")


if __name__ == "__main__":
    main()
