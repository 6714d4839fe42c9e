// A queue of reads that the kernel works on at the same time: io_uring, by its system calls.
//
// Why not liburing: it would be a system package, and this is the small part of it that reading needs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace gz {

namespace detail {
// io_uring_enter: the reads taken, or -1 and errno. Tests put one that fails in its place.
using RingEnter = long (*)(int fd, unsigned submit, unsigned wait, unsigned flags);
extern std::atomic<RingEnter> ring_enter;
}  // namespace detail

class Ring {
 public:
  // Null where the kernel or the container forbids io_uring or entering it; *why then says so.
  static std::unique_ptr<Ring> create(unsigned depth, std::string* why);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  unsigned depth() const { return depth_; }
  unsigned in_flight() const { return in_flight_; }

  // At most depth() reads may be in flight. `to` must stay valid until the read's completion is popped.
  void push_read(int fd, void* to, uint32_t bytes, uint64_t offset, uint64_t tag);
  // Hands what was pushed to the kernel and waits until completions can be popped, `wait` of them if it can.
  // False when the kernel will not have it (error(): why). Reads may then be in flight still: drain().
  [[nodiscard]] bool submit_and_wait(unsigned wait);
  int error() const { return error_; }

  struct Completion {
    uint64_t tag;
    int32_t result;  // bytes read, or -errno
  };
  bool pop(Completion& out);
  // Like pop(), for ending: reads that the kernel has not taken come back with -ECANCELED, the others are
  // waited for, without its help where it denies that. False when nothing is in flight any more.
  bool drain(Completion& out);

 private:
  Ring() = default;
  bool completed() const;
  void wait_outside();

  int fd_ = -1, error_ = 0;
  unsigned depth_ = 0, in_flight_ = 0, unsubmitted_ = 0;
  void* rings_ = nullptr;
  size_t rings_bytes_ = 0;
  void* entries_ = nullptr;  // io_uring_sqe[depth]
  size_t entries_bytes_ = 0;
  // Shared with the kernel: release what it reads, acquire what it writes.
  std::atomic<uint32_t>*sq_head_ = nullptr, *sq_tail_ = nullptr, *cq_head_ = nullptr, *cq_tail_ = nullptr;
  uint32_t* sq_array_ = nullptr;
  const void* completions_ = nullptr;  // io_uring_cqe[]
  uint32_t sq_mask_ = 0, cq_mask_ = 0;
};

}  // namespace gz
