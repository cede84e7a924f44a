# SPDX-License-Identifier: MIT
# What `cmake --install` puts beside the two programs. The prefix is known when it is installed (--prefix)
# and not before, so the units, which name paths, are written then.
set(doc ${CMAKE_INSTALL_DATADIR}/doc/andiron)
set(units lib/systemd/system)  # not LIBDIR, which may be lib64 or lib/x86_64-linux-gnu

install(FILES configs/sysusers.d/andiron.conf DESTINATION lib/sysusers.d)
install(FILES configs/tmpfiles.d/andiron.conf DESTINATION lib/tmpfiles.d)
install(FILES configs/systemd/andirond.socket configs/systemd/andiron.slice DESTINATION ${units})
foreach(unit andirond.service andiron-preload.service andiron-warm@.service)
  install(CODE "
    set(ANDIRON_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
    set(ANDIRON_SBINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_SBINDIR}\")
    configure_file(\"${CMAKE_SOURCE_DIR}/configs/systemd/${unit}.in\"
                   \"${CMAKE_BINARY_DIR}/units/${unit}\" @ONLY)")
  install(FILES ${CMAKE_BINARY_DIR}/units/${unit} DESTINATION ${units})
endforeach()

install(FILES README.md DESTINATION ${doc})
install(FILES configs/andiron.toml DESTINATION ${doc}/examples)
install(DIRECTORY configs/systemd/examples/ollama.service.d DESTINATION ${doc}/examples)
