// Completion channels: a descriptor to sleep on until an armed CQ gets a completion.
#include "verbs/ibverbs/errors.h"
#include "verbs/ibverbs/impl.h"
#include "verbs/ibverbs/objects.h"

namespace uroce::ibv::impl {

struct ibv_comp_channel* ibv_create_comp_channel(struct ibv_context* context) {
  auto* channel = new CompChannel{};
  channel->context = context;
  channel->fd = channel->events.fd();
  if (channel->fd < 0) {
    const int error = errno;
    delete channel;
    return refuse_null(error, "no file descriptor for another completion channel");
  }
  Context& own = context_of(context);
  const std::scoped_lock lock(own.objects_mutex);
  own.channels.insert(channel);
  return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel* channel) {
  auto* own = static_cast<CompChannel*>(channel);
  Context& context = context_of(channel->context);
  {
    const std::scoped_lock lock(context.objects_mutex);
    if (channel->refcnt > 0) {
      return refuse(EBUSY, "the completion channel serves " + std::to_string(channel->refcnt) + " CQs");
    }
    context.channels.erase(own);
  }
  delete own;
  return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel* channel, struct ibv_cq** cq, void** cq_context) {
  CompletionQueue* source = nullptr;
  const int error = static_cast<CompChannel*>(channel)->events.take(
      source, [](CompletionQueue* taken) { ++taken->comp_events_delivered; });
  if (error != 0) {
    errno = error;
    return -1;
  }
  *cq = source;
  *cq_context = source->cq_context;
  return 0;
}

void ibv_ack_cq_events(struct ibv_cq* cq, unsigned int nevents) {
  if (nevents != 0) acknowledge(*cq, &ibv_cq::comp_events_completed, nevents);
}

}  // namespace uroce::ibv::impl
