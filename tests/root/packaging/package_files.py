#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is in the package, and what lintian thinks of it."""
import os
import re
import subprocess
import tempfile

from package import BUILD, need, output, package

WANTED = """
usr/sbin/andirond
usr/bin/andironctl
usr/libexec/andiron/andiron-oci-hook
usr/lib/systemd/system/andirond.service
usr/lib/systemd/system/andirond-lease.socket
usr/lib/systemd/system/andirond.socket
usr/lib/systemd/system/andiron.slice
usr/lib/systemd/system/andiron-preload.service
usr/lib/systemd/system/andiron-warm@.service
usr/lib/sysusers.d/andiron.conf
usr/lib/tmpfiles.d/andiron.conf
usr/share/bash-completion/completions/andironctl
usr/share/zsh/vendor-completions/_andironctl
usr/share/man/man8/andirond.8.gz
usr/share/man/man1/andironctl.1.gz
usr/share/man/man5/andiron.toml.5.gz
usr/share/doc/andiron/README.md
usr/share/doc/andiron/docs/container.md
usr/share/doc/andiron/docs/home-assistant.md
usr/share/doc/andiron/docs/leases.md
usr/share/doc/andiron/docs/troubleshooting.md
usr/share/doc/andiron/docs/upgrading.md
usr/share/doc/andiron/packaging/compose.nas.yaml
usr/share/doc/andiron/packaging/compose.pinned.yaml
usr/share/doc/andiron/packaging/compose.runtime.yaml
usr/share/doc/andiron/copyright
usr/share/doc/andiron/changelog.gz
usr/share/doc/andiron/examples/andiron.toml
usr/share/doc/andiron/examples/oci-hooks/andiron.json
usr/share/doc/andiron/examples/ollama.service.d/andiron.conf
""".split()

need("dpkg-deb", "lintian", "man")
listed = {}
for line in output("dpkg-deb", "--contents", package()).splitlines():
    mode, owner, _, _, _, path = line.split(None, 5)
    assert owner == "root/root", line
    assert mode[5] == mode[8] == "-", f"writable for others: {line}"
    if mode[0] == "d":
        assert mode == "drwxr-xr-x", line
    else:
        listed[path.removeprefix("./")] = mode
assert sorted(listed) == sorted(WANTED), set(listed) ^ set(WANTED)
for path, mode in listed.items():
    program = path.startswith(("usr/bin/", "usr/sbin/", "usr/libexec/"))
    assert mode == ("-rwxr-xr-x" if program else "-rw-r--r--"), (path, mode)

control = output("dpkg-deb", "--field", package())
print(control)
for library in ("libc6", "libsystemd0", "liburing2"):
    assert re.search(rf"^Depends: .*\b{library} \(", control, re.MULTILINE), control

with tempfile.TemporaryDirectory() as folder:
    output("dpkg-deb", "--extract", package(), folder)
    unit = open(os.path.join(folder, "usr/lib/systemd/system/andirond.service")).read()
    assert "ExecStart=/usr/sbin/andirond\n" in unit, unit
    assert "ExecReload=/usr/bin/andironctl reload\n" in unit, unit
    for path in listed:
        with open(os.path.join(folder, path), "rb") as file:
            content = file.read()
        assert b"@ANDIRON" not in content, path
        assert BUILD.encode() not in content, f"{path} names the folder that it was built in"
    # The manual as somebody reads it, without a word of groff's about it.
    for path in (path for path in listed if "/man/" in path):
        page = subprocess.run(["man", "--warnings", "--encoding=UTF-8", "--local-file",
                               os.path.join(folder, path)], capture_output=True, text=True,
                              env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
        assert page.returncode == 0 and page.stderr == "", (path, page.stderr)
        assert "NAME" in page.stdout and "SEE ALSO" in page.stdout, (path, page.stdout)
    # Another prefix, by `cmake --install`, has its own paths in the units.
    done = subprocess.run(["cmake", "--install", BUILD, "--prefix", folder + "/opt/andiron"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done
    for name, program in (("andirond.service", "sbin/andirond"),
                          ("andiron-preload.service", "bin/andironctl"),
                          ("andiron-warm@.service", "bin/andironctl")):
        with open(f"{folder}/opt/andiron/lib/systemd/system/{name}") as file:
            assert f"{folder}/opt/andiron/{program}" in file.read(), name
        assert os.access(f"{folder}/opt/andiron/{program}", os.X_OK)

found = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", package()],
                       capture_output=True, text=True)
print(found.stdout + found.stderr)
assert found.returncode == 0, found.returncode
