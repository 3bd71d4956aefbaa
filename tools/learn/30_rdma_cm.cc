// Lesson 30: let RDMA CM connect. Addresses and ports instead of GIDs and QP numbers; it exchanges the numbers and
// moves the queue pair through its states. Two processes; each waits for its events.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string log_text;  // Printed at the end: the lines of two processes would mix.

void say(const char* who, const std::string& text) { log_text += std::string(who) + ": " + text + "\n"; }

/// Calls of librdmacm return -1 and set errno.
void need(int result, const char* what) {
  if (result == 0) return;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

/// The next event, which must be the expected one. Returns its id; for a request, that of the new connection.
rdma_cm_id* expect(rdma_event_channel* channel, const char* who, rdma_cm_event_type wanted) {
  rdma_cm_event* event = nullptr;
  need(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
  say(who, rdma_event_str(event->event) + std::string(event->status == 0 ? "" : ", with an error"));
  if (event->event != wanted) {
    std::fprintf(stderr, "%s: %s, status %d\n", who, rdma_event_str(event->event), event->status);
    std::exit(1);
  }
  const rdma_conn_param& param = event->param.conn;
  if (param.private_data_len != 0 && param.private_data != nullptr) {  // Padded with zeros to a fixed length.
    say(who, std::string("  private data: ") + static_cast<const char*>(param.private_data));
  }
  rdma_cm_id* id = event->id;
  rdma_ack_cm_event(event);  // Frees it. rdma_destroy_id waits until every event of the id is acknowledged.
  return id;
}

void make_qp(rdma_cm_id* id) {
  ibv_qp_init_attr init{};
  init.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  need(rdma_create_qp(id, nullptr, &init), "rdma_create_qp");  // With a PD and CQs of its own. In INIT afterwards.
}

/// What both sides say about the connection.
rdma_conn_param parameters(const char* greeting) {
  rdma_conn_param p{};
  p.private_data = greeting;  // Up to 56 bytes in a request, 196 in a reply: rkeys, versions, ...
  p.private_data_len = static_cast<std::uint8_t>(std::strlen(greeting) + 1);
  p.responder_resources = 4;  // READs and atomics of the peer that we answer at a time.
  p.initiator_depth = 4;      // Ours that are under way. Each side's first must cover the other's second.
  p.flow_control = 1;         // The hardware's, where it has one.
  p.retry_count = 7;          // Lost packets. The client's counts, for both queue pairs.
  p.rnr_retry_count = 7;      // How often the peer tries again when we have no receive; 7 = for ever.
  return p;                   // srq and qp_num are for those who make their QPs themselves.
}

sockaddr_in address_of(const char* text) {
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(7471), .sin_addr = {}, .sin_zero = {}};
  if (inet_pton(AF_INET, text, &address.sin_addr) == 1) return address;
  std::fprintf(stderr, "'%s' is no IPv4 address; give that of an RDMA device, as 127.0.0.2\n", text);
  std::exit(2);
}

void serve(sockaddr_in address, int ready) {
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* listener = nullptr;
  need(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP), "rdma_create_id");
  need(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address)), "rdma_bind_addr");
  need(rdma_listen(listener, 1), "rdma_listen");
  if (write(ready, "r", 1) != 1) std::exit(1);

  rdma_cm_id* id = expect(channel, "server", RDMA_CM_EVENT_CONNECT_REQUEST);
  make_qp(id);  // Post receives here: the client may send as soon as we accept.
  rdma_conn_param param = parameters("welcome");
  need(rdma_accept(id, &param), "rdma_accept");
  expect(channel, "server", RDMA_CM_EVENT_ESTABLISHED);
  expect(channel, "server", RDMA_CM_EVENT_DISCONNECTED);
  need(rdma_disconnect(id), "rdma_disconnect");
  rdma_destroy_qp(id);
  rdma_destroy_id(id);
  rdma_destroy_id(listener);
  rdma_destroy_event_channel(channel);
}

void call(sockaddr_in address) {
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  need(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
  need(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), 2000), "rdma_resolve_addr");
  expect(channel, "client", RDMA_CM_EVENT_ADDR_RESOLVED);  // id->verbs is a device now.
  need(rdma_resolve_route(id, 2000), "rdma_resolve_route");
  expect(channel, "client", RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_qp(id);
  rdma_conn_param param = parameters("hello");
  need(rdma_connect(id, &param), "rdma_connect");
  expect(channel, "client", RDMA_CM_EVENT_ESTABLISHED);  // The QP is in RTS.
  need(rdma_disconnect(id), "rdma_disconnect");
  expect(channel, "client", RDMA_CM_EVENT_DISCONNECTED);
  rdma_destroy_qp(id);
  rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: 30_rdma_cm ADDRESS (of an RDMA device of this host)\n");
    return 2;
  }
  const sockaddr_in address = address_of(argv[1]);
  std::array<int, 2> ready{};
  if (pipe(ready.data()) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // A client that fails takes the server with it.
    serve(address, ready[1]);
  } else {
    char byte = 0;
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) return 1;  // The server listens.
    call(address);
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("%s", log_text.c_str());
    return status == 0 ? 0 : 1;
  }
  std::printf("%s", log_text.c_str());
}
