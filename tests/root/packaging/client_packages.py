#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is in the packages for programs that take leases, what lintian thinks of them, and that a program can
be compiled, and Python find its modules, with what they bring."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from package import BUILD, FOLDER, need, output

PYTHON = "usr/lib/python3/dist-packages/andiron"
WANTED = {
    "libandiron0": """
usr/lib/libandiron.so.0
usr/lib/libandiron.so.0.1.0
usr/share/doc/libandiron0/changelog.gz
usr/share/doc/libandiron0/copyright
""",
    "libandiron-dev": """
usr/include/andiron.h
usr/lib/libandiron.so
usr/lib/pkgconfig/andiron.pc
usr/share/doc/libandiron-dev/changelog.gz
usr/share/doc/libandiron-dev/copyright
usr/share/doc/libandiron-dev/examples/tensor_sum.c
usr/share/man/man3/libandiron.3.gz
""",
    "python3-andiron": f"""
{PYTHON}/__init__.py
{PYTHON}/_connection.py
{PYTHON}/_dtypes.py
{PYTHON}/_errors.py
{PYTHON}/_index.py
{PYTHON}/_lease.py
{PYTHON}/py.typed
{PYTHON}/safetensors/__init__.py
{PYTHON}/safetensors/_file.py
{PYTHON}/safetensors/_header.py
{PYTHON}/safetensors/_source.py
{PYTHON}/safetensors/numpy.py
{PYTHON}/safetensors/torch.py
usr/share/doc/python3-andiron/changelog.gz
usr/share/doc/python3-andiron/copyright
""",
}


def path_of(name):
    (path,) = [entry.path for entry in os.scandir(FOLDER) if entry.name.startswith(name + "_")]
    return path


def check_files(name):
    listed = []
    for line in output("dpkg-deb", "--contents", path_of(name)).splitlines():
        mode, owner, _, _, _, path = line.split(None, 5)
        assert owner == "root/root" and (mode[0] == "l" or mode[5] == mode[8] == "-"), line
        if mode[0] != "d":
            listed.append(path.split(" -> ")[0].removeprefix("./"))
            assert mode in ("-rw-r--r--", "lrwxrwxrwx"), line
    wanted = WANTED[name].split()
    assert sorted(listed) == sorted(wanted), set(listed) ^ set(wanted)


def check_use(root):
    """A program of somebody else's, by what the packages bring and nothing of the build's."""
    for name in WANTED:
        output("dpkg-deb", "--extract", path_of(name), root)
    environment = {**os.environ, "PKG_CONFIG_PATH": root + "/usr/lib/pkgconfig",
                   "PKG_CONFIG_SYSROOT_DIR": root, "LD_LIBRARY_PATH": root + "/usr/lib",
                   "ANDIRON_LEASE_SOCKET": root + "/none"}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "andiron"], check=True,
                           capture_output=True, text=True, env=environment).stdout.split()
    source = root + "/usr/share/doc/libandiron-dev/examples/tensor_sum.c"
    output("cc", "-std=c99", "-Wall", "-Werror", source, *flags, "-o", root + "/tensor_sum")
    linked = subprocess.run(["ldd", root + "/tensor_sum"], capture_output=True, text=True, env=environment)
    assert f"libandiron.so.0 => {root}/usr/lib/libandiron.so.0" in linked.stdout, linked
    done = subprocess.run([root + "/tensor_sum", "m"], capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and done.stderr.startswith("unavailable: "), done
    script = "import andiron, andiron.safetensors; print(andiron.__file__); andiron.lease('m')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd="/", env={
        **environment, "PYTHONPATH": f"{root}/usr/lib/python3/dist-packages"})
    assert done.stdout == f"{root}/{PYTHON}/__init__.py\n", done
    assert done.stderr.splitlines()[-1].startswith("andiron._errors.Error: unavailable: "), done


def check_manual(root):
    """It reads well, and has every function of the header."""
    page = subprocess.run(["man", "--warnings", "--encoding=UTF-8", "--local-file",
                           root + "/usr/share/man/man3/libandiron.3.gz"], capture_output=True,
                          text=True, env={**os.environ, "MANWIDTH": "120", "LC_ALL": "C.UTF-8"})
    assert page.returncode == 0 and page.stderr == "", page
    with open(root + "/usr/include/andiron.h") as file:
        for line in file:
            if line.startswith("ANDIRON_API"):
                name = re.search(r"\b(andiron_\w+)\(", line).group(1)
                assert name + "(" in page.stdout, name


def check_prefix(prefix):
    """`cmake --install` elsewhere says where that is."""
    output("cmake", "--install", BUILD, "--prefix", prefix)
    with open(prefix + "/lib/pkgconfig/andiron.pc") as file:
        assert f"prefix={prefix}\n" in file.read()
    found = [folder for folder, _, files in os.walk(prefix + "/lib") if "py.typed" in files]
    assert len(found) == 1 and found[0].startswith(prefix + "/lib/python3."), found


need("dpkg-deb", "lintian", "man", "pkg-config", "cc")
control = output("dpkg-deb", "--info", path_of("libandiron0"), "shlibs")
assert control.split() == ["libandiron", "0", "libandiron0", "(>=", "0.1.0)"], control
assert "libandiron0 (= 0.1.0)" in output("dpkg-deb", "--field", path_of("libandiron-dev"), "Depends")
assert output("dpkg-deb", "--field", path_of("python3-andiron"), "Architecture") == "all\n"
for package in WANTED:
    check_files(package)
    found = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", path_of(package)],
                           capture_output=True, text=True)
    print(found.stdout + found.stderr)
    assert found.returncode == 0, found.returncode
with tempfile.TemporaryDirectory() as folder:
    check_use(folder)
    check_manual(folder)
    shutil.rmtree(folder + "/usr")
    check_prefix(folder + "/opt/andiron")
print("all passed")
