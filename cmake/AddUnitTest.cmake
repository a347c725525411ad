# dlp_add_test(<label>.<name> SOURCES ... LINK ... [TIMEOUT seconds])
#
# One cmocka program per module: <label>.<name> is the ctest name, test_<name>
# the program, <label> what `ctest -L` selects.
function(dlp_add_test full_name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK" ${ARGN})
  string(REGEX MATCH "^[^.]+" label ${full_name})
  string(REGEX REPLACE "^[^.]+\\." "" name ${full_name})
  if(NOT ARG_SOURCES)
    set(ARG_SOURCES test_${name}.c)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE dlp_flags dlp_test_support ${ARG_LINK}
    PkgConfig::CMOCKA)
  add_test(NAME ${full_name} COMMAND test_${name})
  set_tests_properties(${full_name} PROPERTIES LABELS ${label} TIMEOUT ${ARG_TIMEOUT})
endfunction()

# The commonest case: a module of the core or of common, tests/unit/test_<name>.c.
function(dlp_add_unit_test name)
  dlp_add_test(unit.${name} TIMEOUT 60 ${ARGN})
endfunction()
