// SPDX-License-Identifier: Apache-2.0
// The captures of pcaps/rxe with their sidecars, and those of pcaps/rxe_cm.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "proto/bytes.h"

namespace uroce::proto::test {

struct GoldenFrame {
  std::string topic;     ///< "corrupt_icrc_only"
  std::string capture;   ///< "corrupt_icrc_only.atB.pcap"
  std::size_t number;    ///< From 1, as tshark counts.
  std::int64_t time_ns;  ///< Since 1970, when the tap saw it.
  std::vector<std::uint8_t> bytes;

  bool is_probe() const { return topic.starts_with("probe_"); }
  std::string label() const { return capture + " #" + std::to_string(number); }
};

/// All frames of all captures, in order of file name. Aborts the test when the captures are missing or unreadable.
const std::vector<GoldenFrame>& golden_frames();

/// All frames of pcaps/rxe_cm, in order of file name.
const std::vector<GoldenFrame>& connection_frames();

/// The frames of one capture ("rc_faa.pcap"), in order.
std::vector<GoldenFrame> frames_of(const std::string& capture);
/// The same of pcaps/rxe_cm ("basic.atB.pcap").
std::vector<GoldenFrame> connection_frames_of(const std::string& capture);

/// Every topic that has a JSON file, in order of name.
std::vector<std::string> golden_topics();

/// The JSON file of a topic.
const nlohmann::json& sidecar(const std::string& topic);

/// What the sidecar says about a frame.
const nlohmann::json& expectation(const GoldenFrame& frame);

}  // namespace uroce::proto::test
