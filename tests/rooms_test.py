#!/usr/bin/env python3
"""Holds the sources to the rooms: who may include whom, and what only one room may touch.

The rooms and their order come from CMakeLists.txt (GRADUS_ROOMS, lowest first), what each may include
from DEPS in src/ROOM/CMakeLists.txt. `check(root)` returns one line for each fault; the tests run it
on this repository and on small made-up trees with one fault each. It reads text: code made by macros
and computed includes are beyond it.
"""
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE_NAMES = (".h", ".cc")

# (what is found, where it may stand: prefixes of paths from the root, why)
CALLS = [
    (re.compile(r"\b(?:steady_clock|system_clock|high_resolution_clock|utc_clock|file_clock)::now\b"
                r"|\b(?:clock_gettime|gettimeofday)\b"),
     ("src/base/",), "only src/base asks a clock; take a gradus::Clock"),
    (re.compile(r"\b(?:secure_)?getenv\b"),
     ("src/config/", "src/tools/", "apps/"), "only src/config, src/tools and apps read the environment"),
]
ORT_HEADER = re.compile(r"(?:^|/)onnxruntime_|^onnxruntime/")
ORT_HOME = "src/runtime/ort/"
# A folder's own header that may include a heavy one: only that folder's files may include it, also
# through others.
INNER_HEADERS = {"src/api/codec/json_walk.h": "src/api/codec/"}
# Boost.Intrusive is light, and its hooks are members.
HEAVY_HEADER = re.compile(r"^(?:boost/(?!intrusive/)|(?:grpc|grpcpp|google/protobuf|prometheus|curl)/)|^simdjson(?:\.h|/)"
                          r"|\.pb\.h$")

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<text>R"(?P<raw>[^()\\\s]{0,16})\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*")"""
    r"""|(?P<char>(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+')""", re.DOTALL)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def blank(text):
    """Spaces for everything but the line ends, so that line numbers stay."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    return TOKEN.sub(lambda m: blank(m[0]) if m["comment"] else m[0], text)


def without_comments_and_text(text):
    return TOKEN.sub(lambda m: blank(m[0]), text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def cmake_calls(path, names):
    """The argument lists of the calls of these commands in a CMake file."""
    text = re.sub(r"#[^\n]*", "", path.read_text())
    calls = re.finditer(r"\b(" + "|".join(names) + r")\s*\(([^()]*)\)", text)
    return [(call[1], call[2].split()) for call in calls]


def room_order(root):
    """GRADUS_ROOMS, lowest first."""
    order = []
    for command, arguments in cmake_calls(root / "CMakeLists.txt", ["set", "list"]):
        if command == "set" and arguments[:1] == ["GRADUS_ROOMS"]:
            order = arguments[1:]
        if command == "list" and arguments[:2] == ["APPEND", "GRADUS_ROOMS"]:
            order += arguments[2:]
    return order


def section(arguments, keyword):
    """What follows `keyword` up to the next word in capitals."""
    if keyword not in arguments:
        return []
    values = []
    for word in arguments[arguments.index(keyword) + 1:]:
        if re.fullmatch(r"[A-Z_]+", word):
            break
        values.append(word)
    return values


def declared_dependencies(root, order):
    """For each room the rooms that its targets name: {room: set of rooms}, and the faults."""
    home = {}  # target name without gradus_ -> room: a room may have several targets
    named = {}  # room -> names of the targets that it depends on
    faults = []
    for room in order:
        named[room] = set()
        for cmake in sorted((root / "src" / room).rglob("CMakeLists.txt")):
            for command, arguments in cmake_calls(
                    cmake, ["gradus_room", "add_library", "target_link_libraries"]):
                if not arguments:
                    continue
                target = arguments[0].removeprefix("gradus_")
                if command != "target_link_libraries":
                    home[target] = room
                words = section(arguments, "DEPS") if command == "gradus_room" else []
                words += [word.removeprefix("gradus_") for word in arguments[1:]
                          if word.startswith("gradus_") and word != "gradus_warnings"]
                named[room].update(words)
    depends = {}
    for room, targets in named.items():
        depends[room] = set()
        for target in sorted(targets):
            if target not in home:
                faults.append(f"src/{room}/CMakeLists.txt: DEPS names {target}, which is no room")
            elif home[target] != room:
                depends[room].add(home[target])
                if order.index(home[target]) > order.index(room):
                    faults.append(f"src/{room}/CMakeLists.txt: DEPS names {home[target]}, a room above "
                                  f"{room} (order: {' '.join(order)})")
    return depends, faults


def reachable(depends, room):
    """The room and everything below it."""
    seen, waiting = set(), [room]
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            waiting.extend(depends.get(current, ()))
    return seen


def sources(root, folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SOURCE_NAMES and path.is_file():
                yield path, path.relative_to(root).as_posix()


def includes(path):
    """(line, header, quoted) for each include directive."""
    text = without_comments(path.read_text())
    return [(line_of(text, m.start(2)), m[2], m[1] == '"') for m in INCLUDE.finditer(text)]


def bringing_headers(root, home, heavy):
    """Headers of `home` that bring in `heavy` ones, directly or by others: paths from src."""
    found = {path.relative_to(root / "src").as_posix(): [header for _, header, _ in includes(path)]
             for path, name in sources(root, [home]) if name.endswith(".h")}
    tainted = {name for name, headers in found.items() if any(map(heavy.search, headers))}
    while True:
        more = {name for name, headers in found.items() if tainted & set(headers)} - tainted
        if not more:
            return tainted
        tainted |= more


def check_rooms_exist(root, order):
    faults = []
    for folder in sorted((root / "src").iterdir()):
        if not folder.is_dir() or not any(sources(root, [f"src/{folder.name}"])):
            continue
        if folder.name not in order:
            faults.append(f"src/{folder.name}: a folder with sources that GRADUS_ROOMS does not list")
        elif not any(folder.rglob("CMakeLists.txt")):
            faults.append(f"src/{folder.name}: sources without a CMakeLists.txt that says DEPS")
        readme = folder / "README.md"
        if not readme.is_file():
            faults.append(f"src/{folder.name}: no README.md")
        elif len(readme.read_text().splitlines()) >= 20:
            faults.append(f"src/{folder.name}/README.md: 20 lines or more; say the rest in the headers")
    return faults


def check_includes(root, order, depends):
    faults = []
    tainted = bringing_headers(root, ORT_HOME, ORT_HEADER)
    inner = {}  # header, as it is included: the folder that it may not leave
    for name, home in INNER_HEADERS.items():
        header = name.removeprefix("src/")
        for bringing in {header} | bringing_headers(root, home, re.compile(f"^{re.escape(header)}$")):
            inner[bringing] = home
    for path, name in sources(root, ["src", "apps", "include"]):
        in_src = name.startswith("src/")
        room = name.split("/")[1] if in_src else None
        allowed = reachable(depends, room) if in_src else set(order)
        for line, header, quoted in includes(path):
            def fault(text, at=f"{name}:{line}", header=header):
                faults.append(f'{at}: includes {header}: {text}')

            target = header.split("/")[0]
            if target in order and "/" in header:
                if target not in allowed:
                    fault(f"{room} may include only itself and "
                          f"{', '.join(sorted(allowed - {room})) or 'no room'} (DEPS in its CMakeLists.txt)")
            elif quoted and in_src:
                fault("give the path from src, as in \"base/result.h\"")
            if not name.startswith(ORT_HOME):
                if ORT_HEADER.search(header):
                    fault(f"ONNX Runtime's headers belong in {ORT_HOME} only")
                if header in tainted:
                    fault(f"it brings ONNX Runtime's headers out of {ORT_HOME}")
            if not name.startswith(inner.get(header, "")):
                fault(f"it brings a heavy header out of {inner[header]}")
            if name.endswith(".h") and name not in INNER_HEADERS and HEAVY_HEADER.search(header):
                fault("only a .cc file may include it")
    return faults


def check_calls(root):
    faults = []
    for path, name in sources(root, ["src", "apps", "include"]):
        text = without_comments_and_text(path.read_text())
        for pattern, homes, why in CALLS:
            if not name.startswith(homes):
                faults += [f"{name}:{line_of(text, m.start())}: {m[0]}: {why}"
                           for m in pattern.finditer(text)]
    return faults


def check(root):
    order = room_order(root)
    if not order:
        return ["CMakeLists.txt: no GRADUS_ROOMS found"]
    depends, faults = declared_dependencies(root, order)
    return (faults + check_rooms_exist(root, order) + check_includes(root, order, depends) +
            check_calls(root))


class ThisRepository(unittest.TestCase):
    def test_keeps_to_its_rooms(self):
        faults = check(ROOT)
        self.assertEqual(faults, [], "\n" + "\n".join(faults))

    def test_is_really_read(self):
        self.assertGreaterEqual(len(room_order(ROOT)), 7)
        files = [name for _, name in sources(ROOT, ["src"])]
        self.assertIn("src/base/clock.cc", files)
        depends, _ = declared_dependencies(ROOT, room_order(ROOT))
        self.assertEqual(depends["tensor"], {"base"})


GOOD_TREE = {
    "CMakeLists.txt": "# rooms\nset(GRADUS_ROOMS base tensor runtime api)\n"
                      "if(NOT X)\n  list(APPEND GRADUS_ROOMS tools)\nendif()\n",
    "src/base/CMakeLists.txt": "gradus_room(base SOURCES clock.cc PUBLIC_LIBS tl::expected)\n",
    "src/base/clock.h": "#pragma once\n#include <chrono>\n",
    "src/base/clock.cc": '#include "base/clock.h"\nauto t = std::chrono::steady_clock::now();\n',
    "src/tensor/CMakeLists.txt": "gradus_room(tensor SOURCES t.cc\n  DEPS base  # all\n  LIBS x::x)\n",
    "src/tensor/t.h": '#pragma once\n#include "base/clock.h"\n',
    "src/tensor/t.cc": '#include "tensor/t.h"\n// steady_clock::now() and getenv("X") are for others\n'
                       'const char* kText = "getenv";\nint n = 10\'000;\n',
    "src/runtime/CMakeLists.txt": "gradus_room(runtime SOURCES ort/o.cc DEPS tensor)\n",
    "src/runtime/r.h": '#pragma once\n#include "base/clock.h"\n#include "tensor/t.h"\n',
    "src/runtime/ort/plain.h": "#pragma once\n",
    "src/runtime/ort/o.h": "#pragma once\n#include <onnxruntime_cxx_api.h>\n",
    "src/runtime/ort/outer.h": '#pragma once\n#include "runtime/ort/o.h"\n',
    "src/runtime/ort/o.cc": '#include "runtime/ort/o.h"\n#include "runtime/r.h"\n',
    "src/api/CMakeLists.txt": "gradus_room(api_codec SOURCES codec/c.cc DEPS tensor)\n"
                              "add_library(gradus_api_http STATIC http/h.cc)\n"
                              "target_link_libraries(gradus_api_http PUBLIC gradus_api_codec gradus_runtime "
                              "PRIVATE gradus_warnings Boost::headers)\n",
    "src/api/codec/c.h": '#pragma once\n#include "tensor/t.h"\n',
    "src/api/codec/c.cc": '#include "api/codec/c.h"\n#include <simdjson.h>\n',
    "src/api/http/h.cc": '#include "runtime/r.h"\n#include "runtime/ort/plain.h"\n'
                         "#include <boost/beast.hpp>\n",
    "src/tools/CMakeLists.txt": "gradus_room(tools SOURCES s.cc DEPS api_http)\n",
    "src/tools/s.cc": '#include "api/codec/c.h"\n#include <cstdlib>\nauto e = std::getenv("E");\n',
    "apps/main.cc": '#include "tools/s.h"\n',
}


class MadeUpTrees(unittest.TestCase):
    def faults(self, **changes):
        """What `check` says of the good tree with the given text appended to (or in new) files."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            files = dict(GOOD_TREE)
            for room in ("base", "tensor", "runtime", "api", "tools"):
                files[f"src/{room}/README.md"] = f"# {room}\n"
            for name, text in changes.get("add", {}).items():
                files[name] = files.get(name, "") + text
            files.update(changes.get("replace", {}))
            for name, text in files.items():
                if text is not None:
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_text(text)
            return check(root)

    def assert_one(self, faults, *parts):
        self.assertEqual(len(faults), 1, faults)
        for part in parts:
            self.assertIn(part, faults[0])

    def assert_added(self, name, text, *parts):
        self.assert_one(self.faults(add={name: text}), *parts)

    def test_the_good_tree_has_no_fault(self):
        self.assertEqual(self.faults(), [])

    def test_an_include_of_a_room_above_is_found_with_its_line(self):
        self.assert_added("src/base/clock.cc", '#include "tensor/t.h"\n', "src/base/clock.cc:3", "tensor/t.h")

    def test_an_include_of_a_room_below_that_is_not_in_deps_is_found(self):
        self.assert_one(self.faults(
            add={"src/runtime/r.h": '#include "extra/e.h"\n'},
            replace={"CMakeLists.txt": "set(GRADUS_ROOMS base extra tensor runtime api tools)\n",
                     "src/extra/CMakeLists.txt": "gradus_room(extra)\n", "src/extra/README.md": "# extra\n",
                     "src/extra/e.h": "#pragma once\n"}), "src/runtime/r.h:4", "extra/e.h")

    def test_other_forms_of_include_are_found_too(self):
        for form in ('#include <tensor/t.h>\n', '  #  include "tensor/t.h"\n',
                     '/* c */ int x; /*\n*/\n#include\t"tensor/t.h"\n',
                     'int a = 1\'000;\n#include "tensor/t.h"\nint b = 1\'000;\n'):
            self.assert_added("src/base/clock.h", form, "src/base/clock.h", "tensor/t.h")

    def test_an_include_in_a_comment_is_none(self):
        self.assertEqual(self.faults(add={
            "src/base/clock.h": '// #include "tensor/t.h"\n/*\n#include "tensor/t.h"\n*/\n'}), [])

    def test_a_path_not_from_src_is_found(self):
        self.assert_added("src/tensor/t.cc", '#include "t.h"\n', "src/tensor/t.cc:5", "path from src")
        self.assert_added("src/base/clock.cc", '#include "../tensor/t.h"\n', "path from src")

    def test_deps_may_not_point_upwards(self):
        faults = self.faults(replace={
            "src/base/CMakeLists.txt": "gradus_room(base SOURCES clock.cc DEPS tensor)\n"})
        self.assert_one(faults, "src/base/CMakeLists.txt", "tensor", "above")

    def test_a_target_of_a_room_may_not_link_upwards(self):
        faults = self.faults(add={
            "src/tensor/CMakeLists.txt": "target_link_libraries(gradus_tensor PRIVATE gradus_api_codec)\n"})
        self.assert_one(faults, "src/tensor/CMakeLists.txt", "api", "above")

    def test_deps_of_an_unknown_room_are_found(self):
        faults = self.faults(replace={
            "src/tensor/CMakeLists.txt": "gradus_room(tensor SOURCES t.cc DEPS base nowhere)\n"})
        self.assert_one(faults, "nowhere", "no room")

    def test_a_folder_outside_the_list_is_found(self):
        self.assert_one(self.faults(add={"src/misc/m.h": "#pragma once\n", "src/misc/README.md": "# m\n"}),
                        "src/misc", "GRADUS_ROOMS")

    def test_a_room_without_build_file_or_readme_is_found(self):
        self.assertIn("CMakeLists.txt", "".join(self.faults(replace={"src/tools/CMakeLists.txt": None})))
        self.assert_one(self.faults(replace={"src/tools/README.md": None}), "src/tools", "README.md")
        self.assert_one(self.faults(replace={"src/tools/README.md": "line\n" * 20}), "README.md", "20 lines")

    def test_onnxruntime_stays_in_its_folder(self):
        for header in ("<onnxruntime_cxx_api.h>", "<onnxruntime/core/session/onnxruntime_c_api.h>",
                       '<onnxruntime/anything.h>'):
            self.assert_added("src/runtime/r.h", f"#include {header}\n", "src/runtime/r.h:4", "runtime/ort")
        self.assert_added("apps/main.cc", "#include <onnxruntime_c_api.h>\n", "apps/main.cc:2")

    def test_onnxruntime_does_not_leak_through_a_header(self):
        for header in ("o.h", "outer.h"):
            self.assert_added("src/api/http/h.cc", f'#include "runtime/ort/{header}"\n', "src/api/http/h.cc:4",
                              "brings")

    def test_heavy_headers_stay_in_cc_files(self):
        for header in ("boost/beast/http.hpp", "boost/asio.hpp", "grpcpp/grpcpp.h", "grpc/grpc.h", "simdjson.h",
                       "service.pb.h"):
            self.assert_added("src/api/codec/c.h", f"#include <{header}>\n", "src/api/codec/c.h:3", ".cc")
            self.assertEqual(self.faults(add={"src/api/codec/c.cc": f"#include <{header}>\n"}), [])
        self.assertEqual(self.faults(add={"src/tensor/t.h": "#include <boost/intrusive/set.hpp>\n"}), [])

    def test_an_inner_header_stays_in_its_folder(self):
        walk = {"src/api/codec/json_walk.h": "#pragma once\n#include <simdjson.h>\n",
                "src/api/codec/outer.h": '#pragma once\n#include "api/codec/json_walk.h"\n'}
        self.assertEqual(self.faults(add={**walk, "src/api/codec/c.cc": '#include "api/codec/outer.h"\n'}), [])
        for header in ("json_walk.h", "outer.h"):
            self.assert_one(self.faults(add={**walk, "src/api/http/h.cc": f'#include "api/codec/{header}"\n'}),
                            "src/api/http/h.cc:4", "out of src/api/codec/")

    def test_only_base_asks_a_clock(self):
        for call in ("std::chrono::steady_clock::now()", "system_clock::now()",
                     "high_resolution_clock::now()", "clock_gettime(CLOCK_MONOTONIC, &ts)"):
            self.assert_added("src/tensor/t.cc", f"auto t = {call};\n", "src/tensor/t.cc:5", "clock")
            self.assertEqual(self.faults(add={"src/base/clock.cc": f"auto u = {call};\n"}), [])

    def test_only_the_outer_rooms_read_the_environment(self):
        for call in ('std::getenv("X")', 'secure_getenv("X")', "&::getenv"):
            self.assert_added("src/tensor/t.cc", f"auto t = {call};\n", "src/tensor/t.cc:5", "environment")
            self.assertEqual(self.faults(add={"apps/main.cc": f"auto t = {call};\n"}), [])

    def test_code_between_text_and_digit_separators_is_seen(self):
        self.assert_added("src/tensor/t.cc", 'int a = 1\'0; auto b = getenv("x"); int c = 1\'0;\n', ":5")
        self.assert_added("src/tensor/t.cc", 'auto a = R"(")"; auto b = getenv("x"); auto c = "\\"";\n', ":5")
        self.assert_added("src/tensor/t.cc", "char a = '\"'; auto b = getenv(x); char c = '\"';\n", ":5")

    def test_a_repository_without_rooms_fails(self):
        self.assert_one(self.faults(replace={"CMakeLists.txt": "project(x)\n"}), "GRADUS_ROOMS")


if __name__ == "__main__":
    sys.exit(unittest.main())
