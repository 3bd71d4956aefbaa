// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/transport/base/window.h"

namespace uroce::nic {
namespace {

/// Round trips before anything is concluded from the shortest.
constexpr int kEvidence = 8;
/// Rounds in a row in which packets wait, until the path is taken for full.
constexpr int kRoundsQueued = 3;
/// A packet of 4096 bytes; what the pipe grows by when packets have to wait a little.
constexpr std::uint64_t kStep = PeerWindow::cost(4096);

}  // namespace

void PeerWindow::note_least(Duration time, Instant now) {
  if (now >= epoch_ends_) {
    least_before_ = epoch_ends_ == Instant{} ? Duration{} : least_;
    least_ = {};
    epoch_ends_ = now + kRoundTripEpoch;
    look_ends_ = samples_ == 0 ? now : now + 3 * round_trip_;
  }
  is_looking_ = now < look_ends_;
  least_ = least_ == Duration{} ? time : std::min(least_, time);
  samples_ = std::min(samples_ + 1, kEvidence);
}

Duration PeerWindow::least() const { return least_before_ == Duration{} ? least_ : std::min(least_, least_before_); }

/// How long the path itself takes: nothing, when hosts alone could take as long to answer.
Duration PeerWindow::path_time() const {
  return samples_ < kEvidence ? Duration{} : std::clamp(2 * (least() - kHostTime), Duration{}, least());
}

void PeerWindow::on_round_trip(Duration time, Instant now) {
  last_answer_ = now;
  note_least(time, now);
  round_trip_ = round_trip_ == Duration{} ? time : (7 * round_trip_ + time) / 8;
  if (is_looking_) return;
  if (now < round_begins_) return;
  // With all that a crowded host may have under way, an answer takes longer by itself.
  if (time > (pipe_ == 0 ? kElsewhere : 2 * kElsewhere)) crowded_until_ = now + kCrowdedFor;
  shortest_in_round_ = shortest_in_round_ == Duration{} ? time : std::min(shortest_in_round_, time);
  if (now < round_ends_) return;

  const Duration shortest = std::exchange(shortest_in_round_, Duration{});
  const bool was_full = std::exchange(was_full_, false);
  adapt_queue(shortest, now);
  const std::uint64_t before = wanted_pipe_;
  const Duration path = path_time();
  if (path == Duration{}) {
    wanted_pipe_ = now < crowded_until_ ? crowded_ : 0;
  } else if (pipe_ == wanted_pipe_) {
    // Packets under way that the path does not hold are waiting in some buffer.
    const double share = 1 - static_cast<double>(path.count()) / static_cast<double>(std::max(shortest, path).count());
    adapt_pipe(static_cast<std::uint64_t>(static_cast<double>(limit()) * share), was_full);
  }
  // After a change, the first answer to what was sent with all of it comes two round trips later.
  round_begins_ = now + (wanted_pipe_ == before ? Duration{} : 2 * time);
  round_ends_ = round_begins_ + time;
  pipe_ = std::min(pipe_, wanted_pipe_);
  tell_if_open();
}

/// All senders to one receiver see how long packets wait there. A sender that stays below the time at which packets
/// were lost makes room for the others.
void PeerWindow::adapt_queue(Duration round_trip, Instant now) {
  if (too_long_ != Duration{} && now >= forgets_) {
    too_long_ = 5 * too_long_ / 4;
    forgets_ = now + kLossFades;
  }
  if (too_long_ != Duration{} && round_trip > too_long_) {
    queue_ = std::max(queue_ * 3 / 4, least_queue());
  } else {
    queue_ = std::min(queue_ + kStep / 4, most_queue_);
  }
  if (queue_ == most_queue_) too_long_ = {};
}

/// `queued`: bytes under way that wait; on a long path more of them may than on one host. `was_full`: more would have
/// been sent. What waits in a few rounds only waited for a host whose processor was elsewhere, and says nothing of the
/// path.
void PeerWindow::adapt_pipe(std::uint64_t queued, bool was_full) {
  const std::uint64_t room = std::max(queue_, std::min(wanted_pipe_ / 2, kPathQueueBytes));
  least_queued_ = rounds_queued_ == 0 ? queued : std::min(least_queued_, queued);
  if (queued > room / 2) {
    if (++rounds_queued_ < kRoundsQueued) return;
    is_starting_ = false;
    queued = least_queued_;
  }
  rounds_queued_ = 0;
  if (queued > room) {
    wanted_pipe_ -= std::min(queued - room, wanted_pipe_ / 4);
  } else if (was_full) {
    const std::uint64_t far = is_starting_ ? limit() / 2 : limit() / 8;
    wanted_pipe_ = std::min(wanted_pipe_ + (queued < room / 4 ? std::max(far, kStep) : kStep), most_);
  }
}

/// One round trip's losses are one loss: they have one cause.
void PeerWindow::on_loss(Instant now) {
  last_answer_ = now;
  if (now < recovered_) return;
  recovered_ = now + std::max(2 * round_trip_, kHostTime);
  const Duration half_waiting = (least() + round_trip_) / 2;
  too_long_ = too_long_ == Duration{} ? half_waiting : std::min(too_long_, half_waiting);
  forgets_ = now + kLossFades;
  queue_ = std::max(queue_ * 3 / 4, least_queue());
  crowded_ /= 2;
  is_starting_ = false;
  wanted_pipe_ /= 2;
  pipe_ = 0;  // All that was under way is sent again: as much as fits the queue first, the rest as answers come.
}

void PeerWindow::on_silence(Instant since) {
  if (last_answer_ > since) return;  // It answers others: this QP's trouble is its own.
  queue_ = std::min(queue_, kLeastWindowBytes);
  wanted_pipe_ = pipe_ = 0;
  is_starting_ = true;
}

Duration PeerWindow::patience() const { return std::max(kStallAfter, 4 * round_trip_); }

}  // namespace uroce::nic
