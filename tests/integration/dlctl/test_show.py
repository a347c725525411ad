#!/usr/bin/env python3
"""`dlctl show`: what is known of a tensor, and its values against NumPy's and ours by hand."""

import math
import os
import re

from safetensors_file import Tensor, build
from support import PATIENCE, DlctlTest, main, np, user_name

NAN, INF = math.nan, math.inf

# dtype: (bytes, the values they are), written out by hand from the formats' definitions.
BY_HAND = {
    "BF16": (bytes.fromhex("803f 00c0 807f c07f 80ff 0100 0080 2041"),
             [1, -2, INF, NAN, -INF, 2.0**-133, -0.0, 10]),
    "F8_E4M3": (bytes.fromhex("00 38 7e 7f ff 01 b8 fe"),
                [0, 1, 448, NAN, NAN, 2.0**-9, -1, -448]),
    "F8_E5M2": (bytes.fromhex("00 3c 7b 7c 7d 7f fc 01"),
                [0, 1, 57344, INF, NAN, NAN, -INF, 2.0**-16]),
    "F8_E4M3FNUZ": (bytes.fromhex("00 40 7f 80 c0 ff 01"),
                    [0, 1, 240, NAN, -1, -240, 2.0**-10]),
    "F8_E5M2FNUZ": (bytes.fromhex("00 40 7f 80 c0 01"),
                    [0, 1, 57344, NAN, -1, 2.0**-17]),
    "F8_E8M0": (bytes.fromhex("7f 80 00 ff fe"),
                [1, 2, 2.0**-127, NAN, 2.0**127]),
    # Within a byte the first element has the lowest bits.
    "F6_E2M3": ((0x08 | 0x1f << 6 | 0x28 << 12 | 0x01 << 18).to_bytes(3, "little"),
                [1, 7.5, -1, 0.125]),
    "F6_E3M2": ((0x0c | 0x1f << 6 | 0x2c << 12 | 0x01 << 18).to_bytes(3, "little"),
                [1, 28, -1, 0.0625]),
    "F4": (bytes.fromhex("10 32 54 76 f8"), [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -6]),
}

GOLDEN = """\
name       model/w
version    #
state      live
dtype      float32
shape      [2,3]
strides    [3,1]
size       24 B
device     cpu
owner      {user}
group      {group}
mode       rw-r-----
lifetime   persistent
created    # (#s ago)
publisher  {user}, process #
readers    0
backend    memfd
place      segment #, offset 0
attribute  color=\\x1b[31mred\\\\
attribute  step=7
min        -2.5
max        inf
mean       0.625
nan        1
inf        1
values     0.5, nan, inf, -2.5, ...
"""

GOLDEN_JSON = {
    "name": "model/w", "state": "live", "flags": [], "dtype": "float32", "shape": [2, 3],
    "strides": [3, 1], "nbytes": 24, "device": "cpu", "lifetime": "persistent",
    "backend": "memfd", "mode": "0640", "readers": 0, "offset": 0,
    "attributes": {"step": "7", "color": "\x1b[31mred\\"},
    "min": -2.5, "max": None, "mean": 0.625, "nan": 1, "inf": 1,
    "values": "0.5, nan, inf, -2.5",
}


def without_the_changing(text):
    for pattern, replacement in ((r"^(version +)\d+", r"\1#"), (r"(process )\d+", r"\1#"),
                                 (r"(segment )\d+", r"\1#"), (r"\(\d+s ago", "(#s ago"),
                                 (r"^(created +)\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} \+0000",
                                  r"\1#")):
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def values_line(text):
    return re.search(r"^values +(.*)$", text, re.MULTILINE)[1]


