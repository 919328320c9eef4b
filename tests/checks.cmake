# What `./dev test` runs beside this build's own tests, so that one summary covers all: the unit tests
# of the sanitizer builds (made by `./dev test` beforehand in build/asan and build/tsan) and the lint.
get_property(pure GLOBAL PROPERTY GRADUS_PURE_TESTS)
foreach(room IN LISTS GRADUS_ROOMS ITEMS fault_ep)
  if(room MATCHES "^(tools|triton)$" OR NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/unit/${room}/CMakeLists.txt)
    continue()  # GRADUS_UNIT_ONLY builds have neither
  endif()
  get_directory_property(names DIRECTORY unit/${room} TESTS)
  get_directory_property(folders DIRECTORY unit/${room} SUBDIRECTORIES)
  foreach(folder IN LISTS folders)
    get_directory_property(more DIRECTORY ${folder} TESTS)
    list(APPEND names ${more})
  endforeach()
  list(FILTER names INCLUDE REGEX "^unit[.]")  # sanitizer builds have no others
  list(REMOVE_ITEM names unit.api_grpc)        # nor this one: GRADUS_UNIT_ONLY leaves gRPC out
  foreach(name IN LISTS names)
    foreach(preset asan tsan)
      if(preset STREQUAL "tsan" AND name IN_LIST pure)
        continue()
      endif()
      set(command ${CMAKE_CTEST_COMMAND} --preset ${preset} --no-tests=error -R "^${name}$")
      if(preset STREQUAL "tsan")
        list(PREPEND command ${CMAKE_SOURCE_DIR}/scripts/fixed_addresses.sh)
      endif()
      string(REGEX REPLACE "^unit" ${preset} check ${name})
      add_test(NAME ${check} COMMAND ${command} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
      # The bounded count of fault traces even under `--long`: sanitizers look for other faults. Of
      # threads that meet, they see more in a minute.
      set(bounded "GRADUS_TRACES=unset:")
      if(NOT name STREQUAL "unit.serving")
        list(APPEND bounded "GRADUS_LONG=unset:")
      endif()
      set_tests_properties(${check} PROPERTIES LABELS ${preset} TIMEOUT 960
                           ENVIRONMENT_MODIFICATION "${bounded}")
    endforeach()
  endforeach()
endforeach()

add_test(NAME lint.format COMMAND ${CMAKE_SOURCE_DIR}/scripts/lint.sh format)
add_test(NAME lint.shell COMMAND ${CMAKE_SOURCE_DIR}/scripts/lint.sh shell)
set_tests_properties(lint.format lint.shell PROPERTIES LABELS lint TIMEOUT 120)
