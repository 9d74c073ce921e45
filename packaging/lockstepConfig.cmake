# find_package(lockstep) defines the target lockstep::lockstep. Paths are relative to this file, so the installed folder
# can be moved.
get_filename_component(_lockstep_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
include(CMakeFindDependencyMacro)
find_dependency(Threads)

if(NOT TARGET lockstep::lockstep)
  add_library(lockstep::lockstep SHARED IMPORTED)
  set_target_properties(lockstep::lockstep PROPERTIES
    IMPORTED_LOCATION "${_lockstep_prefix}/lib/liblockstep.so"
    INTERFACE_COMPILE_FEATURES cxx_std_20
    INTERFACE_INCLUDE_DIRECTORIES "${_lockstep_prefix}/include"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
unset(_lockstep_prefix)
