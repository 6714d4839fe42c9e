// The part of a mapped file that is read at random, copied into huge pages at the addresses of the mapping.
//
// Random reads of a large file spend half of their time on finding out where a page is: the page cache hands
// out pages of 4 KiB, and the processor remembers the places of a few thousand. A copy in huge pages needs
// 512 times fewer. It takes the place of the file's pages under the same addresses, so no pointer changes,
// and who reads meanwhile sees the same bytes. The kernel cannot take it back as it can page cache: hence the
// governor grants it, where there is plenty, and when it wants the memory back, the file's pages return.
//
// One a file and process. Forked children share the pages of their parent's and make none of their own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "file/mapping.h"
#include "memory/governor.h"

namespace gz {

class HeldCopy : public MemoryClient, public std::enable_shared_from_this<HeldCopy> {
 public:
  // Null for what is too small to profit. `offset` is a page's.
  static std::shared_ptr<HeldCopy> of(const std::shared_ptr<Mapping>& mapping, uint64_t offset,
                                      uint64_t bytes);
  HeldCopy(std::shared_ptr<Mapping> mapping, uint64_t offset, uint64_t bytes, uint64_t file);
  ~HeldCopy() override;
  HeldCopy(const HeldCopy&) = delete;
  HeldCopy& operator=(const HeldCopy&) = delete;

  // So many places were read, at random, and were in memory. Asks for the copy once that is likely to pay.
  void read(uint64_t places) {
    if (!allowed_.load(std::memory_order_relaxed)) return;
    const uint64_t before = places_.fetch_add(places, std::memory_order_relaxed);
    if (before < worth_ && before + places >= worth_) ask();
  }
  // False: reads do not count, so that no copy is asked for; one that is there stays. For who was given a
  // budget, of which the governor knows nothing.
  void allow(bool allowed) { allowed_.store(allowed, std::memory_order_relaxed); }
  bool held() const { return state_.load(std::memory_order_acquire) == State::kHeld; }
  uint64_t bytes() const { return bytes_; }

  Need need() override;
  void resize(uint64_t bytes, const std::string& why) override;

 private:
  enum class State { kFile, kFilling, kHeld };  // what is seen under the addresses; kFilling: it changes
  using Clock = std::chrono::steady_clock;

  void ask();
  void fill();
  bool give_back();  // false where there was nothing to

  const std::shared_ptr<Mapping> mapping_;
  const uint64_t offset_, bytes_, file_, worth_;
  const pid_t pid_;
  std::atomic<uint64_t> places_{0};
  std::atomic<State> state_{State::kFile};
  std::atomic<bool> granted_{false}, allowed_{true};
  // Of the governor's thread alone:
  uint64_t places_then_ = 0;
  Clock::time_point ask_again_{};
  Clock::duration pause_{};
};

}  // namespace gz
