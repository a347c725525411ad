#!/usr/bin/env python3
"""`dlctl list`: its table for people, on terminals of any width, and its JSON for programs."""

import os
import re
import unicodedata
import unittest

from support import DLCTL, DlctlTest, main, np, user_name

USER = user_name()
NOBODY = 65534

WHOLE = """\
NAME                                        AGE  DTYPE       SHAPE              SIZE  DEVICE  OWNER  READERS  STATE
a\\\\b                                          #  uint8       [3]                 3 B  cpu     USER.        0  live
flags                                         #  bool        []                  1 B  cpu     USER.        0  live
größe/重み                                    #  uint8       [3]                 3 B  cpu     USER.        0  live
model/layers.0/self_attention/query.weight    #  float32     [256,1024]      1.0 MiB  cpu     USER.        0  live
model/layers.1/w                              #  complex128  [1,2,3,4,5,6]  11.2 KiB  cpu     USER.        0  live
"""

AT_80 = """\
NAME          AGE  DTYPE       SHAPE         SIZE  DEVICE  OWNER  READERS  STATE
a\\\\b            #  uint8       [3]            3 B  cpu     USER.        0  live
flags           #  bool        []             1 B  cpu     USER.        0  live
größe/重み      #  uint8       [3]            3 B  cpu     USER.        0  live
...ry.weight    #  float32     ...1024]   1.0 MiB  cpu     USER.        0  live
...ayers.1/w    #  complex128  ...,5,6]  11.2 KiB  cpu     USER.        0  live
"""

AT_40 = """\
NAME          AGE  SHAPE            SIZE
a\\\\b            #  [3]               3 B
flags           #  []                1 B
größe/重み      #  [3]               3 B
...ry.weight    #  [256,1024]    1.0 MiB
...ayers.1/w    #  ...3,4,5,6]  11.2 KiB
"""

GOLDEN_JSON = {
    "name": "größe/重み", "state": "live", "flags": [], "dtype": "uint8", "shape": [3],
    "strides": [1], "nbytes": 3, "device": "cpu", "lifetime": "persistent", "backend": "memfd",
    "owner_uid": os.getuid(), "owner": USER, "mode": "0600", "publisher_uid": os.getuid(),
    "readers": 0, "attributes": {},
}

# What changes from run to run.
JSON_REST = {"version", "gid", "group", "publisher_pid", "created_us", "age_ms", "segment",
             "offset"}

LONG_HEADINGS = """\
NAME AGE DTYPE SHAPE SIZE DEVICE OWNER READERS STATE VERSION MODE GROUP LIFETIME BACKEND PID \
SEGMENT+OFFSET"""


def without_ages(text):
    return re.sub(r"( +)\d+[smhd](?=  )",
                  lambda match: "#".rjust(len(match[0])), text)


