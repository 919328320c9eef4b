# gradus_room(NAME SOURCES ... DEPS ... LIBS ...): one static library gradus_NAME for src/NAME.
#   SOURCES  files of the room, relative to its folder
#   APART    those of them that repeat a name of another one's anonymous namespace or otherwise cannot share
#            a translation unit with it: the sanitizer presets compile the others several at a time
#   DEPS     rooms it may include; tests/rooms_test.py holds the sources to this list
#   LIBS     third-party targets; PRIVATE unless they follow the word PUBLIC_LIBS
add_library(gradus_warnings INTERFACE)
target_compile_options(gradus_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                 -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms: GCC bug 105651, and the like of it in what sanitizers add.
  target_compile_options(gradus_warnings INTERFACE -Wno-restrict)
  if(GRADUS_SANITIZE)
    target_compile_options(gradus_warnings INTERFACE -Wno-array-bounds -Wno-stringop-overflow)
  endif()
endif()
if(GRADUS_WERROR)
  target_compile_options(gradus_warnings INTERFACE -Werror)
endif()
if(GRADUS_SANITIZE)
  add_compile_options(-fsanitize=${GRADUS_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${GRADUS_SANITIZE})
  if(GRADUS_SANITIZE MATCHES "undefined")
    # Left out is what AddressSanitizer finds too, at the access, and alignment but for the rooms that
    # view bytes as numbers: together a third of the compile time.
    add_compile_options(
      -fno-sanitize=null,object-size,pointer-overflow,nonnull-attribute,returns-nonnull-attribute,alignment
      -fno-sanitize-recover=undefined)
  endif()
  if(GRADUS_SANITIZE MATCHES "thread")
    # libstdc++ fences a shared_ptr's last release in a way that GCC's TSan cannot model.
    add_compile_options(-Wno-tsan)
  endif()
endif()

# False alarms of joined files: one passes for a header, and its names for those of the next one.
target_compile_options(gradus_warnings INTERFACE
  $<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:-Wno-subobject-linkage;-Wno-shadow>)

# gradus_apart(FILES ...): compiled by themselves even where others are joined.
function(gradus_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

function(gradus_room NAME)
  cmake_parse_arguments(ROOM "" "" "SOURCES;APART;DEPS;LIBS;PUBLIC_LIBS" ${ARGN})
  add_library(gradus_${NAME} STATIC ${ROOM_SOURCES})
  gradus_apart(${ROOM_APART})
  target_include_directories(gradus_${NAME} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM ROOM_DEPS PREPEND gradus_)
  target_link_libraries(gradus_${NAME} PUBLIC ${ROOM_DEPS} ${ROOM_PUBLIC_LIBS} PRIVATE ${ROOM_LIBS})
  target_link_libraries(gradus_${NAME} PRIVATE gradus_warnings)
  if(GRADUS_SANITIZE AND NAME MATCHES "^(batch|ladder|simulate)$")
    target_compile_options(gradus_${NAME} PRIVATE -O1)  # their tests compute for long
  endif()
  if(GRADUS_SANITIZE MATCHES "undefined" AND NAME MATCHES "^(tensor|batch|runtime|worker|api_codec)$")
    target_compile_options(gradus_${NAME} PRIVATE -fsanitize=alignment)
  endif()
endfunction()

# For what is no part of the server: UBSan's share of the compile time is the greatest.
function(gradus_without_ubsan TARGET)
  if(GRADUS_SANITIZE MATCHES "undefined")
    target_compile_options(${TARGET} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

# What all unit tests include, compiled once: the half of the time that a small test takes. Made by
# the first gradus_test().
function(gradus_test_headers)
  if(TARGET gradus_test_headers)
    return()
  endif()
  file(WRITE ${CMAKE_BINARY_DIR}/test_headers.cc "")
  add_library(gradus_test_headers OBJECT ${CMAKE_BINARY_DIR}/test_headers.cc)
  target_link_libraries(gradus_test_headers PRIVATE gradus_warnings GTest::gtest GTest::gmock)
  target_precompile_headers(
    gradus_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h> <algorithm> <chrono> <cstdint>
                                <functional> <map> <memory> <optional> <string> <thread> <vector>)
  gradus_test_options(gradus_test_headers)
endfunction()

# Tests need not be quick, but quickly built: with UBSan their macros take twice as long to compile.
function(gradus_test_options TARGET)
  target_compile_options(${TARGET} PRIVATE -O1 -fpch-preprocess)  # the latter for ccache
  if(GRADUS_CHECKS)  # ./dev test: all of them anew, not one that somebody works on
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON)
  endif()
  gradus_without_ubsan(${TARGET})
endfunction()

# gradus_test(ROOM SOURCES ... LIBS ... DEFINITIONS ...): one GoogleTest binary for a room's unit tests, label `unit`.
#   APART    as for a room
#   PURE     the room's code is run by one thread: not built for ThreadSanitizer
function(gradus_test ROOM)
  cmake_parse_arguments(TEST "PURE" "TIMEOUT" "SOURCES;APART;LIBS;DEFINITIONS" ${ARGN})
  if(TEST_PURE)
    set_property(GLOBAL APPEND PROPERTY GRADUS_PURE_TESTS unit.${ROOM})
    if(GRADUS_SANITIZE MATCHES "thread")
      return()
    endif()
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  add_executable(${ROOM}_test ${TEST_SOURCES})
  gradus_apart(${TEST_APART})
  target_include_directories(${ROOM}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${ROOM}_test PRIVATE gradus_${ROOM} gradus_warnings ${TEST_LIBS}
                                             GTest::gtest_main GTest::gmock)
  target_compile_definitions(${ROOM}_test PRIVATE ${TEST_DEFINITIONS})
  gradus_test_headers()
  gradus_test_options(${ROOM}_test)
  target_precompile_headers(${ROOM}_test REUSE_FROM gradus_test_headers)
  add_test(NAME unit.${ROOM} COMMAND ${ROOM}_test)
  set_tests_properties(unit.${ROOM} PROPERTIES LABELS unit TIMEOUT ${TEST_TIMEOUT})
endfunction()
