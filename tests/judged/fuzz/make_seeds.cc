// SPDX-License-Identifier: Apache-2.0
// make_seeds CORPUS           writes the seeds of all targets to CORPUS/<target>/
// make_seeds --check CORPUS   exits with 1 when a committed seed is not what would be written
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/judged/fuzz/seeds.h"

namespace uroce::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<Seed> all_seeds() {
  std::vector<Seed> seeds;
  add_parse_seeds(seeds);
  add_responder_seeds(seeds);
  add_requester_seeds(seeds);
  add_cm_seeds(seeds);
  add_golden_seeds(seeds);
  add_api_seeds(seeds);
  add_explain_seeds(seeds);
  add_ring_seeds(seeds);
  return seeds;
}

/// What fuzzing found has the name that libFuzzer gives: the SHA-1 of its contents. Former crashes are named by hand.
bool is_seed(const std::string& name) {
  const bool is_found = name.size() == 40 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
  return !is_found && !name.starts_with("crash_");
}

int check(const fs::path& corpus) {
  int wrong = 0;
  const auto complain = [&wrong](const fs::path& file, const char* what) {
    std::fprintf(stderr, "%s %s: run make_seeds\n", file.c_str(), what);
    wrong = 1;
  };
  std::set<fs::path> wanted;
  for (const Seed& seed : all_seeds()) {
    const fs::path path = corpus / seed.target / seed.name;
    wanted.insert(path);
    std::ifstream file(path, std::ios::binary);
    const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    if (!file || bytes != seed.bytes) complain(path, "is missing or old");
  }
  for (const auto& entry : fs::recursive_directory_iterator(corpus)) {
    const bool is_extra = entry.is_regular_file() && is_seed(entry.path().filename()) && !wanted.contains(entry.path());
    if (is_extra) complain(entry.path(), "is not made by make_seeds");
  }
  return wrong;
}

int write(const fs::path& corpus) {
  for (const Seed& seed : all_seeds()) {
    fs::create_directories(corpus / seed.target);
    std::ofstream file(corpus / seed.target / seed.name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.bytes.data()), static_cast<std::streamsize>(seed.bytes.size()));
    if (!file.flush()) {
      std::perror(seed.name.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace uroce::fuzz

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--check") return uroce::fuzz::check(argv[2]);
  if (argc == 2) return uroce::fuzz::write(argv[1]);
  std::fprintf(stderr, "usage: make_seeds [--check] CORPUS\n");
  return 2;
}
