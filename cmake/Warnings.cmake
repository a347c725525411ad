# One place for warnings. They are errors in CI (DLP_WERROR), not for users.
add_library(dlp_flags INTERFACE)
target_compile_options(dlp_flags INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
  -Wformat=2 -Wundef -Wvla -Wimplicit-fallthrough -Wno-unused-parameter
  $<$<C_COMPILER_ID:GNU>:-Wlogical-op>
  $<$<C_COMPILER_ID:Clang>:-Wdocumentation>)
target_compile_definitions(dlp_flags INTERFACE _GNU_SOURCE)
if(DLP_WERROR)
  target_compile_options(dlp_flags INTERFACE -Werror)
endif()
# Assertions state invariants of ours and stay in release builds.
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")
