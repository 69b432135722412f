# Compiler and linker settings of every configuration.
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(BASCULE_SANITIZE "" CACHE STRING "Sanitizers for -fsanitize=, comma separated")
option(BASCULE_FUZZ "Build the fuzz targets with libFuzzer" OFF)

set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
add_link_options(-fuse-ld=lld-19)

# -fno-pch-timestamp lets ccache reuse what was compiled with an identical precompiled header.
set(BASCULE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
    -Woverloaded-virtual -Wimplicit-fallthrough -Werror)
add_compile_options(${BASCULE_WARNINGS} -fno-omit-frame-pointer -fstack-protector-strong -fpch-instantiate-templates
    "SHELL:-Xclang -fno-pch-timestamp")
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_definitions(_GLIBCXX_ASSERTIONS _FORTIFY_SOURCE=2)
endif()
if(BASCULE_SANITIZE)
  add_compile_options(-fsanitize=${BASCULE_SANITIZE} -fno-sanitize-recover=all)
  if(NOT BASCULE_FUZZ)
    add_link_options(-fsanitize=${BASCULE_SANITIZE})
  else()
    add_link_options(-fsanitize=address,undefined)
  endif()
endif()
add_compile_definitions(BASCULE_VERSION="${BASCULE_VERSION}")

find_package(Threads REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(Boost 1.81 EXACT REQUIRED COMPONENTS json system)
find_package(fmt REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(simdjson REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED COMPONENTS core)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
