// SPDX-License-Identifier: Apache-2.0
// For GoogleTest: what the NICs of a test sent, received and remembered is kept when the test fails.
//
//   #include <uroce/gtest.h>
//   const bool kSaved = uroce::save_failed_tests("failed-tests");   // or in main()
//
// The program runs under `uroce run`, and each test opens its devices itself: settings count when a NIC is opened. A
// NIC that stays open over many tests goes on with the capture of the test that opened it. Needs C++11, and `uroce` in
// PATH for the sentence that says what broke; or UROCE_COMMAND, which uroce_add_test() sets.
#ifndef UROCE_GTEST_H
#define UROCE_GTEST_H

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace uroce {

/// Gives each test a capture, TEST.pcapng, and a folder for recordings, TEST.recorded, in `directory`. Removes both
/// when the test passes, else prints where they are, and what broke.
class SaveFailedTests : public testing::EmptyTestEventListener {
 public:
  explicit SaveFailedTests(const std::string& directory) : directory_(directory) {}

  void OnTestStart(const testing::TestInfo& test) override {
    ::mkdir(directory_.c_str(), 0777);
    std::string name = std::string(test.test_suite_name()) + '.' + test.name();
    for (char& c : name) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '_';
    }
    capture_ = absolute(directory_) + '/' + name + ".pcapng";
    recorded_ = absolute(directory_) + '/' + name + ".recorded";
    forget();
    ::setenv("UROCE_PCAP", capture_.c_str(), 1);
    ::setenv("UROCE_RECORD", recorded_.c_str(), 1);
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Failed()) {
      tell();
    } else {
      forget();
    }
    ::rmdir(directory_.c_str());  // If nothing is left in it.
  }

 private:
  static std::string absolute(const std::string& path) {
    if (!path.empty() && path[0] == '/') return path;
    char* const here = ::getcwd(nullptr, 0);
    const std::string all = (here == nullptr ? std::string() : here + std::string("/")) + path;
    std::free(here);
    return all;
  }

  void tell() const {
    if (::access(capture_.c_str(), F_OK) != 0) return;  // The test has not opened a NIC, or not one of uroce.
    const char* const named = ::secure_getenv("UROCE_COMMAND");
    const std::string uroce = named == nullptr ? "uroce" : quoted(named);
    // NICs that are still open have written nothing if no verb failed.
    first_line(uroce + " record " + std::to_string(::getpid()) + " --dir " + quoted(recorded_) + " 2>/dev/null");
    const std::string sentence = first_line(uroce + " explain " + quoted(recorded_) + " 2>/dev/null");
    if (!sentence.empty()) std::printf("uroce: %s\n", sentence.c_str());
    std::printf("uroce: packets: %s (uroce explain tells what happened)\n", capture_.c_str());
    std::fflush(stdout);
  }

  static std::string quoted(const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + '\'';
  }

  static std::string first_line(const std::string& command) {
    std::string line;
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return line;
    bool is_first = true;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
      is_first = is_first && c != '\n';
      if (is_first) line += static_cast<char>(c);
    }
    return ::pclose(pipe) == 0 ? line : std::string();
  }

  void forget() const {
    ::unlink(capture_.c_str());
    if (DIR* const folder = ::opendir(recorded_.c_str())) {
      while (const dirent* const entry = ::readdir(folder)) ::unlink((recorded_ + '/' + entry->d_name).c_str());
      ::closedir(folder);
    }
    ::rmdir(recorded_.c_str());
  }

  std::string directory_, capture_, recorded_;
};

/// From now on, for all tests of the program. Returns true, so that it can initialize a constant.
inline bool save_failed_tests(const std::string& directory = "failed-tests") {
  testing::UnitTest::GetInstance()->listeners().Append(new SaveFailedTests(directory));
  return true;
}

}  // namespace uroce

#endif
