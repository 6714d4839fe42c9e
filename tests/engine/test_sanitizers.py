"""The engine's own test programs (*_test.cpp, no Python) under Address-, UB- and ThreadSanitizer.

Built by CMake in build/sanitize-*, which is kept: only what changed is compiled again, and the engine once
for all programs. A compiler without a sanitizer's runtime is the one reason to skip.

Compiling takes minutes, and most tests use one core: tests/conftest.py has it begun, on the lowest priority,
when a run that will need it starts.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

# What each sanitizer must catch before its silence about the engine means anything.
CULPRITS = {
    "address,undefined": """
        #include <cstdlib>
        int main(int argc, char**) {
          volatile char* p = new char[4];
          const char seen = argc > 1 ? p[3 + argc] : 0;  // one past the end when there is an argument
          delete[] p;
          return seen & 0;
        }""",
    "thread": """
        #include <thread>
        int shared = 0;
        int main(int argc, char**) {
          const auto race = [argc](int n) { for (int i = 0; i < n; ++i) if (argc > 1) ++shared; };
          std::thread other(race, 100000);
          race(100000);
          other.join();
          return 0;
        }""",
}

LONG = ["ring_test", "csv_test", "engine_test", "row_cache_test", "race_test"]

ENVIRONMENT = os.environ | {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    # The engine is tested in a forked child too, where ThreadSanitizer stops by default.
    "TSAN_OPTIONS": "halt_on_error=1:die_after_fork=0:second_deadlock_stack=1",
}


def _tool(name: str) -> str | None:
    """From the PATH, or from the virtual environment pytest runs in."""
    here = Path(sys.executable).parent / name
    return shutil.which(name) or (str(here) if here.exists() else None)


def _run(command, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(c) for c in command],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        **options,
    )


def _launcher(sanitizer: str, folder: Path) -> list[str]:
    """The command prefix under which a sanitized program runs here. Skips where none does."""
    compiler = os.environ.get("CXX") or _tool("c++") or _tool("g++") or _tool("clang++")
    assert compiler, "no C++ compiler: install g++ or clang++, or set CXX"
    source, program = folder / "culprit.cpp", folder / "culprit"
    source.write_text(CULPRITS[sanitizer])
    flags = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-O0", "-g", "-std=c++20", "-pthread"]
    built = _run([*compiler.split(), *flags, source, "-o", program])
    if built.returncode:
        pytest.skip(f"{compiler} cannot link -fsanitize={sanitizer}: {built.stdout.strip()[-200:]}")
    # An older runtime dies on a kernel with much address randomisation; setarch -R turns that off.
    no_aslr = [setarch, platform.machine(), "-R"] if (setarch := _tool("setarch")) else []
    for prefix in ([], no_aslr):
        quiet = _run([*prefix, program])
        if quiet.returncode == 0:
            caught = _run([*prefix, program, "misbehave"])
            assert caught.returncode != 0, f"-fsanitize={sanitizer} did not notice a planted bug"
            return prefix
    pytest.skip(f"the {sanitizer} runtime does not run here: {quiet.stdout.strip()[-200:]}")


def _build(repository: Path, sanitizer: str) -> Path:
    cmake, ninja = _tool("cmake"), _tool("ninja")
    assert cmake, "no cmake: pip install cmake ninja (make test does)"
    folder = repository / "build" / f"sanitize-{sanitizer.replace(',', '-')}"
    configure = [
        *[cmake, "-S", repository, "-B", folder],
        *["-DGZ_BUILD_TESTS=ON", f"-DGZ_SANITIZE={sanitizer}", "-DCMAKE_BUILD_TYPE=Debug"],
        *(["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []),
    ]
    configured = _run(configure)
    if configured.returncode:  # a cache made by another cmake, or in a folder since moved
        shutil.rmtree(folder, ignore_errors=True)
        configured = _run(configure)
    assert configured.returncode == 0, configured.stdout
    built = _run([cmake, "--build", folder, "--parallel", os.cpu_count() or 1])
    assert built.returncode == 0, built.stdout
    return folder


if __name__ == "__main__":
    for name in CULPRITS:
        _build(Path(sys.argv[1]), name)


@pytest.mark.slow
@pytest.mark.timeout(2000)  # compiles the engine
@pytest.mark.parametrize("sanitizer", CULPRITS)
def test_engine_is_clean_under_sanitizer(sanitizer, repository, tmp_path, compiled):
    prefix = _launcher(sanitizer, tmp_path)
    compiled()
    folder = _build(repository, sanitizer)
    programs = [source.stem for source in (repository / "tests/engine").glob("*_test.cpp")]
    assert "engine_test" in programs
    # Side by side: most of them use one core, and nothing else runs now. The longest first.
    programs.sort(key=lambda name: LONG.index(name) if name in LONG else len(LONG))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = pool.map(lambda program: _run([*prefix, folder / program], cwd=tmp_path), programs)
        for program, result in zip(programs, results, strict=True):
            assert result.returncode == 0, f"{program}: exit {result.returncode}\n{result.stdout[-8000:]}"
