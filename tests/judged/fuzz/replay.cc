// SPDX-License-Identifier: Apache-2.0
// A fuzz target without a fuzzer, for ordinary builds: runs the files of a corpus, then as many mutations of them as
// wanted, the same in every run.
//   fuzz_parse [--mutations N] FILE_OR_FOLDER...
// What crashes is left in the file crash-<name of the program>: pass it to the same program to see it again.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/sim/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// For sanitizers, if there are any: end with SIGABRT, as everything does that goes wrong here.
extern "C" const char* __asan_default_options() {
  return "abort_on_error=1:handle_segv=2:handle_sigbus=2:handle_sigfpe=2";
}
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

namespace {

namespace fs = std::filesystem;
using Input = std::vector<std::uint8_t>;

const Input* running = nullptr;
std::string crash_file;

void save_running() {
  if (running == nullptr) return;
  const int fd = open(crash_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const bool saved = fd >= 0 && write(fd, running->data(), running->size()) == static_cast<ssize_t>(running->size());
  std::fprintf(stderr, "%s %s\n", saved ? "the input that did this is in" : "could not write", crash_file.c_str());
  running = nullptr;
}

extern "C" void on_fatal_signal(int number) {
  save_running();
  signal(number, SIG_DFL);
  raise(number);
}

void run(const Input& input) {
  running = &input;
  // On the heap and of this size: the address sanitizer sees one byte too far.
  const Input exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  running = nullptr;
}

void add_files(const fs::path& path, std::vector<fs::path>& files) {
  if (!fs::is_directory(path)) return files.push_back(path);
  for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
}

Input read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::perror(path.c_str());
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What a fuzzer does, without its feedback.
class Mutator {
 public:
  explicit Mutator(const std::vector<Input>& corpus) : corpus_(corpus) {}

  Input next() {
    constexpr std::size_t kLongest = 4096;
    Input input = pick();
    for (std::size_t n = 1 + below(4); n > 0; --n) mutate(input);
    input.resize(std::min(input.size(), kLongest));
    return input;
  }

 private:
  std::size_t below(std::size_t limit) { return random_.below(limit); }
  const Input& pick() { return corpus_[below(corpus_.size())]; }
  std::uint8_t byte() {
    constexpr std::uint8_t kUsual[] = {0, 1, 2, 3, 4, 8, 0x10, 0x20, 0x60, 0x7F, 0x80, 0xFE, 0xFF};
    return below(2) == 0 ? kUsual[below(std::size(kUsual))] : static_cast<std::uint8_t>(random_.next());
  }
  void mutate(Input& input) {
    const auto at = [&](std::size_t index) { return input.begin() + static_cast<std::ptrdiff_t>(index); };
    switch (input.empty() ? 3 : below(6)) {
      case 0:
        input[below(input.size())] ^= static_cast<std::uint8_t>(1u << below(8));
        break;
      case 1:
      case 2:
        input[below(input.size())] = byte();
        break;
      case 3:
        input.insert(at(below(input.size() + 1)), 1 + below(4), byte());
        break;
      case 4: {
        const std::size_t from = below(input.size());
        input.erase(at(from), at(from + 1 + below(std::min<std::size_t>(16, input.size() - from))));
        break;
      }
      default: {  // The rest of another one.
        const Input& other = pick();
        input.resize(below(input.size() + 1));
        const auto from = static_cast<std::ptrdiff_t>(below(other.size() + 1));
        input.insert(input.end(), other.begin() + from, other.end());
        break;
      }
    }
  }

  const std::vector<Input>& corpus_;
  uroce::engine::sim::Random random_{4791};
};

}  // namespace

int main(int argc, char** argv) {
  crash_file = "crash-" + fs::path(argv[0]).filename().string();
  long mutations = 0;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--mutations") == 0 && i + 1 < argc) {
      mutations = std::strtol(argv[++i], nullptr, 10);
    } else {
      add_files(argv[i], files);
    }
  }
  if (files.empty()) {
    std::fprintf(stderr, "usage: %s [--mutations N] FILE_OR_FOLDER...\n", argv[0]);
    return 2;
  }
  std::sort(files.begin(), files.end());

  for (const int number : {SIGABRT, SIGBUS, SIGFPE, SIGSEGV}) signal(number, on_fatal_signal);
  std::vector<Input> corpus;
  for (const fs::path& file : files) {
    corpus.push_back(read(file));
    run(corpus.back());
  }
  Mutator mutator(corpus);
  for (long i = 0; i < mutations; ++i) run(mutator.next());
  std::printf("%zu inputs and %ld mutations of them\n", corpus.size(), mutations);
  return 0;
}
