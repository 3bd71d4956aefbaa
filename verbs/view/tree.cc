// SPDX-License-Identifier: Apache-2.0
#include "verbs/view/tree.h"

#include <cerrno>
#include <utility>

#include "proto/base/check.h"

namespace uroce::view {
namespace {

constexpr int kMaxLinks = 40;  ///< As the kernel: MAXSYMLINKS.

std::string_view parent_of(std::string_view path) { return path.substr(0, path.rfind('/')); }

bool is_at_or_below(std::string_view path, std::string_view root) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

/// Takes the first name off `rest`, and the slashes before it.
std::string take_name(std::string& rest) {
  const std::size_t start = rest.find_first_not_of('/');
  if (start == std::string::npos) {
    rest.clear();
    return "";
  }
  const std::size_t end = std::min(rest.find('/', start), rest.size());
  std::string name = rest.substr(start, end - start);
  rest.erase(0, end);
  return name;
}

Resolution failure(int error) {
  return {.kind = Resolution::Kind::kError, .through_us = true, .path = "", .node = nullptr, .error = error};
}

}  // namespace

void Tree::add_root(std::string path) {
  nodes_[path] = Node{};
  roots_.push_back(std::move(path));
}

void Tree::add(const std::string& path, Node node) {
  UROCE_ASSERT(owns(path));
  for (std::string_view p = parent_of(path); owns(p) && find(p) == nullptr; p = parent_of(p)) {
    nodes_[std::string(p)] = Node{};
  }
  nodes_[path] = std::move(node);
}

void Tree::add_file(const std::string& path, std::function<std::string()> contents) {
  Node node;
  node.kind = Node::Kind::kFile;
  node.contents = std::move(contents);
  add(path, std::move(node));
}

void Tree::add_link(const std::string& path, std::string target) {
  Node node;
  node.kind = Node::Kind::kLink;
  node.target = std::move(target);
  add(path, std::move(node));
}

void Tree::add_char_device(const std::string& path, std::uint32_t major, std::uint32_t minor) {
  Node node;
  node.kind = Node::Kind::kCharDevice;
  node.major = major;
  node.minor = minor;
  add(path, std::move(node));
}

bool Tree::owns(std::string_view path) const {
  for (const std::string& root : roots_) {
    if (is_at_or_below(path, root)) return true;
  }
  return false;
}

const Node* Tree::find(std::string_view path) const {
  const auto found = nodes_.find(path);
  return found == nodes_.end() ? nullptr : &found->second;
}

std::vector<Entry> Tree::list(const std::string& directory) const {
  std::vector<Entry> entries;
  const std::string prefix = directory + '/';
  for (auto i = nodes_.lower_bound(prefix); i != nodes_.end() && i->first.starts_with(prefix); ++i) {
    std::string name = i->first.substr(prefix.size());
    if (name.find('/') == std::string::npos) entries.push_back({std::move(name), i->second.kind});
  }
  return entries;
}

Resolution Tree::resolve(std::string_view path, bool follow) const {
  Resolution at;  // Where we are; the path is empty for "/".
  std::string rest(path);
  int links = 0;
  while (!rest.empty()) {
    // Only a directory has anything behind it, if it is but a slash.
    if (at.node != nullptr && at.node->kind != Node::Kind::kDirectory) return failure(ENOTDIR);
    const std::string name = take_name(rest);
    if (name.empty() || name == ".") continue;
    std::string next(name == ".." ? parent_of(at.path) : at.path);
    if (name != "..") next.append("/").append(name);
    if (!owns(next)) {
      at.path = std::move(next);
      at.node = nullptr;
      continue;
    }
    at.through_us = true;
    const Node* const node = find(next);
    if (node == nullptr) return failure(ENOENT);
    if (node->kind == Node::Kind::kLink && (follow || !rest.empty())) {
      if (++links > kMaxLinks) return failure(ELOOP);
      rest.insert(0, node->target);
      if (node->target.starts_with('/')) {
        at.path.clear();
        at.node = nullptr;
      }
      continue;
    }
    at.path = std::move(next);
    at.node = node;
  }
  if (at.node != nullptr) at.kind = Resolution::Kind::kFound;
  if (at.path.empty()) at.path = "/";
  return at;
}

}  // namespace uroce::view
