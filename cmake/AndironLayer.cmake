# SPDX-License-Identifier: MIT
#
# andiron_layer(NAME LAYER N SOURCES ... HEADERS ... [DEPENDS folder ...] [PRIVATE target ...])
#
# A folder of agent/ is one static library, andiron_NAME, in layer N. It may only depend on folders
# of lower layers: checked here for links, and by scripts/check-layers.sh for includes.
# Header sets let VERIFY_INTERFACE_HEADER_SETS prove that every header stands alone.
function(andiron_layer name)
  cmake_parse_arguments(ARG "" "LAYER" "SOURCES;HEADERS;DEPENDS;PRIVATE" ${ARGN})
  set(target andiron_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  set_target_properties(${target} PROPERTIES
    ANDIRON_LAYER ${ARG_LAYER}
    POSITION_INDEPENDENT_CODE ON
    VERIFY_INTERFACE_HEADER_SETS ON)
  target_sources(${target} PUBLIC
    FILE_SET headers TYPE HEADERS BASE_DIRS "${CMAKE_SOURCE_DIR}" FILES ${ARG_HEADERS})
  target_link_libraries(${target} PRIVATE ${ARG_PRIVATE} PUBLIC andiron_flags)
  foreach(folder IN LISTS ARG_DEPENDS)
    get_target_property(lower andiron_${folder} ANDIRON_LAYER)
    if(NOT lower LESS ARG_LAYER)
      message(FATAL_ERROR "${name} is in layer ${ARG_LAYER} and may not use ${folder} (${lower})")
    endif()
    target_link_libraries(${target} PUBLIC andiron_${folder})
  endforeach()
endfunction()
