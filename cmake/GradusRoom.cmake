# gradus_room(NAME SOURCES ... DEPS ... LIBS ...): one static library gradus_NAME for src/NAME.
#   SOURCES  files of the room, relative to its folder
#   DEPS     rooms it may include; tests/rooms_test.py holds the sources to this list
#   LIBS     third-party targets; PRIVATE unless they follow the word PUBLIC_LIBS
add_library(gradus_warnings INTERFACE)
target_compile_options(gradus_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                 -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(gradus_warnings INTERFACE -Wno-restrict)  # false alarms, GCC bug 105651
endif()
if(GRADUS_WERROR)
  target_compile_options(gradus_warnings INTERFACE -Werror)
endif()
if(GRADUS_SANITIZE)
  add_compile_options(-fsanitize=${GRADUS_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${GRADUS_SANITIZE})
  if(GRADUS_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  if(GRADUS_SANITIZE MATCHES "thread")
    # libstdc++ fences a shared_ptr's last release in a way that GCC's TSan cannot model.
    add_compile_options(-Wno-tsan)
  endif()
endif()

function(gradus_room NAME)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPS;LIBS;PUBLIC_LIBS" ${ARGN})
  add_library(gradus_${NAME} STATIC ${ROOM_SOURCES})
  target_include_directories(gradus_${NAME} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM ROOM_DEPS PREPEND gradus_)
  target_link_libraries(gradus_${NAME} PUBLIC ${ROOM_DEPS} ${ROOM_PUBLIC_LIBS} PRIVATE ${ROOM_LIBS})
  target_link_libraries(gradus_${NAME} PRIVATE gradus_warnings)
endfunction()

# gradus_test(ROOM SOURCES ... LIBS ...): one GoogleTest binary for a room's unit tests, label `unit`.
function(gradus_test ROOM)
  cmake_parse_arguments(TEST "" "TIMEOUT" "SOURCES;LIBS" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  add_executable(${ROOM}_test ${TEST_SOURCES})
  target_include_directories(${ROOM}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${ROOM}_test PRIVATE gradus_${ROOM} gradus_warnings ${TEST_LIBS}
                                             GTest::gtest_main GTest::gmock)
  # Tests need not be quick, but quickly built: with UBSan their macros take twice as long to compile.
  target_compile_options(${ROOM}_test PRIVATE -O1)
  if(GRADUS_SANITIZE MATCHES "undefined")
    target_compile_options(${ROOM}_test PRIVATE -fno-sanitize=undefined)
  endif()
  add_test(NAME unit.${ROOM} COMMAND ${ROOM}_test)
  set_tests_properties(unit.${ROOM} PROPERTIES LABELS unit TIMEOUT ${TEST_TIMEOUT})
endfunction()
