#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Packs what is built, as scripts/package.sh does."""
import os
import shutil

from package import BUILD, FOLDER, need, output, package

need("cpack", "dpkg-shlibdeps")
shutil.rmtree(FOLDER, ignore_errors=True)
os.umask(0o022)
output("cpack", "-G", "DEB", "-B", FOLDER, "--config", os.path.join(BUILD, "CPackConfig.cmake"))
print(package())
