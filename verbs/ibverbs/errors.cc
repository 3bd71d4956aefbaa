#include "verbs/ibverbs/errors.h"

#include <cerrno>
#include <utility>

#include "verbs/ibverbs/facts.h"

namespace uroce::ibv {
namespace {

thread_local std::string last_sentence;

}  // namespace

std::string last_error() { return last_sentence; }

int refuse(int error, std::string sentence) {
  last_sentence = std::move(sentence);
  return error;
}

std::nullptr_t refuse_null(int error, std::string sentence) {
  errno = refuse(error, std::move(sentence));
  return nullptr;
}

int refuse_without_nic() {
  return refuse(EIO, "the NIC is gone: a fatal error, or it stayed with the parent of this process; open the device again");
}

}  // namespace uroce::ibv
