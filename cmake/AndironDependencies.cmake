# SPDX-License-Identifier: MIT
# Every third-party library, found once. Each is used by one adapter; see ARCHITECTURE.md.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(tl-expected REQUIRED)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(libsystemd REQUIRED IMPORTED_TARGET libsystemd)
# Header-only where it is used: the sums of pinned copies.
pkg_check_modules(libxxhash REQUIRED IMPORTED_TARGET libxxhash)
find_path(ANDIRON_TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)

# Header-only on purpose: Debian's shared toml++ is built with exceptions and lacks the
# symbols that TOML_EXCEPTIONS=0 wants.
add_library(andiron_tomlplusplus INTERFACE)
target_include_directories(andiron_tomlplusplus SYSTEM INTERFACE ${ANDIRON_TOMLPLUSPLUS_INCLUDE})
target_compile_definitions(andiron_tomlplusplus INTERFACE TOML_HEADER_ONLY=1 TOML_EXCEPTIONS=0)

add_library(andiron_asio INTERFACE)
target_include_directories(andiron_asio SYSTEM INTERFACE ${Boost_INCLUDE_DIRS})
target_compile_definitions(andiron_asio INTERFACE
  BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_CONCEPTS BOOST_ERROR_CODE_HEADER_ONLY)
target_link_libraries(andiron_asio INTERFACE Threads::Threads)
if(ANDIRON_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Asio has fences, which GCC's ThreadSanitizer does not see. Asio's queues are also behind a
  # mutex, which it does see.
  target_compile_options(andiron_asio INTERFACE -Wno-tsan)
endif()
