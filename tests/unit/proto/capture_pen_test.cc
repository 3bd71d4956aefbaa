// SPDX-License-Identifier: Apache-2.0
// Who holds the pen of a capture keeps all others waiting, and they give up after a second: so it is not held while a
// large file is read.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "proto/capture_file.h"
#include "proto/pcap_format.h"

namespace {

std::function<void(std::size_t)> on_read;  ///< Hears of each read, and of how many bytes it wants.

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's names are reserved.
extern "C" ssize_t pread(int fd, void* buffer, std::size_t size, off_t at) {
  if (on_read) on_read(size);
  return ::syscall(SYS_pread64, fd, buffer, size, at);
}

namespace uroce::proto {
namespace {

using pcap_format::Format;
using Start = CaptureFile::Start;

constexpr std::size_t kLarge = 4 << 20;
constexpr std::size_t kMostOfIt = kLarge - kLarge / 8;  ///< Of its packets, only the beginnings have to be read.
constexpr std::size_t kSmall = 1 << 20;                 ///< Looked at in less than a millisecond.

class CapturePen : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path_ = std::filesystem::path(testing::TempDir()) / ("capture_pen_" + std::to_string(::getpid()) + GetParam());
  }
  void TearDown() override {
    on_read = nullptr;
    std::filesystem::remove(path_);
  }

  Format format() const { return path_.extension() == ".pcap" ? Format::kPcap : Format::kPcapng; }
  std::vector<std::uint8_t> packets(std::size_t bytes) const {
    const std::vector<std::uint8_t> frame(60);
    pcap_format::Packet packet;
    packet.frame = frame;
    std::vector<std::uint8_t> records;
    while (records.size() < bytes) pcap_format::put_packet(format(), packet, records);
    return records;
  }
  /// As another process would, which holds the pen itself.
  void another_appends(const std::vector<std::uint8_t>& records) const {
    std::ofstream(path_, std::ios::app | std::ios::binary)
        .write(reinterpret_cast<const char*>(records.data()), static_cast<std::streamsize>(records.size()));
  }
  bool pen_is_held() const {
    const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    struct flock pen {};
    pen.l_type = F_WRLCK;
    pen.l_whence = SEEK_SET;
    pen.l_len = 1;
    const bool asked = ::fcntl(fd, F_OFD_GETLK, &pen) == 0;
    ::close(fd);
    return !asked || pen.l_type != F_UNLCK;
  }
  void watch() {
    on_read = [this](std::size_t size) { (pen_is_held() ? with_pen_ : without_) += size; };
  }

  std::filesystem::path path_;
  std::size_t with_pen_ = 0, without_ = 0;  ///< Bytes that were read.
};

TEST_P(CapturePen, IsNotHeldWhileALargeFileIsRead) {
  auto first = CaptureFile::open(path_, Start::kAnew);
  ASSERT_TRUE(first);
  ASSERT_FALSE(first->append(packets(kLarge)));
  watch();
  auto second = CaptureFile::open(path_, Start::kGoOn);
  ASSERT_TRUE(second) << second.error();
  ASSERT_TRUE(second->add_interface("second"));
  EXPECT_GE(without_, kMostOfIt);
  EXPECT_LT(with_pen_, kSmall);
}

TEST_P(CapturePen, IsNotHeldWhileWhatOthersHaveWrittenIsRead) {
  auto file = CaptureFile::open(path_, Start::kAnew);
  ASSERT_TRUE(file);
  another_appends(packets(kLarge));
  watch();
  ASSERT_TRUE(file->add_interface("first"));
  ASSERT_FALSE(file->append(packets(1)));
  another_appends(packets(kLarge));
  ASSERT_FALSE(file->append(packets(1)));
  another_appends(packets(kLarge));
  file->leave();
  EXPECT_GE(without_, 3 * kMostOfIt);
  EXPECT_LT(with_pen_, kSmall);
}

/// A large file takes so long to read that others append a lot meanwhile.
TEST_P(CapturePen, IsNotHeldWhileWhatWasWrittenMeanwhileIsRead) {
  auto first = CaptureFile::open(path_, Start::kAnew);
  ASSERT_TRUE(first);
  ASSERT_FALSE(first->append(packets(kLarge)));
  watch();
  int times = 3;
  on_read = [this, &times, count = on_read](std::size_t size) {
    count(size);
    if (without_ >= kMostOfIt && times-- > 0) another_appends(packets(kLarge / 2));
  };
  auto second = CaptureFile::open(path_, Start::kGoOn);
  ASSERT_TRUE(second) << second.error();
  ASSERT_TRUE(second->add_interface("second"));
  EXPECT_LT(times, 0);
  EXPECT_LT(with_pen_, kSmall);
}

INSTANTIATE_TEST_SUITE_P(Formats, CapturePen, testing::Values(".pcap", ".pcapng"),
                         [](const auto& format) { return std::string(format.param).substr(1); });

}  // namespace
}  // namespace uroce::proto
