#!/usr/bin/env python3
"""How dlctl is told what to do, and what it says when it is told wrongly."""

import re

from support import DlctlTest, main

COMMANDS = ["list", "show", "put", "get", "rm", "wait", "watch", "ping", "stats", "version"]

# Arguments that are wrong whatever the daemon says, and what standard error says of them.
WRONG = [
    ([], "a command is missing"),
    (["bogus"], "there is no command 'bogus'"),
    (["\x1b[31m\n"], r"there is no command '\x1b[31m\x0a'"),
    (["help", "bogus"], "there is no command 'bogus'"),
    (["--bogus"], "--bogus is not an option"),
    (["-x", "list"], "-x is not an option"),
    (["-xV"], "-x is not an option"),
    (["--socket"], "--socket needs a value"),
    (["list", "a", "b"], "too many arguments; usage: dlctl list [PREFIX|GLOB] [OPTION...]"),
    (["list", "--bogus"], "--bogus is not an option here"),
    (["list", "-x"], "-x is not an option here"),
    (["list", "-lx"], "-x is not an option here"),
    (["list", "--long", "-xl"], "-x is not an option here"),
    (["list", "--long=3"], "--long=3 is not an option here"),
    (["show"], "too few arguments; usage: dlctl show NAME [OPTION...]"),
    (["show", "a", "b"], "too many arguments"),
    (["show", "a", "-n"], "-n needs a value"),
    (["show", "a", "--values"], "--values needs a value"),
    (["show", "a", "--values", "-1"], "--values: '-1' is not a number"),
    (["show", "a", "--values", "8x"], "--values: '8x' is not a number"),
    (["put"], "too few arguments; usage: dlctl put NAME FILE... [OPTION...]"),
    (["put", "a"], "too few arguments"),
    (["put", "a", "f", "--type", "zip"], "--type: 'zip' is none of npy, safetensors and raw"),
    (["put", "a", "f", "--lifetime", "session"], "the tensor would go as soon as dlctl exits"),
    (["put", "a", "f", "--lifetime", "ever"], "--lifetime: 'ever' is neither"),
    (["put", "a", "f", "--lifetime", "ttl"], "--lifetime ttl needs --ttl SECONDS"),
    (["put", "a", "f", "--lifetime", "persistent", "--ttl", "3"], "contradict each other"),
    (["put", "a", "f", "--ttl"], "--ttl needs a value"),
    (["put", "a", "f", "--ttl", "0"], "--ttl: '0' is not a number of seconds above 0"),
    (["put", "a", "f", "--ttl", "-3"], "--ttl: '-3' is not a number of seconds above 0"),
    (["put", "a", "f", "--ttl", "inf"], "--ttl: 'inf' is not a number of seconds above 0"),
    (["put", "a", "f", "--mode", "rw"], "--mode: 'rw' is not an octal mode such as 0640"),
    (["put", "a", "f", "--mode", "0680"], "--mode: '0680' is not an octal mode"),
    (["put", "a", "f", "--mode", "1600"], "--mode: '1600' is not an octal mode"),
    (["put", "a", "f", "--mode", "0755"], "--mode: '0755' has x bits"),
    (["put", "a", "f", "--mode", "0066"], "--mode: '0066' keeps its owner out"),
    (["put", "a", "f", "--group", "no such group"], "there is no group 'no such group'"),
    (["put", "a", "f", "--attr", "novalue"], "--attr: 'novalue' is not KEY=VALUE"),
    (["put", "a", "f", "--attr", "=v"], "--attr: '=v' is not KEY=VALUE"),
    (["put", "a", "f", "--backend", "disk"], "--backend: 'disk' is neither memfd nor posix-shm"),
    (["get"], "too few arguments; usage: dlctl get NAME FILE [OPTION...]"),
    (["get", "a"], "too few arguments"),
    (["get", "a", "f", "g"], "too many arguments"),
    (["get", "a", "f", "--type", "npz"], "--type: 'npz' is none of npy, safetensors and raw"),
    (["get", "a", "f", "--version", "0"], "--version: '0' is not a version"),
    (["get", "a", "f", "--version", "new"], "--version: 'new' is not a version"),
    (["rm"], "too few arguments; usage: dlctl rm NAME|PREFIX/... [OPTION...]"),
    (["rm", "a/"], "'a/' is a prefix; -r deletes everything below it"),
    (["rm", "a", "--version", "x"], "--version: 'x' is not a version"),
    (["wait"], "too few arguments; usage: dlctl wait NAME [OPTION...]"),
    (["wait", "a", "b"], "too many arguments"),
    (["wait", "a", "--timeout", "soon"], "--timeout: 'soon' is not a number of seconds"),
    (["wait", "a", "--timeout", "-1"], "--timeout: '-1' is not a number of seconds"),
    (["wait", "a", "--newer-than", "x"], "--newer-than: 'x' is not a version"),
    (["watch", "a", "b"], "too many arguments; usage: dlctl watch [PREFIX] [OPTION...]"),
    (["watch", "--since", "x"], "--since: 'x' is not a number"),
    (["watch", "--count", "x"], "--count: 'x' is not a number"),
    (["ping", "a"], "too many arguments; usage: dlctl ping [OPTION...]"),
    (["stats", "a"], "too many arguments; usage: dlctl stats [OPTION...]"),
    (["stats", "--json", "--prometheus"], "--json and --prometheus do not go together"),
    (["version", "a"], "too many arguments; usage: dlctl version [OPTION...]"),
]

