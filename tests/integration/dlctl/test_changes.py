#!/usr/bin/env python3
"""wait, watch, rm, and tensors whose time runs out."""

import json

from support import PATIENCE, DlctlTest, main


class Changes(DlctlTest):
    def put(self, name, *arguments):
        return self.json("put", name, "-", *arguments, stdin=b"1")["version"]

    # ---- wait

    def test_wait_gives_the_version_that_is_there(self):
        version = self.put("x")
        self.assertEqual(self.text("wait", "x"), f"{version}\n")
        self.assertEqual(self.json("wait", "x")["version"], version)
        self.assertEqual(self.text("wait", "x", "--newer-than", version - 1, "--timeout", 0),
                         f"{version}\n")

    def test_wait_ends_with_the_first_version_that_is_newer(self):
        waiting = self.start("wait", "x")
        first = self.put("x")
        self.assertEqual(waiting.stdout.read(), b"%d\n" % first)
        self.assertEqual(waiting.wait(PATIENCE), 0)
        waiting = self.start("wait", "x", "--newer-than", first)
        self.put("another")
        second = self.put("x")
        self.assertEqual(waiting.stdout.read(), b"%d\n" % second)
        self.assertEqual(waiting.wait(PATIENCE), 0)

    def test_wait_gives_up_in_time_and_says_so(self):
        self.assertIn("no such version of 'x' came within 0.05 s",
                      self.refused(1, "wait", "x", "--timeout", "0.05"))
        version = self.put("x")
        self.assertIn("no such version of 'x' came within 0 s",
                      self.refused(1, "wait", "x", "--newer-than", version, "--timeout", 0))

    # ---- watch

    def test_watch_prints_a_line_for_each_change_as_it_happens(self):
        old = self.put("p/old")
        watch = self.start("watch", "p/", "--since", 0, "--count", 4)
        lines = [watch.stdout.readline().decode().split()]
        new = self.put("p/new")
        self.put("elsewhere")
        lines.append(watch.stdout.readline().decode().split())
        newer = self.put("p/new")
        lines.append(watch.stdout.readline().decode().split())
        self.dlctl("rm", "p/old")
        lines.append(watch.stdout.readline().decode().split())
        self.assertEqual([line[1:] for line in lines],
                         [["published", str(old), "p/old"], ["published", str(new), "p/new"],
                          ["published", str(newer), "p/new"], ["deleted", str(old), "p/old"]])
        changes = [int(line[0]) for line in lines]
        self.assertEqual(changes, sorted(set(changes)))
        self.assertEqual((watch.stdout.read(), watch.wait(PATIENCE)), (b"", 0))

    def test_watch_goes_on_after_the_change_it_is_given(self):
        self.put("a")
        first = int(self.text("watch", "--since", 0, "--count", 1).split()[0])
        version = self.put("b")
        line = self.json("watch", "--since", first, "--count", 1)
        self.assertGreater(line.pop("change"), first)
        self.assertEqual(line, {"event": "published", "version": version, "name": "b"})

    def test_watch_prints_json_line_by_line(self):
        names = ["a", "größe", "c"]
        for name in names:
            self.put(name)
        lines = self.dlctl("watch", "--since", 0, "--count", 3, "--json").decode("ascii")
        self.assertEqual([json.loads(line)["name"] for line in lines.splitlines()], names)

    def test_watch_of_no_lines_ends_at_once(self):
        self.assertEqual(self.dlctl("watch", "--count", 0), b"")

    # ---- rm

    def test_rm_deletes_names(self):
        for name in "a", "b", "c":
            self.put(name)
        self.assertEqual(self.dlctl("rm", "a", "c"), b"")
        self.assertEqual(self.names(), ["b"])
        self.assertEqual(self.json("rm", "b"), {"deleted": 1})
        self.assertEqual(self.names("--retired"), [])

    def test_rm_of_a_name_that_is_not_there_fails_and_deletes_the_others(self):
        self.put("a")
        self.assertIn("'none' is not there", self.refused(1, "rm", "none", "a"))
        self.assertEqual(self.names(), [])

    def test_rm_deletes_below_a_prefix_only_when_told_to(self):
        for name in "p/a", "p/b/c", "p", "pq":
            self.put(name)
        self.assertIn("'p/' is a prefix; -r deletes", self.refused(2, "rm", "pq", "p/"))
        self.assertEqual(len(self.names()), 4)
        self.assertEqual(self.json("rm", "-r", "p/"), {"deleted": 2})
        self.assertEqual(self.names(), ["p", "pq"])

    def test_rm_insists_on_a_version(self):
        old = self.put("x")
        new = self.put("x")
        self.refused(1, "rm", "x", "--version", old)
        self.assertEqual(self.names(), ["x"])
        self.assertIn("goes with names", self.refused(2, "rm", "-r", "x/", "--version", new))
        self.dlctl("rm", "x", "--version", new)
        self.assertEqual(self.names(), [])

    # ---- lifetimes

    def test_a_tensor_goes_when_its_time_is_over(self):
        self.put("p/stays")
        watch = self.start("watch", "p/", "--since", 0, "--count", 3)
        self.assertIn(b"published", watch.stdout.readline())
        self.put("p/goes", "--ttl", "0.1")
        self.assertRegex(watch.stdout.readline(), rb"published \d+ p/goes\n")
        self.assertRegex(watch.stdout.readline(), rb"deleted \d+ p/goes\n")
        self.assertEqual(self.names("--retired"), ["p/stays"])
        self.assertIn("'p/goes' is not there", self.refused(1, "show", "p/goes"))


if __name__ == "__main__":
    main()
