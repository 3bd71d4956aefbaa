# UROCE_PORTABLE: programs that need only libc and libgcc_s of their machine. All other libraries are linked statically;
# isa-l, of which Debian has no static library, comes along in lib/uroce. With CMAKE_SYSROOT (sysroot.sh), libc may be
# as old as the one there.
find_library(static_uring liburing.a REQUIRED)
find_library(static_pcap libpcap.a REQUIRED)  # Position-independent, and without D-Bus: sysroot.sh
find_library(shared_isal isal REQUIRED)

add_library(uroce_libc_floor STATIC tools/package/libc_floor.c)
target_link_libraries(uroce_options INTERFACE uroce_libc_floor)
# The library stands before libstdc++ on the command line: take what is in it before anybody asks.
target_link_options(uroce_options INTERFACE -static-libstdc++ "LINKER:-u,__libc_single_threaded")

if(CMAKE_SYSROOT)
  # gcc looks beside itself first, where libc and its start files are this machine's.
  add_link_options(-B${CMAKE_SYSROOT}/usr/lib/x86_64-linux-gnu -L${CMAKE_SYSROOT}/usr/lib/x86_64-linux-gnu
    -L${CMAKE_SYSROOT}/lib/x86_64-linux-gnu
    # Parts of libc since 2.34, which libstdc++ counts on.
    "LINKER:--no-as-needed,-lpthread,-ldl,--as-needed")
endif()

set_target_properties(PkgConfig::URING PROPERTIES INTERFACE_LINK_LIBRARIES ${static_uring})
set_target_properties(PkgConfig::PCAP PROPERTIES INTERFACE_LINK_LIBRARIES ${static_pcap})
target_link_libraries(uroce_fmt INTERFACE fmt::fmt-header-only)

get_filename_component(shared_isal_file ${shared_isal} REALPATH)
install(FILES ${shared_isal_file} DESTINATION lib/uroce RENAME libisal.so.2 COMPONENT command)
set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/../lib/uroce")
