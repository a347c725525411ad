#!/usr/bin/env python3
"""Raw bytes, pipes, and what happens where files cannot be read or written."""

import io
import os

from support import DlctlTest, main, np


class Streams(DlctlTest):
    def test_bytes_come_back(self):
        for size in 0, 1, 70001, 9 << 20:
            path = self.path("in", os.urandom(size))
            self.dlctl("put", "r", path)
            self.dlctl("get", "r", self.path("out"))
            self.assert_same_file(path, self.path("out"))

    def test_a_dash_is_standard_input_and_output(self):
        content = os.urandom(300000)
        self.dlctl("put", "piped", "-", stdin=content)
        with open(self.path("in", content), "rb") as file:
            self.dlctl("put", "redirected", "-", stdin=file)
        with open(self.path("in"), "rb", buffering=0) as file:
            file.seek(1000)
            self.dlctl("put", "from_the_middle", "-", stdin=file)
        self.dlctl("put", "nothing", "-")
        self.assertTrue(self.dlctl("get", "piped", "-") == content)
        self.assertTrue(self.dlctl("get", "redirected", "-") == content)
        self.assertTrue(self.dlctl("get", "from_the_middle", "-") == content[1000:])
        self.assertEqual(self.dlctl("get", "nothing", "-"), b"")

    def test_a_type_can_be_said_where_no_file_name_says_it(self):
        array = np.arange(6, dtype="f4").reshape(2, 3)
        file = io.BytesIO()
        np.save(file, array)
        self.dlctl("put", "a", "-", "--type", "npy", stdin=file.getvalue())
        self.assertEqual(self.json("show", "a")["shape"], [2, 3])
        self.assertEqual(self.dlctl("get", "a", "-", "--type", "npy"), file.getvalue())
        self.assertEqual(self.dlctl("get", "a", "-"), array.tobytes())

    def test_raw_takes_a_file_of_any_name_as_bytes(self):
        path = self.path("a.npy", b"no array at all")
        self.dlctl("put", "a", path, "--raw")
        self.assertEqual(self.dlctl("get", "a", "-"), b"no array at all")
        self.dlctl("get", "a", self.path("b.safetensors"), "--raw")
        self.assert_same_file(path, self.path("b.safetensors"))

    def test_several_files_appear_together_below_a_prefix(self):
        for prefix in "p", "q/":
            report = self.json("put", prefix, self.path("one.bin", b"1"),
                               self.path("two", b"22"), self.path("50%", b"333"))
            self.assertEqual((report["tensors"], report["bytes"]), (3, 6))
            self.assertEqual({tensor["version"] for tensor in self.json("list", prefix[0] + "/")},
                             {report["version"]})
        self.assertEqual(self.names("p/"), ["p/50%25", "p/one", "p/two"])
        self.assertEqual(self.names("q/"), ["q/50%25", "q/one", "q/two"])

    def test_two_files_of_one_name_are_refused_and_leave_nothing(self):
        line = self.refused(1, "put", "p", self.path("a.bin", b"1"), self.path("a.raw", b"2"))
        self.assertIn("p/a", line)
        self.assertEqual(self.names("--retired"), [])

    def test_a_reader_that_has_seen_enough_is_no_failure(self):
        self.dlctl("put", "r", "-", stdin=bytes(1 << 20))
        reader = self.hold("r")
        reader.stdout.close()
        self.assertEqual(reader.wait(), 0)

    def test_what_cannot_be_read_is_named(self):
        missing = self.path("missing.npy")
        self.assertIn(f"{missing}: No such file", self.refused(1, "put", "x", missing))
        self.assertIn("Is a directory", self.refused(1, "put", "x", self.folder))
        self.assertEqual(self.names(), [])

    def test_what_cannot_be_written_is_named(self):
        self.dlctl("put", "r", "-", stdin=b"12345")
        beside = self.folder / "none" / "out"
        self.assertIn(f"{beside}: No such file", self.refused(1, "get", "r", beside))
        self.assertIn("Is a directory", self.refused(1, "get", "r", self.folder))
        self.assertIn("No space left", self.refused(1, "get", "r", "/dev/full"))
        self.assertEqual(self.dlctl("get", "r", "/dev/null"), b"")
        self.assertEqual(self.files(), [])

    def test_output_that_does_not_arrive_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            for arguments in (["list"], ["help"], ["stats", "--json"]):
                result = self.run_tool(*arguments, stdout=full)
                self.assertEqual(result.code, 1, arguments)
                self.assertIn("cannot write to standard output: No space left", result.err)

    def test_a_prefix_is_no_tensor(self):
        self.dlctl("put", "p/a", "-", stdin=b"1")
        for arguments in (["get", "p", self.path("o")], ["show", "p"], ["rm", "p"]):
            self.assertIn("'p' is a prefix", self.refused(1, *arguments))


if __name__ == "__main__":
    main()
