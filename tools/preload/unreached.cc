// SPDX-License-Identifier: Apache-2.0
#include "tools/preload/unreached.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <link.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "proto/base/fd.h"

namespace uroce::tools {
namespace {

/// As execvp() does. Empty: there is no such program.
std::string file_of(const std::string& command) {
  if (command.find('/') != std::string::npos) return command;
  const char* const path = secure_getenv("PATH");
  std::istringstream directories(path != nullptr ? path : "/bin:/usr/bin");
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string file = (directory.empty() ? "." : directory) + '/' + command;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

/// Whether our user namespace knows a user (`map`: uid_map) or group (gid_map).
bool is_known(const char* map, std::uint64_t id) {
  std::ifstream ranges(map);
  if (!ranges) return true;
  std::uint64_t first = 0, outside = 0, count = 0;
  while (ranges >> first >> outside >> count) {
    if (id >= first && id - first < count) return true;
  }
  return false;
}

/// Whether its owner's rights, or its group's, are not ours.
bool changes_id(const struct stat& status) {
  // The kernel ignores both bits where it can't map both.
  if (!is_known("/proc/self/uid_map", status.st_uid) || !is_known("/proc/self/gid_map", status.st_gid)) return false;
  const bool is_of_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid();
  const bool is_of_group =
      (status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 && status.st_gid != ::getgid();
  return is_of_user || is_of_group;
}

/// Whether the loader takes nothing from its environment: it runs with more rights than we have (execve(2)).
bool is_secure(const char* file) {
  struct stat status {};
  struct statvfs system {};
  if (::stat(file, &status) != 0 || ::statvfs(file, &system) != 0) return false;
  if ((system.f_flag & ST_NOSUID) != 0) return false;
  const bool gets_no_more = ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
  std::array<unsigned char, sizeof(vfs_ns_cap_data)> capabilities{};
  const bool has_capabilities =
      ::getuid() != 0 && ::getxattr(file, "security.capability", capabilities.data(), capabilities.size()) > 0;
  // Of those that it would have at once, the kernel says so even where it gives none.
  const bool are_effective = (capabilities[0] & VFS_CAP_FLAGS_EFFECTIVE) != 0;
  return gets_no_more ? has_capabilities && are_effective : has_capabilities || changes_id(status);
}

/// As one of our own kind is; nothing when it is no ELF file.
std::optional<ElfW(Ehdr)> elf_header(int fd) {
  ElfW(Ehdr) header{};
  if (::pread(fd, &header, sizeof header, 0) != sizeof header) return std::nullopt;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  return header;
}

bool is_of_our_kind(const ElfW(Ehdr) & header) {
  const auto own = elf_header(Fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)).get());
  return !own || (header.e_ident[EI_CLASS] == own->e_ident[EI_CLASS] && header.e_machine == own->e_machine);
}

/// The loader that a program names: none if it is linked statically. Nothing where the file can't be read.
std::optional<std::string> loader_of(int fd, const ElfW(Ehdr) & header) {
  std::vector<ElfW(Phdr)> parts(header.e_phentsize == sizeof(ElfW(Phdr)) ? header.e_phnum : 0);
  const auto size = static_cast<ssize_t>(parts.size() * sizeof(ElfW(Phdr)));
  if (size == 0 ||
      ::pread(fd, parts.data(), static_cast<std::size_t>(size), static_cast<off_t>(header.e_phoff)) != size)
    return std::nullopt;
  const auto part = std::ranges::find(parts, PT_INTERP, &ElfW(Phdr)::p_type);
  if (part == parts.end()) return "";
  std::string name(std::min<std::size_t>(part->p_filesz, PATH_MAX), '\0');
  const ssize_t read = ::pread(fd, name.data(), name.size(), static_cast<off_t>(part->p_offset));
  if (read <= 0) return std::nullopt;
  return name.substr(0, static_cast<std::size_t>(read));
}

}  // namespace

std::optional<std::string> why_unreached(const std::string& command) {
  const std::string path = file_of(command);
  const std::string name = command.substr(command.rfind('/') + 1);
  // Root's does not get more rights, but takes the variables away all the same.
  if (name == "sudo" || name == "doas") {
    return fmt::format(
        "{0} gives what it starts no NIC of uroce: write '{0} uroce run -- ...' instead of "
        "'uroce run -- {0} ...'",
        name);
  }
  if (is_secure(path.c_str())) {
    return fmt::format(
        "{} gets other rights than its caller has (setuid, setgid or file capabilities): neither it nor what it starts "
        "gets a NIC of uroce{}",
        command, ::getuid() == 0 ? "" : "; root can start it with one");
  }
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const auto header = file ? elf_header(file.get()) : std::nullopt;
  if (!header) return std::nullopt;
  if (!is_of_our_kind(*header)) {
    return fmt::format(
        "{} is for another kind of processor, or for 32 bits: it gets no NIC of uroce; build it as "
        "uroce was built",
        command);
  }
  const std::optional<std::string> loader = loader_of(file.get(), *header);
  if (loader && loader->find("/ld-musl-") != std::string::npos) {
    return fmt::format(
        "{} is linked with musl, whose loader refuses libibverbs.so.1 of uroce: it will not start; link it with glibc",
        command);
  }
  if (!loader || !loader->empty()) return std::nullopt;
  return fmt::format(
      "{} is linked statically: it gets no NIC of uroce, only programs that it starts; link it with the "
      "libc and the libibverbs of the system",
      command);
}

}  // namespace uroce::tools
