#include "read/held_copy.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/rng.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr uint64_t kLeast = uint64_t{32} << 20;  // below, the processor's own tables nearly reach
// Copying a byte takes a hundredth of what a random read of it does: when this share of the places has been
// read, the copy costs no more than some of the reads.
constexpr uint64_t kWorth = 64;
constexpr auto kFirstPause = std::chrono::seconds(60), kLongestPause = std::chrono::seconds(3600);

// Files that are held, or may be, under fork_mutex(). Never destroyed.
auto& holders() {
  static auto* all = new std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<HeldCopy>>;
  return *all;
}

}  // namespace

std::shared_ptr<HeldCopy> HeldCopy::of(const std::shared_ptr<Mapping>& mapping, uint64_t offset,
                                       uint64_t bytes) {
  struct stat st;
  if (bytes < kLeast || ::fstat(mapping->fd(), &st) != 0) return nullptr;
  std::lock_guard lock(fork_mutex());
  auto& holder = holders()[{st.st_dev, st.st_ino}];
  if (!holder.expired()) return nullptr;
  std::erase_if(holders(), [&](const auto& h) { return &h.second != &holder && h.second.expired(); });
  auto copy = std::make_shared<HeldCopy>(mapping, offset, bytes, fold(fold(1, st.st_dev), st.st_ino) | 1);
  holder = copy;
  return copy;
}

HeldCopy::HeldCopy(std::shared_ptr<Mapping> mapping, uint64_t offset, uint64_t bytes, uint64_t file)
    : mapping_(std::move(mapping)),
      offset_(offset),
      bytes_(bytes),
      file_(file),
      worth_(bytes / sizeof(uint32_t) / kWorth),
      pid_(::getpid()) {}

// What is held goes with the mapping, which others may still have.
HeldCopy::~HeldCopy() {
  if (held()) mapping_->show_file(offset_, bytes_);
}

void HeldCopy::ask() {
  if (::getpid() != pid_) return;
  governor::add(shared_from_this());
}

MemoryClient::Need HeldCopy::need() {
  const State state = state_.load(std::memory_order_acquire);
  const uint64_t places = places_.load(std::memory_order_relaxed);
  const bool active = std::exchange(places_then_, places) != places;
  const uint64_t size = state == State::kFile ? 0 : bytes_;
  return {.size = size,
          .pinned = size,
          .most = bytes_,
          .unit = bytes_,
          .full = state == State::kFile && active && Clock::now() >= ask_again_,
          .file = file_,
          .active = active};
}

void HeldCopy::resize(uint64_t bytes, const std::string&) {
  if (bytes >= bytes_) {
    State expected = State::kFile;
    granted_.store(true);
    if (!state_.compare_exchange_strong(expected, State::kFilling)) return;
    try {
      std::thread([self = shared_from_this()] { self->fill(); }).detach();
    } catch (const std::system_error&) {  // no thread to be had: it goes without
      state_.store(State::kFile);
    }
    return;
  }
  granted_.store(false);
  if (!give_back()) return;
  // Memory that is wanted back once will be again: a copy that comes and goes costs more than it saves.
  pause_ = std::clamp<Clock::duration>(pause_ * 2, kFirstPause, kLongestPause);
  ask_again_ = Clock::now() + pause_;
}

void HeldCopy::fill() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  const bool there = mapping_->show_copy(offset_, bytes_, granted_);
  state_.store(there ? State::kHeld : State::kFile);
  if (!granted_.load()) give_back();
}

bool HeldCopy::give_back() {
  State expected = State::kHeld;
  if (!state_.compare_exchange_strong(expected, State::kFilling)) return false;
  mapping_->show_file(offset_, bytes_);
  state_.store(State::kFile);
  return true;
}

}  // namespace gz
