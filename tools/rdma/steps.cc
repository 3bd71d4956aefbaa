// SPDX-License-Identifier: Apache-2.0
#include "tools/rdma/steps.h"

#include <array>

namespace uroce::tools {
namespace {

struct Row {
  StepText english, chinese;
};

constexpr std::array<Row, static_cast<std::size_t>(Step::kCount)> kRows{{
    {{"device list", "ibv_get_device_list: {}", "A machine may have several RDMA devices; take one by its name."},
     {"设备列表", "ibv_get_device_list：{}", "一台机器可能有多个 RDMA 设备，按名称选择一个。"}},
    {{"device", "ibv_open_device: {} (backend {})",
      "The context that it returns is what all other objects are made from."},
     {"设备", "ibv_open_device：{}（后端 {}）", "返回的上下文是创建其他一切对象的基础。"}},
    {{"port", "ibv_query_port: port {} {}, active MTU {}", "It must be active; its MTU limits the path MTU."},
     {"端口", "ibv_query_port：端口 {} {}，当前 MTU {}", "端口必须处于 active 状态；它的 MTU 限制路径 MTU。"}},
    {{"GID", "ibv_query_gid: index {} = {}", "On RoCE this is our address; a wrong index is the most common mistake."},
     {"GID", "ibv_query_gid：索引 {} = {}", "在 RoCE 上这就是我们的地址；索引选错是最常见的错误。"}},
    {{"protection domain", "ibv_alloc_pd: protection domain",
      "QPs and memory regions work together only within one protection domain."},
     {"保护域（PD）", "ibv_alloc_pd：已分配保护域", "只有同一保护域中的队列对和内存区域才能一起使用。"}},
    {{"completion queue", "ibv_create_cq: {} entries, shared by all QPs",
      "Finished work is reported here; it must have room for all work under way, or it overruns."},
     {"完成队列（CQ）", "ibv_create_cq：{} 项，由所有 QP 共用",
      "完成的工作在此报告；项数必须容得下所有在途的工作，否则会溢出。"}},
    {{"memory region", "ibv_reg_mr: {} bytes, lkey {:#x}, rkey {:#x}",
      "The NIC touches registered memory only; lkey is for our work requests, rkey for the peer's."},
     {"内存区域（MR）", "ibv_reg_mr：{} 字节，lkey {:#x}，rkey {:#x}",
      "网卡只访问已注册的内存；lkey 用于自己的工作请求，rkey 交给对端使用。"}},
    {{"QP list", "ibv_create_qp: {} RC QPs, each with {} send and {} receive WRs",
      "Each queue pair is one end of a connection, with queues of its own; it begins in RESET."},
     {"队列对（QP）列表", "ibv_create_qp：{} 个 RC QP，各有 {} 个发送和 {} 个接收工作请求",
      "每个队列对是一条连接的一端，有自己的队列；初始状态为 RESET。"}},
    {{"INIT", "ibv_modify_qp: RESET -> INIT",
      "Port, partition and the peer's rights; from now on receives can be posted."},
     {"INIT", "ibv_modify_qp：RESET -> INIT", "设置端口、分区和对端的权限；从此可以提交接收。"}},
    {{"receives", "ibv_post_recv: {} receives on each of {} QPs",
      "Before the peer may send: a SEND that finds no receive is refused (RNR NAK)."},
     {"提交接收", "ibv_post_recv：在 {1} 个 QP 上各提交 {0} 个接收",
      "必须赶在对端可以发送之前：SEND 找不到接收就会被拒绝（RNR NAK）。"}},
    {{"exchange", "metadata of {} QPs exchanged over TCP",
      "The control plane: QP numbers, first PSNs, GID, rkey and addresses, which no NIC can guess."},
     {"交换", "已通过 TCP 交换 {} 个 QP 的元数据", "控制面：QP 号、起始 PSN、GID、rkey 和地址，这些网卡都无从猜测。"}},
    {{"RTR", "ibv_modify_qp: INIT -> RTR (where to: the peer's GID, QPN and PSN)",
      "Ready to receive: the QP knows its peer, and which PSN comes first."},
     {"RTR", "ibv_modify_qp：INIT -> RTR（去向：对端的 GID、QPN 和 PSN）",
      "可以接收：QP 知道对端是谁，以及第一个 PSN 是多少。"}},
    {{"RTS", "ibv_modify_qp: RTR -> RTS (timeout {}, retry_cnt {}, rnr_retry {})",
      "Ready to send: our first PSN, and how patient we are with lost packets and missing receives."},
     {"RTS", "ibv_modify_qp：RTR -> RTS（timeout {}，retry_cnt {}，rnr_retry {}）",
      "可以发送：设置我方的起始 PSN，以及遇到丢包或对端没有接收时重试多少次。"}},
    {{"synchronisation", "barrier: both sides are ready",
      "RTS here says nothing about the peer: wait for it before the first SEND."},
     {"同步点", "屏障（barrier）：双方都已准备好", "我方处于 RTS 不代表对端就绪：第一个 SEND 之前要等待对端。"}},
    {{"sends", "ibv_post_send", "Posting only hands the work over; wr_id will come back in the completion."},
     {"发送", "ibv_post_send", "提交只是把工作交给网卡；wr_id 会随完成项返回。"}},
    {{"completions", "ibv_poll_cq",
      "The completions of all QPs are in one queue: wr_id says which QP and which work request."},
     {"完成", "ibv_poll_cq", "所有 QP 的完成都在一个队列中：由 wr_id 得知是哪个 QP 的哪个工作请求。"}},
    {{"end", "verdicts exchanged", "Destroy a QP only when the peer is done with it, too."},
     {"结束", "已交换双方的结果", "对端也用完之前，任何一方都不销毁 QP。"}},
    {{"clean-up", "queue pairs, memory, completion queue and protection domain released",
      "In reverse order: what depends on something goes before it."},
     {"清理", "已释放队列对、内存、完成队列和保护域", "与创建的顺序相反：先释放依赖者，再释放被依赖者。"}},
}};

}  // namespace

StepText step_text(Step step, Language language) {
  const Row& row = kRows[static_cast<std::size_t>(step)];
  return language == Language::kChinese ? row.chinese : row.english;
}

void detail::print_step(Step step, fmt::format_args arguments) {
  const StepText text = step_text(step, g_language);
  const bool chinese = g_language == Language::kChinese;
  print_to(stderr, "[{:2}] {}{}{}\n", static_cast<int>(step) + 1, text.name, chinese ? "：" : ": ",
           fmt::vformat(fmt::string_view(text.what.data(), text.what.size()), arguments));
  print_to(stderr, "     {}{}\n", chinese ? "为什么：" : "why: ", text.why);
}

}  // namespace uroce::tools