# Names that are none, and the rule that each breaks.
BAD_NAMES = {
    "": "at least one character",
    "a//b": "no slash at either end and no two in a row",
    "/a": "no slash at either end",
    "a/../b": "no '.' or '..' between slashes",
    "a@b": "@",
    "a\x1b[31m": "no control or invisible formatting characters",
    "a\u202eb": "no control or invisible formatting characters",
    "x" * 256: "at most 255 bytes between two slashes",
    "/".join(["x" * 200] * 6): "at most 1023 bytes",
}


class Usage(DlctlTest):
    def test_wrong_use_is_exit_code_2_and_one_line_that_says_what_is_wrong(self):
        for arguments, why in WRONG:
            with self.subTest(arguments):
                line = self.refused(2, *arguments)
                self.assertIn(why, line)
                self.assertEqual(line, line.rstrip())
                if arguments and arguments[0] in COMMANDS:
                    self.assertTrue(line.startswith(f"dlctl: {arguments[0]}: "), line)
        self.assertEqual(self.names(), [])

    def test_a_name_that_is_none_is_refused_by_its_rule(self):
        for name, why in BAD_NAMES.items():
            for arguments in (["put", name, "-"], ["show", name], ["get", name, "-"],
                              ["rm", name], ["wait", name, "--timeout", 0]):
                with self.subTest(arguments):
                    self.assertIn(why, self.refused(1, *arguments))
        self.assertEqual(self.names("--retired"), [])

    def test_what_is_not_there_is_named(self):
        for arguments in (["show", "x"], ["get", "x", "-"], ["rm", "x"]):
            self.assertEqual(self.refused(1, *arguments),
                             f"dlctl: {arguments[0]}: 'x' is not there")

    def test_every_command_explains_itself(self):
        for command in COMMANDS:
            text = self.text(command, "--help")
            self.assertTrue(text.startswith(f"usage: dlctl {command} "), text)
            self.assertNotRegex(text, r"(?m) $|.{91}")
            self.assertEqual(self.text("help", command), text)
        overview = self.text("help")
        self.assertEqual(self.text("--help"), overview)
        self.assertEqual(re.findall(r"(?m)^  ([a-z]+) ", overview), COMMANDS)

    def test_help_and_versions_need_no_daemon(self):
        self.assertRegex(self.text("--version"), r"\Adlctl \d+\.\d+\.\d+\n\Z")
        nowhere = {"DLPACKD_SOCKET": str(self.folder / "nowhere")}
        self.assertRegex(self.text("version", env=nowhere),
                         r"\Adlctl (\S+)\nlibdlclient \1\ndlpackd not known: .*\n\Z")
        self.assertIsNone(self.json("version", env=nowhere)["dlpackd"])
        self.text("list", "--help", env=nowhere)
        self.assertRegex(self.text("version"),
                         rf"\Adlctl (\S+)\nlibdlclient \1\ndlpackd \1 at {self.daemon.socket}\n\Z")

    def test_without_a_daemon_every_command_says_where_it_looked(self):
        nowhere = str(self.folder / "nowhere")
        for arguments in (["list"], ["show", "x"], ["put", "x", "-"], ["get", "x", "-"],
                          ["rm", "x"], ["wait", "x"], ["watch"], ["ping"], ["stats"]):
            line = self.refused(1, "--socket", nowhere, *arguments)
            self.assertTrue(line.startswith(f"dlctl: {arguments[0]}: "), line)
            self.assertIn(nowhere, line)

    def test_the_socket_on_the_command_line_goes_before_that_of_the_environment(self):
        self.dlctl("put", "x", "-", stdin=b"1")
        nowhere = {"DLPACKD_SOCKET": str(self.folder / "nowhere")}
        self.assertIn("nowhere", self.refused(1, "list", env=nowhere))
        here = self.daemon.socket
        for arguments in (["--socket", here, "list"], ["list", "--socket", here],
                          ["list", f"--socket={here}"]):
            self.assertEqual(len(self.text(*arguments, env=nowhere).splitlines()), 2)
        self.refused(1, "list", "--socket", "nowhere")

    def test_ping_says_who_answers(self):
        self.assertRegex(self.text("ping"), rf"\Adlpackd \S+ answers at {self.daemon.socket} in "
                                            r"\d+\.\d\d ms\n\Z")
        answer = self.json("ping")
        self.assertEqual(answer["socket"], self.daemon.socket)
        self.assertRegex(answer["daemon_id"], r"\A[0-9a-f]{32}\Z")

    def test_stats_count_what_is_there_in_every_form(self):
        self.dlctl("put", "x", "-", stdin=b"1")
        counters = self.json("stats")
        self.assertEqual(counters["tensors"], 1)
        lines = dict(line.split() for line in self.text("stats").splitlines())
        self.assertEqual(lines.keys(), counters.keys())
        metrics = self.text("stats", "--prometheus")
        self.assertRegex(metrics, r"(?m)^# TYPE dlpackd_tensors gauge\ndlpackd_tensors 1$")
        self.assertEqual(metrics.count("# TYPE"), len(counters))

    def test_a_name_space_goes_before_every_name(self):
        inside = {"DLPACKD_NAMESPACE": "job/7"}
        self.dlctl("put", "x", "-", stdin=b"1", env=inside)
        self.assertEqual(self.names(), ["job/7/x"])
        self.assertEqual(self.dlctl("get", "x", "-", env=inside), b"1")

    def test_what_follows_two_dashes_is_no_option(self):
        self.dlctl("put", "--", "--json", "-", stdin=b"1")
        self.assertEqual(self.names(), ["--json"])
        self.dlctl("rm", "--", "--json")


if __name__ == "__main__":
    main()
