// UDP port 4791 through sendmmsg() and recvmmsg(): for hosts where io_uring is off or too old.
#pragma once

#include <memory>

#include "engine/udp_port.h"

namespace uroce::engine {

class SocketPort final : public UdpPort {
 public:
  /// Opens the port on `addresses` (at least one). `reason`: why this engine was chosen, for PortInfo.
  static Result<std::unique_ptr<SocketPort>, SetupError> open(std::span<const proto::Gid> addresses,
                                                              std::string reason);

  void flush() override;
  std::size_t exchange(DatagramSink& sink, std::size_t rx_budget) override;

 private:
  static constexpr std::size_t kBatch = 64;

  SocketPort(std::vector<ReceiveSocket> receivers, PortInfo info);
  void enqueue(FrameIndex frame) override;
  bool send_queue_of(SendSlot slot);
  std::size_t receive_from(ReceiveSocket& socket, DatagramSink& sink, std::size_t budget);
  void prepare_to_receive(std::size_t index);

  std::vector<std::vector<FrameIndex>> queues_;  ///< By send slot: sendmmsg() sends from one socket.
  std::vector<SendSlot> active_;                 ///< Slots with a queue that is not empty.
  std::array<mmsghdr, kBatch> send_batch_{};

  struct ReceiveBuffer {
    SocketAddress from;
    alignas(cmsghdr) std::array<char, kReceiveControlSize> control;
    iovec bytes;
  };
  std::array<ReceiveBuffer, kBatch> receive_buffers_{};
  std::array<mmsghdr, kBatch> receive_batch_{};
  std::vector<std::uint8_t> receive_memory_;
  std::size_t next_receiver_ = 0;
};

}  // namespace uroce::engine