def width(line):
    """Columns of a terminal that a line takes."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)


class List(DlctlTest):
    def fill(self):
        np.save(self.path("q.npy"), np.zeros((256, 1024), "f4"))
        np.save(self.path("w.npy"), np.zeros((1, 2, 3, 4, 5, 6), "c16"))
        np.save(self.path("f.npy"), np.array(True))
        self.path("raw", b"123")
        self.dlctl("put", "model/layers.0/self_attention/query.weight", self.path("q.npy"))
        self.dlctl("put", "model/layers.1/w", self.path("w.npy"))
        self.dlctl("put", "flags", self.path("f.npy"))
        self.dlctl("put", "größe/重み", self.path("raw"))
        self.dlctl("put", "a\\b", self.path("raw"))

    def golden(self, text):
        if len(USER) > len("OWNER"):
            self.skipTest("the name of this user is wider than the tables drawn here")
        return text.replace("USER.", USER.ljust(len("OWNER")))

    def test_nothing_is_cut_where_no_terminal_is(self):
        self.fill()
        for env in {}, {"COLUMNS": "40"}:
            self.assertEqual(without_ages(self.text("list", env=env)), self.golden(WHOLE))

    def test_a_table_fits_the_terminal(self):
        self.fill()
        for columns, wanted in (120, WHOLE), (80, AT_80), (40, AT_40):
            with self.subTest(columns=columns):
                table = self.on_terminal("list", columns=columns)
                self.assertEqual(without_ages(table), self.golden(wanted))
                # COLUMNS counts where the terminal does not tell, and only there.
                by_variable = self.on_terminal("list", env={"COLUMNS": str(columns)})
                self.assertEqual(without_ages(by_variable), without_ages(table))
                both = self.on_terminal("list", columns=columns, env={"COLUMNS": "20"})
                self.assertEqual(without_ages(both), without_ages(table))

    def test_no_line_is_wider_than_the_terminal(self):
        self.fill()
        whole = self.on_terminal("list", columns=500).splitlines()
        for columns in 45, 60, 79, 80, 81, 100, 200:
            with self.subTest(columns=columns):
                lines = self.on_terminal("list", columns=columns).splitlines()
                self.assertEqual(len(lines), len(whole))
                self.assertLessEqual(max(map(width, lines)), columns)
                self.assertLessEqual({"NAME", "AGE", "SHAPE", "SIZE"}, set(lines[0].split()))
                # What a name is shortened to is its end.
                for line, complete in zip(lines, whole):
                    end = line.split()[0].removeprefix("...")
                    self.assertTrue(complete.split()[0].endswith(end), line)
        self.assertGreater(max(map(width, whole)), 100)

    def test_long_lines_are_never_cut(self):
        self.fill()
        self.dlctl("put", "timed", self.path("raw"), "--ttl", 9000, "--mode", 664)
        table = self.on_terminal("list", "--long", columns=40)
        self.assertEqual(table.splitlines()[0].split(), LONG_HEADINGS.split())
        self.assertEqual(without_ages(table), without_ages(self.text("list", "-l")))
        version = self.json("show", "timed")["version"]
        self.assertRegex(table, rf"(?m)^timed .* {version}  rw-rw-r--  \S+ +ttl 2h +memfd ")

    def test_json_says_all_of_it_in_ascii(self):
        self.fill()
        listed = self.json("list")
        self.assertEqual([tensor["name"] for tensor in listed],
                         ["a\\b", "flags", "größe/重み",
                          "model/layers.0/self_attention/query.weight", "model/layers.1/w"])
        self.assertEqual({key: listed[2][key] for key in GOLDEN_JSON}, GOLDEN_JSON)
        self.assertEqual(listed[2]["offset"] % 256, 0)
        self.assertEqual(set(listed[2]) - set(GOLDEN_JSON), JSON_REST)
        self.assertEqual(self.on_terminal("list", "--json", columns=20).count('"name"'), 5)
        self.assertEqual(self.json("list", "none/"), [])

    def test_a_prefix_or_a_glob_chooses(self):
        for name in "a", "ab", "a/b", "a/c/d", "b/c", "a[x]", "a*":
            self.dlctl("put", name, "-", stdin=b"1")
        chosen = {
            "a/": ["a/b", "a/c/d"],
            "a": ["a", "a*", "a/b", "a/c/d", "a[x]", "ab"],
            "a/*": ["a/b", "a/c/d"],
            "*c*": ["a/c/d", "b/c"],
            "a?": ["a*", "ab"],
            "a[ab]": ["ab"],
            "a\\*": ["a*"],
            "[ab]/?": ["a/b", "b/c"],
            "none": [],
            "none/": [],
        }
        for pattern, names in chosen.items():
            with self.subTest(pattern):
                self.assertEqual(self.names(pattern), names)

    def test_a_thousand_names_are_all_listed_in_order(self):
        files = [self.path(f"{number:04}.bin", b"1") for number in range(1000)]
        self.dlctl("put", "many", *files)
        self.assertEqual(self.names("many/"), [f"many/{number:04}" for number in range(1000)])

    def test_what_is_held_but_replaced_or_deleted_is_retired(self):
        self.dlctl("put", "r", "-", stdin=bytes(1 << 20))
        old = self.json("show", "r")["version"]
        holder = self.hold("r")
        self.assertEqual(self.json("list")[0]["readers"], 1)
        self.dlctl("put", "r", "-", stdin=b"new")
        self.assertEqual(self.names(), ["r"])
        self.assertEqual({(tensor["version"] == old, tensor["state"], tensor["readers"])
                          for tensor in self.json("list", "--retired")},
                         {(True, "retired", 1), (False, "live", 0)})
        self.assertRegex(self.text("list", "--retired"), r"(?m)^r +\S+ +uint8 .* 1  retired$")
        self.dlctl("rm", "r")
        self.assertEqual(self.names(), [])
        self.assertEqual(self.names("--retired"), ["r"])
        self.assertEqual(self.let_go(holder), bytes(1 << 20))
        self.until(lambda: self.names("--retired") == [], "the retired version is gone")


@unittest.skipUnless(os.getuid() == 0, "needs a second user: run as root")
class ListOfOthers(DlctlTest):
    daemon_arguments = ("--socket-mode", "0666")
    other = {"user": NOBODY, "group": NOBODY, "extra_groups": []}

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        try:
            self.text("--version", **self.other)
        except (OSError, AssertionError):
            self.skipTest(f"another user cannot run {DLCTL}")

    def test_what_others_let_one_see_is_listed_on_request(self):
        self.dlctl("put", "open", "-", "--mode", "0604", stdin=b"all may read")
        self.dlctl("put", "shut", "-", stdin=b"mine")
        self.dlctl("put", "theirs", "-", stdin=b"theirs", **self.other)
        names = [tensor["name"] for tensor in self.json("list", **self.other)]
        self.assertEqual(names, ["theirs"])
        listed = self.json("list", "--all-users", **self.other)
        self.assertEqual([(tensor["name"], tensor["owner_uid"]) for tensor in listed],
                         [("~0/open", 0), ("theirs", NOBODY)])
        self.assertRegex(self.text("list", "-a", **self.other), rf"(?m)^~{USER}/open .* {USER} ")
        self.assertEqual(self.dlctl("get", f"~{USER}/open", "-", **self.other), b"all may read")
        self.assertIn("shut", self.refused(1, "get", "~0/shut", "-", **self.other))
        self.assertIn("open", self.refused(1, "rm", "~0/open", **self.other))


if __name__ == "__main__":
    main()
