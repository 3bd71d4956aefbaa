// SPDX-License-Identifier: Apache-2.0
// A tree of directories, files, symbolic links and character devices that exists in memory only, and paths in it as the
// kernel resolves them (path_resolution(7)). Pure: what a file says comes from a function.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace uroce::view {

struct Node {
  enum class Kind : std::uint8_t { kDirectory, kFile, kLink, kCharDevice };
  Kind kind = Kind::kDirectory;
  std::function<std::string()> contents;  ///< kFile: what it says now.
  std::string target;                     ///< kLink.
  std::uint32_t major = 0;                ///< kCharDevice.
  std::uint32_t minor = 0;
};

struct Entry {
  std::string name;
  Node::Kind kind;
};

/// What a path leads to.
struct Resolution {
  enum class Kind : std::uint8_t {
    kOutside,  ///< `path`, which is none of ours.
    kFound,    ///< `node`, whose canonical path is `path`.
    kError,    ///< Nothing: `error` is ENOENT, ENOTDIR or ELOOP.
  };
  Kind kind = Kind::kOutside;
  bool through_us = false;  ///< The path went through the tree, even if it leads outside: only `path` is real then.
  std::string path;
  const Node* node = nullptr;
  int error = 0;
};

class Tree {
 public:
  /// Makes `path`, canonical and absolute, a directory of this tree: everything below it is in the tree or does not
  /// exist. What is above is the real file system.
  void add_root(std::string path);
  // Below a root. Directories on the way are made.
  void add_file(const std::string& path, std::function<std::string()> contents);
  void add_link(const std::string& path, std::string target);
  void add_char_device(const std::string& path, std::uint32_t major, std::uint32_t minor);

  /// True for the roots and all paths below them, whether they exist or not. `path`: canonical.
  bool owns(std::string_view path) const;
  /// The node with this canonical path, or null.
  const Node* find(std::string_view path) const;
  /// The entries of a directory by name, without "." and "..".
  std::vector<Entry> list(const std::string& directory) const;
  /// Walks along `path`, which is absolute. The real part of the way is taken literally: as if none of its names were
  /// symbolic links. `follow`: a link at the end is followed as well.
  Resolution resolve(std::string_view path, bool follow) const;

 private:
  void add(const std::string& path, Node node);

  std::vector<std::string> roots_;
  std::map<std::string, Node, std::less<>> nodes_;
};

}  // namespace uroce::view
