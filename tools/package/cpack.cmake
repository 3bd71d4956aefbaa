# The packages, which tools/package.sh builds: .deb for Debian 12; .rpm, of a portable build, for distributions that use it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "the uroce maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "RoCEv2 NIC in user space")
set(CPACK_PACKAGE_CONTACT "The uroce maintainers <uroce@users.noreply.github.com>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL command tools pytest)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME uroce)
set(CPACK_DEBIAN_COMMAND_DESCRIPTION "Programs that use libibverbs or RDMA CM exchange real RoCEv2 packets, without
RDMA hardware, kernel module or root: uroce run -- COMMAND. Also captures,
faults that repeat, and an account of what happened on the wire.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS "ibverbs-utils, perftest, tshark, uroce-tools")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME uroce-tools)
set(CPACK_DEBIAN_TOOLS_DESCRIPTION "Tools that use and test the NICs:
uroce-server and uroce-client transfer, verify and measure over RDMA queue
pairs, on uroce's NICs and on real ones. uroce-sim runs NICs on a simulated
network that loses, doubles, delays and damages packets. Lessons, from io_uring
to verbs: /usr/lib/uroce/learn, and their pages.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "uroce (= ${PROJECT_VERSION})")

set(CPACK_DEBIAN_PYTEST_PACKAGE_NAME python3-pytest-uroce)
set(CPACK_DEBIAN_PYTEST_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTEST_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTEST_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PYTEST_DESCRIPTION "Plugin for pytest: fixtures that run programs on NICs of uroce, with faults,
and keep the captures of tests that fail.")
set(CPACK_DEBIAN_PYTEST_PACKAGE_DEPENDS "uroce (>= ${PROJECT_VERSION}), python3, python3-pytest")
set(CPACK_DEBIAN_PYTEST_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/tools/package/pytest/prerm)

# cpack -G RPM -D CPACK_COMPONENTS_ALL="command;tools". Python's folders differ from one such distribution to the next: the
# plugin for pytest is a wheel there.
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
# Ours, and those of what is linked in: fmt, nlohmann-json and liburing; CLI11, ISA-L and libpcap; libstdc++.
set(CPACK_RPM_PACKAGE_LICENSE "Apache-2.0 AND MIT AND BSD-3-Clause AND GPL-3.0-or-later WITH GCC-exception-3.1")
set(CPACK_RPM_PACKAGE_GROUP Applications/Internet)
set(CPACK_RPM_COMMAND_PACKAGE_NAME uroce)
set(CPACK_RPM_COMMAND_PACKAGE_DESCRIPTION "${CPACK_DEBIAN_COMMAND_DESCRIPTION}")
set(CPACK_RPM_TOOLS_PACKAGE_NAME uroce-tools)
set(CPACK_RPM_TOOLS_PACKAGE_DESCRIPTION "uroce-server and uroce-client transfer, verify and measure over RDMA queue
pairs. uroce-sim runs NICs on a simulated network.")
set(CPACK_RPM_TOOLS_PACKAGE_REQUIRES "uroce = ${PROJECT_VERSION}")
# Nobody else is to find our libibverbs.so.1 and libisal.so.2 in their private folder, or to need these packages for them.
set(CPACK_RPM_SPEC_MORE_DEFINE "%global __provides_exclude_from ^/usr/lib/uroce/.*$
%global __requires_exclude ^libisal\\\\.so.*$
%global _build_id_links none")
# Folders of others.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/lib /usr/include /usr/share/man /usr/share/man/man1
  /usr/share/bash-completion /usr/share/bash-completion/completions /usr/share/doc)

# What Debian's policy wants in each package. Reproducible: gzip without time and name.
foreach(component command tools pytest)
  string(TOUPPER ${component} upper)
  set(doc ${CMAKE_INSTALL_DATAROOTDIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  install(FILES tools/package/copyright DESTINATION ${doc} COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${CMAKE_BINARY_DIR}/changelog.gz DESTINATION ${doc} COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
configure_file(tools/package/changelog.in ${CMAKE_BINARY_DIR}/changelog @ONLY)
execute_process(COMMAND gzip -9nf changelog WORKING_DIRECTORY ${CMAKE_BINARY_DIR} COMMAND_ERROR_IS_FATAL ANY)
include(CPack)
