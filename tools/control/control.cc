// SPDX-License-Identifier: Apache-2.0
#include "tools/control/control.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "tools/rdma/steps.h"

namespace uroce::tools {
namespace {

const char* type_name(MessageType type) {
  switch (type) {
    case MessageType::kHello:
      return "its greeting";
    case MessageType::kWorkload:
      return "the workload";
    case MessageType::kMetadata:
      return "its QP metadata";
    case MessageType::kReady:
      return "its ready message";
    case MessageType::kCompleted:
      return "a progress report";
    case MessageType::kVerified:
      return "an acknowledgement";
    case MessageType::kFinished:
      return "its end message";
    case MessageType::kVerdict:
      return "its verdict";
    case MessageType::kAbort:
      return "an abort";
    case MessageType::kListening:
      return "the port at which it listens for QPs";
  }
  return "an unknown message";
}

}  // namespace

Control::Control(Connection connection, std::string peer_role)
    : connection_(std::move(connection)), peer_role_(std::move(peer_role)) {}

void Control::send(MessageType type, Bytes payload) {
  const std::size_t at = out_.size();
  out_.resize(at + kHeaderBytes);
  Header header;
  header.type = static_cast<std::uint16_t>(type);
  header.length = static_cast<std::uint32_t>(payload.size());
  encode_header(header, out_.data() + at);
  out_.insert(out_.end(), payload.begin(), payload.end());
  flush();
}

/// False when bytes are left over.
bool Control::flush() {
  while (!out_.empty() && !closed_) {
    const ssize_t sent = socket().calls().send(socket().fd(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      // An error means a dead connection, which the next read tells as well; there the peer's last words come first.
      return false;
    }
    out_.erase(out_.begin(), out_.begin() + sent);
  }
  return true;
}

void Control::read_available() {
  std::array<std::uint8_t, 16384> chunk;
  // Bounded, so that a peer that floods us can't fill our memory.
  while (!closed_ && in_.size() <= kHeaderBytes + kMaxPayload) {
    const ssize_t received = socket().calls().recv(socket().fd(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (received > 0) {
      in_.insert(in_.end(), chunk.begin(), chunk.begin() + received);
      if (static_cast<std::size_t>(received) < chunk.size()) return;
    } else if (received < 0 && errno == EINTR) {
      continue;
    } else if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return;
    } else {
      closed_ = true;  // end of file, reset, or keep-alive given up: the peer is gone either way
    }
  }
}

std::optional<Message> Control::next_message() {
  if (in_.size() < kHeaderBytes) return std::nullopt;
  const Header header = decode_header(in_.data());
  if (header.magic != kMagic) {
    throw Failure(failure_code_, fmt::format("{} at {} does not speak our protocol (another program on this port?)",
                                             peer_role_, peer_address()));
  }
  if (header.version != kProtocolVersion) {
    throw Failure(failure_code_,
                  fmt::format("{} speaks protocol version {}, we speak {}: use the same build on both sides",
                              peer_role_, header.version, kProtocolVersion));
  }
  if (header.length > kMaxPayload) {
    throw Failure(failure_code_,
                  fmt::format("{} announces a message of {} bytes: not our protocol", peer_role_, header.length));
  }
  const std::size_t end = kHeaderBytes + header.length;
  if (in_.size() < end) return std::nullopt;
  Message message{static_cast<MessageType>(header.type),
                  {in_.begin() + kHeaderBytes, in_.begin() + static_cast<std::ptrdiff_t>(end)}};
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(end));
  return message;
}

std::optional<Message> Control::poll() {
  flush();
  std::optional<Message> message = next_message();
  if (!message) {
    read_available();
    message = next_message();
  }
  if (message && message->type == MessageType::kAbort) {
    throw Failure(failure_code_, fmt::format("{} gave up: {}", peer_role_, decode_text(message->payload)));
  }
  return message;
}

std::vector<std::uint8_t> Control::expect(MessageType type, std::chrono::seconds patience) {
  const Deadline deadline = after(patience);
  while (true) {
    if (auto message = poll()) {
      if (message->type == type) return std::move(message->payload);
      if (message->type == MessageType::kVerified) continue;  // the last ones are of no interest any more
      throw Failure(failure_code_,
                    fmt::format("{} sent {}, expected was {}", peer_role_, type_name(message->type), type_name(type)));
    }
    if (closed_) {
      throw Failure(failure_code_,
                    fmt::format("{} closed the connection before it sent {}", peer_role_, type_name(type)));
    }
    const Ready what = out_.empty() ? Ready::kReadable : Ready::kWritable;
    if (!wait_ready(socket(), what, deadline)) {
      throw Failure(
          failure_code_,
          fmt::format("{} did not send {} within {} s{}", peer_role_, type_name(type), patience.count(),
                      type == MessageType::kHello && patience == kPatience ? " (busy with another client?)" : ""));
    }
  }
}

bool Control::ended_within(std::chrono::milliseconds span) {
  const Deadline deadline = after(span);
  while (true) {
    while (poll()) {
    }
    if (closed_) return true;
    if (!wait_ready(socket(), Ready::kReadable, deadline)) return false;
  }
}

void Control::await_readable(int fd) {
  const Deadline deadline = after(kPatience);
  while (wait_readable(fd, socket(), deadline)) {
    pollfd polled{fd, POLLIN, 0};
    if (::poll(&polled, 1, 0) > 0) return;
    read_available();  // A message is for later, unless it is the last one.
    if (!closed_) continue;
    expect(MessageType::kReady);
    throw Failure(failure_code_, peer_role_ + " closed the connection before all QPs were connected");
  }
  throw Failure(failure_code_, fmt::format("{} does not answer by RDMA CM within {} s", peer_role_, kPatience.count()));
}

void Control::abort(const std::string& sentence) noexcept {
  if (closed_ || !socket()) return;
  try {
    send(MessageType::kAbort, encode_text(sentence));
    socket().calls().shutdown(socket().fd(), SHUT_WR);
    // Closing with unread bytes would reset the connection and take our last message with it. Not wait_ready(): this
    // runs after an interrupt too.
    const Deadline deadline = after(std::chrono::milliseconds(300));
    while (!closed_ && std::chrono::steady_clock::now() < deadline) {
      pollfd readable{socket().fd(), POLLIN, 0};
      socket().calls().poll(&readable, 1, 50);
      in_.clear();
      read_available();
    }
  } catch (...) {  // out of memory: the peer will see the end of the connection
  }
  closed_ = true;
}

void barrier(Control& control) {
  control.send(MessageType::kReady);
  control.expect(MessageType::kReady);
  trace_step(Step::kReady);
}

Hello exchange_hello(Control& control, const Hello& local, std::chrono::seconds patience) {
  control.send(MessageType::kHello, encode(local));
  const auto peer = decode_hello(control.expect(MessageType::kHello, patience));
  if (!peer) throw Failure(kExitUsage, control.peer_role() + " sent a greeting that we can't read");
  return *peer;
}

PeerMetadata exchange_metadata(Control& control, const PeerMetadata& local) {
  control.send(MessageType::kMetadata, encode(local));
  auto peer = decode_metadata(control.expect(MessageType::kMetadata));
  if (!peer) throw Failure(kExitUsage, control.peer_role() + " sent QP metadata that we can't read");
  if (peer->qps.size() != local.qps.size()) {
    throw Failure(kExitUsage, fmt::format("{} sent metadata of {} QPs, expected were {}", control.peer_role(),
                                          peer->qps.size(), local.qps.size()));
  }
  trace_step(Step::kExchange, local.qps.size());
  return std::move(*peer);
}

}  // namespace uroce::tools
