# SPDX-License-Identifier: MIT
# One interface target carries what every target of ours is compiled with.
add_library(andiron_flags INTERFACE)
target_compile_options(andiron_flags INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  -Wcast-align -Woverloaded-virtual -Wconversion -Wsign-conversion -Wimplicit-fallthrough
  -fno-strict-aliasing -fstack-protector-strong)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(andiron_flags INTERFACE -Wlogical-op -Wduplicated-cond)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    # These come from GCC's optimiser, see differently inlined code in each version, and have false
    # positives in the standard library's own strings (GCC 12: PR 105651): shown, not errors. A
    # user with another compiler than ours has to be able to build.
    target_compile_options(andiron_flags INTERFACE
      -Wno-restrict -Wno-error=array-bounds -Wno-error=maybe-uninitialized
      -Wno-error=stringop-overflow -Wno-error=stringop-overread)
    if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
      target_compile_options(andiron_flags INTERFACE -Wno-error=dangling-reference)
    endif()
  endif()
endif()
target_compile_definitions(andiron_flags INTERFACE _FILE_OFFSET_BITS=64)
if(CMAKE_BUILD_TYPE STREQUAL "Release" OR CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
  target_compile_definitions(andiron_flags INTERFACE _FORTIFY_SOURCE=2)
endif()

if(ANDIRON_SANITIZE)
  add_compile_options(-fsanitize=${ANDIRON_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ANDIRON_SANITIZE})
endif()

if(ANDIRON_FUZZ)
  # Every part reports its edges: a fuzzer that sees only its own file searches blindly.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
