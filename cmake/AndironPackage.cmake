# SPDX-License-Identifier: MIT
# `cpack -G DEB` in a build folder makes andiron_VERSION_ARCH.deb; scripts/package.sh does both.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME andiron)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR "The Andiron authors")
set(CPACK_PACKAGE_CONTACT "The Andiron authors <andiron@andiron.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "keeps the weights of AI models warm")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"A root agent that loads the model files which a home server depends on into
memory, holds them there within a budget, notices when they change or are
pushed out, and brings them back. Runtimes such as Ollama, llama.cpp and vLLM
stay as they are: they open the same files and find them in memory.
.
It comes with andironctl, which proposes a configuration for the machine.")
set(CPACK_STRIP_FILES ON)
# By DESTDIR, so that files that name paths are written for /usr and not for a staging folder.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "init-system-helpers (>= 1.54), passwd")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/packaging/debian/postinst
  ${CMAKE_SOURCE_DIR}/packaging/debian/prerm
  ${CMAKE_SOURCE_DIR}/packaging/debian/postrm)

# What Debian's policy wants in the documentation's folder.
set(changelog ${CMAKE_BINARY_DIR}/changelog.gz)
add_custom_command(OUTPUT ${changelog}
  COMMAND ${ANDIRON_GZIP} -9nc ${CMAKE_SOURCE_DIR}/packaging/debian/changelog > ${changelog}
  DEPENDS ${CMAKE_SOURCE_DIR}/packaging/debian/changelog VERBATIM)
add_custom_target(changelog ALL DEPENDS ${changelog})
install(FILES ${changelog} packaging/debian/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/andiron)

include(CPack)
