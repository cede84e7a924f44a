# SPDX-License-Identifier: MIT
# What `cmake --install` puts beside the two programs. The prefix is known when it is installed (--prefix)
# and not before, so the units, which name paths, are written then.
set(doc ${CMAKE_INSTALL_DATADIR}/doc/andiron)
set(units lib/systemd/system)  # not LIBDIR, which may be lib64 or lib/x86_64-linux-gnu

install(FILES configs/sysusers.d/andiron.conf DESTINATION lib/sysusers.d)
install(FILES configs/tmpfiles.d/andiron.conf DESTINATION lib/tmpfiles.d)
install(FILES configs/systemd/andirond.socket configs/systemd/andirond-lease.socket
        configs/systemd/andiron.slice DESTINATION ${units})
foreach(unit andirond.service andiron-preload.service andiron-warm@.service)
  install(CODE "
    set(ANDIRON_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
    set(ANDIRON_SBINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_SBINDIR}\")
    configure_file(\"${CMAKE_SOURCE_DIR}/configs/systemd/${unit}.in\"
                   \"${CMAKE_BINARY_DIR}/units/${unit}\" @ONLY)")
  install(FILES ${CMAKE_BINARY_DIR}/units/${unit} DESTINATION ${units})
endforeach()

install(FILES README.md DESTINATION ${doc})
# Where the links of README.md lead.
install(FILES docs/container.md docs/home-assistant.md docs/leases.md docs/troubleshooting.md docs/upgrading.md
        DESTINATION ${doc}/docs)
# Where container.md says that they are.
install(FILES packaging/compose.nas.yaml packaging/compose.pinned.yaml packaging/compose.runtime.yaml
        DESTINATION ${doc}/packaging)
install(FILES configs/andiron.toml DESTINATION ${doc}/examples)
install(DIRECTORY configs/systemd/examples/ollama.service.d configs/oci-hooks
        DESTINATION ${doc}/examples)

# Compressed, as man(1) reads them and Debian wants them; -n keeps the time out, so that the same source
# gives the same bytes.
find_program(ANDIRON_GZIP gzip REQUIRED)
foreach(page andirond.8 andironctl.1 andiron.toml.5 libandiron.3)
  string(REGEX REPLACE ".*\\." "" section ${page})
  set(packed ${CMAKE_BINARY_DIR}/man/${page}.gz)
  add_custom_command(OUTPUT ${packed}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man
    COMMAND ${ANDIRON_GZIP} -9nc ${CMAKE_SOURCE_DIR}/docs/man/${page} > ${packed}
    DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/${page} VERBATIM)
  list(APPEND pages ${packed})
  set(component agent)
  if(section STREQUAL "3")
    set(component development)
  endif()
  install(FILES ${packed} COMPONENT ${component} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
add_custom_target(man ALL DEPENDS ${pages})

install(FILES configs/completion/andironctl.bash RENAME andironctl
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
# Debian's zsh looks for what packages bring in another folder than everybody's.
install(CODE "
  set(zsh site-functions)
  if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\" AND EXISTS /etc/debian_version)
    set(zsh vendor-completions)
  endif()
  file(INSTALL \"${CMAKE_SOURCE_DIR}/configs/completion/_andironctl\"
       DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/zsh/\${zsh}\")")
