// Holds the precompiled headers; see src/CMakeLists.txt.
