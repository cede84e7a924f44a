# SPDX-License-Identifier: MIT
# `cpack -G DEB` in a build folder makes the Debian packages, one a component: andiron is the agent, and
# libandiron0, libandiron-dev and python3-andiron are for programs that take leases; scripts/package.sh
# does both. Who runs the agent needs only the first.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME andiron)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR "The Andiron authors")
set(CPACK_PACKAGE_CONTACT "The Andiron authors <andiron@andiron.invalid>")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL agent library development python)
set(CPACK_STRIP_FILES ON)
# By DESTDIR, so that files that name paths are written for /usr and not for a staging folder.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# CPack knows these for all packages only; one of them has a library.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(debian ${CMAKE_SOURCE_DIR}/packaging/debian)

set(CPACK_DEBIAN_AGENT_PACKAGE_NAME andiron)
set(CPACK_DEBIAN_AGENT_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_AGENT_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_AGENT_PACKAGE_DEPENDS "init-system-helpers (>= 1.54), passwd")
set(CPACK_DEBIAN_AGENT_PACKAGE_CONTROL_EXTRA ${debian}/postinst ${debian}/prerm ${debian}/postrm)
set(CPACK_DEBIAN_AGENT_DESCRIPTION
"keeps the weights of AI models warm
A root agent that loads the model files which a home server depends on into
memory, holds them there within a budget, notices when they change or are
pushed out, and brings them back. Runtimes such as Ollama, llama.cpp and vLLM
stay as they are: they open the same files and find them in memory.
.
It comes with andironctl, which proposes a configuration for the machine.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libandiron0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${debian}/library/triggers)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION
"use of model weights that an Andiron agent keeps in memory
A library by which a program takes over the weights of an AI model from the
agent of package andiron, without copying them and without reading them from
storage again.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libandiron-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libandiron0 (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
"use of model weights that Andiron keeps in memory: header
What it takes to compile programs in C and other languages that use the
library of package libandiron0, and an example.")

set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-andiron)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.9)")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-numpy, python3-torch")
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${debian}/python/postinst ${debian}/python/prerm)
set(CPACK_DEBIAN_PYTHON_DESCRIPTION
"use of model weights that an Andiron agent keeps in memory (Python 3)
By this package, a program takes over the weights of an AI model from the
agent of package andiron, as memoryviews, or arrays of numpy or tensors of
torch, without copying them; and opens files of the safetensors format so.")

# What Debian's policy wants in each package's folder for documentation.
set(changelog ${CMAKE_BINARY_DIR}/changelog.gz)
add_custom_command(OUTPUT ${changelog}
  COMMAND ${ANDIRON_GZIP} -9nc ${debian}/changelog > ${changelog}
  DEPENDS ${debian}/changelog VERBATIM)
add_custom_target(changelog ALL DEPENDS ${changelog})
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  install(FILES ${changelog} ${debian}/copyright COMPONENT ${component}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
endforeach()

include(CPack)
