# Toolchain file: builds for aarch64 on another processor, with the compiler and the libraries of a multiarch Debian
# (crossbuild-essential-arm64; libibverbs-dev:arm64 and the like). Tests run under qemu-user. tests/packaging/aarch64.sh
# installs all of it in a root of its own: cmake --preset aarch64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
# Only this processor's libraries, and what belongs to none.
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
