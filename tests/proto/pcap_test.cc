#include "proto/pcap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/proto/hex.h"

namespace uroce::proto {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Pcap : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "uroce-pcap-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string file(const char* name) const { return folder_ / name; }
  std::string file_with(const char* name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }

 private:
  fs::path folder_;
};

constexpr std::int64_t kTime = 1'700'000'000'123'456'789;

TEST_F(Pcap, WritesWhatItReads) {
  {
    auto writer = PcapWriter::create(file("a.pcap"));
    ASSERT_TRUE(writer.ok()) << writer.error();
    EXPECT_EQ(writer->write(kTime, test::kSendFrame), std::nullopt);
    EXPECT_EQ(writer->write(kTime + 1, test::kAckFrame), std::nullopt);
  }
  auto reader = PcapReader::open(file("a.pcap"));
  ASSERT_TRUE(reader.ok()) << reader.error();
  const auto expect_next = [&](std::int64_t time, const std::vector<std::uint8_t>& bytes) {
    const auto next = reader->next();
    ASSERT_TRUE(next.ok() && next->has_value());
    EXPECT_EQ((*next)->time_ns, time);
    EXPECT_EQ((*next)->wire_size, bytes.size());
    EXPECT_EQ(std::vector<std::uint8_t>((*next)->bytes.begin(), (*next)->bytes.end()), bytes);
  };
  expect_next(kTime, test::kSendFrame);
  expect_next(kTime + 1, test::kAckFrame);
  for (int i = 0; i < 2; ++i) {  // the end stays the end
    const auto end = reader->next();
    ASSERT_TRUE(end.ok());
    EXPECT_FALSE(end->has_value());
  }
}

TEST_F(Pcap, PcapngIsReadLikePcapAndKeepsComments) {
  const std::string odd_comment = "uroce: said so";  // 14 bytes: neither it nor the frame fills its last word
  {
    auto writer = PcapWriter::create(file("a.pcapng"));
    ASSERT_TRUE(writer.ok()) << writer.error();
    EXPECT_TRUE(writer->takes_comments());
    EXPECT_EQ(fs::file_size(file("a.pcapng")), 28u + 32u);
    EXPECT_EQ(writer->write(kTime, Bytes(test::kSendFrame).first(61), odd_comment), std::nullopt);
    EXPECT_EQ(writer->write(kTime + 1, test::kAckFrame), std::nullopt);
  }
  auto reader = PcapReader::open(file("a.pcapng"));
  ASSERT_TRUE(reader.ok()) << reader.error();
  auto next = reader->next();
  ASSERT_TRUE(next.ok() && next->has_value());
  EXPECT_EQ((*next)->time_ns, kTime);
  EXPECT_EQ((*next)->wire_size, 61u);
  EXPECT_TRUE(std::equal((*next)->bytes.begin(), (*next)->bytes.end(), test::kSendFrame.begin()));
  next = reader->next();
  ASSERT_TRUE(next.ok() && next->has_value());
  EXPECT_EQ((*next)->time_ns, kTime + 1);
  EXPECT_EQ((*next)->bytes.size(), test::kAckFrame.size());
  ASSERT_TRUE(reader->next().ok());
  std::ifstream stream(file("a.pcapng"), std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_THAT(content, HasSubstr(odd_comment));
  EXPECT_EQ(content.size() % 4, 0u);
}

TEST_F(Pcap, PcapHasNoRoomForComments) {
  auto writer = PcapWriter::create(file("a.pcap"));
  ASSERT_TRUE(writer.ok());
  EXPECT_FALSE(writer->takes_comments());
  EXPECT_EQ(writer->write(kTime, test::kSendFrame, "lost"), std::nullopt);
  EXPECT_EQ(writer->flush(), std::nullopt);
  EXPECT_EQ(fs::file_size(file("a.pcap")), 24 + 16 + test::kSendFrame.size());
}

TEST_F(Pcap, FlushMakesFramesReadable) {
  auto writer = PcapWriter::create(file("a.pcap"));
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(fs::file_size(file("a.pcap")), 24u);  // a valid, empty capture from the start
  EXPECT_EQ(writer->write(0, test::kSendFrame), std::nullopt);
  EXPECT_EQ(writer->flush(), std::nullopt);
  EXPECT_EQ(fs::file_size(file("a.pcap")), 24 + 16 + test::kSendFrame.size());
}

TEST_F(Pcap, ReadsMicroseconds) {
  const std::string header("\xd4\xc3\xb2\xa1\2\0\4\0\0\0\0\0\0\0\0\0\0\0\4\0\1\0\0\0", 24);
  const std::string frame("\7\0\0\0\5\0\0\0\3\0\0\0\4\0\0\0abc", 19);
  auto reader = PcapReader::open(file_with("us.pcap", header + frame));
  ASSERT_TRUE(reader.ok()) << reader.error();
  const auto next = reader->next();
  ASSERT_TRUE(next.ok() && next->has_value());
  EXPECT_EQ((*next)->time_ns, 7'000'005'000);
  EXPECT_EQ((*next)->bytes.size(), 3u);
  EXPECT_EQ((*next)->wire_size, 4u);
}

TEST_F(Pcap, ErrorsAreSentencesWithThePath) {
  const auto open_error = [](const std::string& path) {
    auto reader = PcapReader::open(path);
    return reader ? std::string("no error") : reader.error();
  };
  EXPECT_EQ(open_error("/nonexistent/a.pcap"), "can't open the capture /nonexistent/a.pcap: No such file or directory");
  const std::string text = file_with("text.pcap", "this is no capture, though long enough for a header");
  EXPECT_THAT(open_error(text), testing::AllOf(HasSubstr("can't read the capture"), HasSubstr(text)));
  const std::string empty = file_with("empty.pcap", "");
  EXPECT_THAT(open_error(empty), HasSubstr(empty));
  const std::string raw =
      file_with("raw.pcap", std::string("\xd4\xc3\xb2\xa1\2\0\4\0\0\0\0\0\0\0\0\0\0\0\4\0\x65\0\0\0", 24));
  EXPECT_THAT(open_error(raw), HasSubstr("its link type is RAW, not Ethernet"));

  auto writer = PcapWriter::create("/nonexistent/b.pcap");
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.error(), "can't write the capture /nonexistent/b.pcap: No such file or directory");
}

TEST_F(Pcap, CutOffFileIsAnError) {
  const std::string header("\xd4\xc3\xb2\xa1\2\0\4\0\0\0\0\0\0\0\0\0\0\0\4\0\1\0\0\0", 24);
  auto reader = PcapReader::open(file_with("cut.pcap", header + std::string("\7\0\0\0\5\0\0\0\3\0\0\0\3\0\0\0ab", 18)));
  ASSERT_TRUE(reader.ok());
  const auto next = reader->next();
  ASSERT_FALSE(next.ok());
  EXPECT_THAT(next.error(), HasSubstr("cut.pcap"));
}

TEST(PcapFull, FullDiskIsAnError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  auto writer = PcapWriter::create("/dev/full");
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.error(), "can't write the capture /dev/full: No space left on device");
}

}  // namespace
}  // namespace uroce::proto