class Show(DlctlTest):
    def put(self, name, array, *arguments):
        np.save(self.path("a.npy"), array)
        self.dlctl("put", name, self.path("a.npy"), *arguments)

    def put_golden(self):
        self.put("model/w", np.array([[0.5, NAN, INF], [-2.5, 4, 0.5]], "f4"), "--mode", "0640",
                 "--attr", "step=7", "--attr", "color=\x1b[31mred\\")

    def test_all_that_is_known_is_a_line_each(self):
        self.put_golden()
        group = self.json("show", "model/w")["group"]
        self.assertEqual(without_the_changing(self.text("show", "model/w", "-n", 4)),
                         GOLDEN.format(user=user_name(), group=group))

    def test_json_has_the_same_and_the_mode_as_chmod_reads_it(self):
        self.put_golden()
        shown = self.json("show", "model/w", "-n", 4)
        self.assertEqual({key: shown[key] for key in GOLDEN_JSON}, GOLDEN_JSON)
        self.assertEqual(set(shown) - set(GOLDEN_JSON),
                         {"version", "owner", "owner_uid", "group", "gid", "publisher_uid",
                          "publisher_pid", "created_us", "age_ms", "segment"})
        self.assertEqual((shown["owner_uid"], shown["publisher_uid"]), (os.getuid(), os.getuid()))
        for mode in "0600", "0604", "0666":
            self.put("m", np.zeros(1), "--mode", mode)
            self.assertEqual(self.json("show", "m")["mode"], mode)
            self.assertEqual(self.json("list", "m")[0]["mode"], mode)

    def test_the_summary_is_what_numpy_says(self):
        random = np.random.default_rng(1)
        for dtype in "f2", "f4", "f8":
            array = random.normal(scale=300, size=(7, 11, 13)).astype(dtype)
            array[1, 2, 3:6] = [NAN, INF, -INF]
            array[3] = np.finfo(dtype).smallest_subnormal
            for number, one in enumerate((array, np.asfortranarray(array), array[::2, 1:, ::-1])):
                with self.subTest(dtype, layout=number):
                    self.put("x", one)
                    self.check_floats(one)

    def check_floats(self, array):
        finite = array[np.isfinite(array)].astype("f8")
        shown = self.json("show", "x", "-n", array.size)
        self.assertEqual((shown["nan"], shown["inf"]),
                         (np.isnan(array).sum(), np.isinf(array).sum()))
        self.assertAlmostEqual(shown["mean"], finite.mean(), delta=abs(finite.mean()) * 1e-12)
        # The text of a value reads back as the same value of its type.
        text = self.text("show", "x")
        for word, wanted in ("min", np.nanmin(array)), ("max", np.nanmax(array)):
            found = re.search(rf"^{word} +(\S+)$", text, re.MULTILINE)[1]
            self.assertEqual(array.dtype.type(found), wanted)
            self.assertEqual(shown[word], float(wanted) if np.isfinite(wanted) else None)
        values = np.array(shown["values"].split(", ")).astype("f8").astype(array.dtype)
        np.testing.assert_array_equal(values, array.ravel())

    def test_whole_numbers_and_booleans_are_counted_exactly(self):
        for dtype in "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8":
            info = np.iinfo(dtype)
            self.put("x", np.array([info.max, 1, info.min], dtype))
            text = self.text("show", "x")
            self.assertRegex(text, rf"(?m)^min +{info.min}\nmax +{info.max}\nmean ")
            self.assertEqual(values_line(text), f"{info.max}, 1, {info.min}")
            self.assertNotRegex(text, "(?m)^nan")
        self.put("x", np.array([True, False, True, True]))
        self.assertRegex(self.text("show", "x"),
                         "(?m)^min +false\nmax +true\nmean +0.75\nvalues +true, false, true, true")

    def test_complex_numbers_have_a_mean_and_no_order(self):
        self.put("x", np.array([1 + 2j, 3 - 1j, complex(NAN, 1), complex(0, -INF)], "c8"))
        text = self.text("show", "x")
        self.assertRegex(text, r"(?m)^mean +2\+0.5j\nnan +1\ninf +1\n"
                               r"values +1\+2j, 3-1j, nan\+1j, 0-infj$")
        self.assertNotRegex(text, "(?m)^(min|max)")
        self.assertEqual(self.json("show", "x")["mean"], [2, 0.5])

    def test_the_types_numpy_lacks_are_read_as_their_definitions_say(self):
        tensors = [Tensor(dtype, dtype, [len(values)], data)
                   for dtype, (data, values) in BY_HAND.items()]
        self.dlctl("put", "w", self.path("m.safetensors", build(tensors)))
        for dtype, (_, values) in BY_HAND.items():
            with self.subTest(dtype):
                shown = self.json("show", "w/" + dtype, "-n", 100)
                numbers = [value for value in values if not math.isnan(value)]
                finite = [value for value in numbers if math.isfinite(value)]
                for word, wanted in ("min", min(numbers)), ("max", max(numbers)):
                    self.assertEqual(shown[word], wanted if math.isfinite(wanted) else None)
                self.assertAlmostEqual(shown["mean"], sum(finite) / len(finite))
                self.assertEqual(shown["nan"], len(values) - len(numbers))
                self.assertEqual(shown["inf"], len(numbers) - len(finite))
                np.testing.assert_allclose([float(word) for word in shown["values"].split(", ")],
                                           values, rtol=1e-4)

    def test_a_tensor_without_elements_has_no_values(self):
        self.put("x", np.zeros((3, 0), "f4"))
        self.assertNotRegex(self.text("show", "x"), "(?m)^(min|max|mean|values)")
        self.assertEqual(self.json("show", "x")["values"], "")

    def test_as_many_values_as_were_asked_for_are_shown(self):
        self.put("x", np.arange(10))
        self.assertEqual(values_line(self.text("show", "x")), "0, 1, 2, 3, 4, 5, 6, 7, ...")
        self.assertEqual(values_line(self.text("show", "x", "-n2")), "0, 1, ...")
        self.assertEqual(values_line(self.text("show", "x", "--values", 10)),
                         "0, 1, 2, 3, 4, 5, 6, 7, 8, 9")
        self.assertNotRegex(self.text("show", "x", "-n", 0), "(?m)^values")
        self.assertNotRegex(self.text("show", "x", "--no-values"), "(?m)^(min|mean|values)")

    def test_what_is_left_of_a_life_and_a_backend_are_shown(self):
        self.put("x", np.zeros(1), "--ttl", 9000, "--backend", "posix-shm")
        self.assertRegex(self.text("show", "x"), "(?m)^lifetime +ttl 2h$")
        shown = self.json("show", "x")
        self.assertEqual((shown["lifetime"], shown["backend"]), ("ttl", "posix-shm"))
        self.assertGreater(shown["ttl_ms"], 9000000 - 1000 * PATIENCE)
        self.assertLessEqual(shown["ttl_ms"], 9000000)


if __name__ == "__main__":
    main()
