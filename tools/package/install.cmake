# What `cmake --install` and the packages put where. Everything finds the rest relative to itself, so the tree can be moved.
#   bin/uroce, rdma_server, rdma_client, uroce-sim
#   lib/uroce/          libibverbs.so.1 and the broker: not where the loader looks, since only `uroce run` is to find them
#   include/uroce       headers for test suites; there is nothing to link
#   lib/uroce/learn     the lessons: share/doc/uroce-tools/learn
#   share/man, share/bash-completion, share/doc, share/uroce
#   share/doc/uroce     README.md and docs, as in the repository
set(private lib/uroce)
# Whatever the umask is of who installs: others run it.
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS ${CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS})
option(UROCE_RENAME_TOOLS "Call rdma_server and rdma_client uroce-server and uroce-client: rdmacm-utils has programs of these names" OFF)
set(server_name rdma_server)
set(client_name rdma_client)
if(UROCE_RENAME_TOOLS)
  set(server_name uroce-server)
  set(client_name uroce-client)
  set_target_properties(rdma_server PROPERTIES OUTPUT_NAME ${server_name})
  set_target_properties(rdma_client PROPERTIES OUTPUT_NAME ${client_name})
endif()
target_compile_definitions(uroce_version PRIVATE UROCE_SERVER_NAME="${server_name}" UROCE_CLIENT_NAME="${client_name}")

install(TARGETS uroce RUNTIME DESTINATION bin COMPONENT command)
install(TARGETS uroce-broker RUNTIME DESTINATION ${private} COMPONENT command)
install(TARGETS uroce_libibverbs LIBRARY DESTINATION ${private} COMPONENT command NAMELINK_COMPONENT command)
install(TARGETS rdma_server rdma_client uroce-sim RUNTIME DESTINATION bin COMPONENT tools)
# The pages that help and messages name (docs/faults.md). A build from what a cache needs (tools/package/ci.sh) may lack them.
set(pages ${CMAKE_INSTALL_DATAROOTDIR}/doc/uroce)
install(DIRECTORY docs DESTINATION ${pages} COMPONENT command OPTIONAL PATTERN learn EXCLUDE PATTERN "*.ndjson" EXCLUDE)
if(UROCE_LESSONS)
  # Where the links in them lead somewhere.
  install(DIRECTORY docs/learn DESTINATION ${pages}/docs COMPONENT tools)
  install(DIRECTORY tools/learn DESTINATION ${pages}/tools COMPONENT tools FILES_MATCHING PATTERN "*.cc" PATTERN "*.h"
    PATTERN site EXCLUDE PATTERN __pycache__ EXCLUDE)
  file(CREATE_LINK ../uroce/docs/learn ${CMAKE_BINARY_DIR}/link_to_lessons SYMBOLIC)
  install(FILES ${CMAKE_BINARY_DIR}/link_to_lessons DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/uroce-tools RENAME learn COMPONENT tools)
endif()

set(completions ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions)
install(FILES tools/completion/uroce.bash DESTINATION ${completions} RENAME uroce COMPONENT command)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/completions)
foreach(tool ${server_name} ${client_name} uroce-sim)
  file(CREATE_LINK uroce ${CMAKE_BINARY_DIR}/completions/${tool} SYMBOLIC)
  install(FILES ${CMAKE_BINARY_DIR}/completions/${tool} DESTINATION ${completions} COMPONENT tools)
endforeach()
install(FILES tools/wireshark/uroce.lua DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/uroce COMPONENT command)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${pages} COMPONENT command)
install(FILES verbs/include/uroce/control.h verbs/include/uroce/gtest.h DESTINATION include/uroce COMPONENT command)
# The licences of what is linked into our programs ask for their notices. Where there is a Debian to build on.
set(linked_in libcli11-dev nlohmann-json3-dev)
if(UROCE_PORTABLE)
  list(APPEND linked_in libisal2 libpcap0.8-dev liburing-dev libfmt-dev)
endif()
foreach(package ${linked_in})
  install(FILES ${CMAKE_SYSROOT}/usr/share/doc/${package}/copyright
    DESTINATION ${pages}/licenses RENAME ${package} COMPONENT command OPTIONAL)
endforeach()
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/uroceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES tools/cmake/uroceConfig.cmake ${CMAKE_BINARY_DIR}/uroceConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/cmake/uroce COMPONENT command)

# The plugin for pytest, as pip would install it: where Python finds it, or where PYTHONPATH can point to.
set(UROCE_PYTHON_DIR ${CMAKE_INSTALL_DATAROOTDIR}/uroce/python CACHE STRING "Where the plugin for pytest is installed")
set(dist_info pytest_uroce-${PROJECT_VERSION}.dist-info)
file(WRITE ${CMAKE_BINARY_DIR}/${dist_info}/METADATA
  "Metadata-Version: 2.1\nName: pytest-uroce\nVersion: ${PROJECT_VERSION}\nSummary: Tests on emulated RDMA NICs\nLicense: Apache-2.0\nRequires-Dist: pytest\n")
file(WRITE ${CMAKE_BINARY_DIR}/${dist_info}/entry_points.txt "[pytest11]\nuroce = pytest_uroce\n")
install(FILES tools/pytest/pytest_uroce.py DESTINATION ${UROCE_PYTHON_DIR} COMPONENT pytest)
install(DIRECTORY ${CMAKE_BINARY_DIR}/${dist_info} DESTINATION ${UROCE_PYTHON_DIR} COMPONENT pytest)
