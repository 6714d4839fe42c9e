#include "read/ring.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#define GZ_HAS_URING 1
#endif

namespace gz {

#if GZ_HAS_URING

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

namespace {

long enter_kernel(int fd, unsigned submit, unsigned wait, unsigned flags) {
  return ::syscall(SYS_io_uring_enter, fd, submit, wait, flags, nullptr, 0);
}

}  // namespace

std::atomic<detail::RingEnter> detail::ring_enter{enter_kernel};

std::unique_ptr<Ring> Ring::create(unsigned depth, std::string* why) {
  io_uring_params params{};
  int fd = -1;
#if defined(IORING_SETUP_COOP_TASKRUN)
  params.flags =
      IORING_SETUP_COOP_TASKRUN;  // completions need no interrupt of this thread: it waits for them
  fd = static_cast<int>(::syscall(SYS_io_uring_setup, depth, &params));
#endif
  if (fd < 0) {  // kernels before 5.19 know no such flag
    params = {};
    fd = static_cast<int>(::syscall(SYS_io_uring_setup, depth, &params));
  }
  if (fd < 0) {
    *why = std::string("the kernel refuses io_uring: ") + std::strerror(errno);
    return nullptr;
  }
  std::unique_ptr<Ring> ring(new Ring);
  ring->fd_ = fd;
  if (!(params.features & IORING_FEAT_SINGLE_MMAP) || !(params.features & IORING_FEAT_NODROP)) {
    *why = "the kernel's io_uring is older than Linux 5.5";
    return nullptr;
  }
  const auto map = [&](size_t bytes, uint64_t offset) -> void* {
    void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                     static_cast<off_t>(offset));
    return p == MAP_FAILED ? nullptr : p;
  };
  ring->rings_bytes_ = std::max<size_t>(params.sq_off.array + params.sq_entries * sizeof(uint32_t),
                                        params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe));
  ring->entries_bytes_ = params.sq_entries * sizeof(io_uring_sqe);
  ring->rings_ = map(ring->rings_bytes_, IORING_OFF_SQ_RING);
  ring->entries_ = map(ring->entries_bytes_, IORING_OFF_SQES);
  if (!ring->rings_ || !ring->entries_) {
    *why = std::string("the rings cannot be mapped: ") + std::strerror(errno);
    return nullptr;
  }
  auto* base = static_cast<char*>(ring->rings_);
  const auto word = [&](uint32_t offset) { return reinterpret_cast<std::atomic<uint32_t>*>(base + offset); };
  ring->sq_head_ = word(params.sq_off.head);
  ring->sq_tail_ = word(params.sq_off.tail);
  ring->cq_head_ = word(params.cq_off.head);
  ring->cq_tail_ = word(params.cq_off.tail);
  ring->sq_array_ = reinterpret_cast<uint32_t*>(base + params.sq_off.array);
  ring->completions_ = base + params.cq_off.cqes;
  ring->sq_mask_ = params.sq_entries - 1;
  ring->cq_mask_ = params.cq_entries - 1;
  ring->depth_ = std::min(depth, params.sq_entries);
  // A container's filter may allow the one call and deny the other.
  if (detail::ring_enter.load()(fd, 0, 0, IORING_ENTER_GETEVENTS) < 0 && errno != EINTR) {
    *why = std::string("the kernel denies entering io_uring: ") + std::strerror(errno);
    return nullptr;
  }
  return ring;
}

Ring::~Ring() {
  if (rings_) ::munmap(rings_, rings_bytes_);
  if (entries_) ::munmap(entries_, entries_bytes_);
  if (fd_ >= 0) ::close(fd_);
}

void Ring::push_read(int fd, void* to, uint32_t bytes, uint64_t offset, uint64_t tag) {
  const uint32_t tail = sq_tail_->load(std::memory_order_relaxed);
  const uint32_t slot = tail & sq_mask_;
  auto& entry = static_cast<io_uring_sqe*>(entries_)[slot];
  std::memset(&entry, 0, sizeof entry);
  entry.opcode = IORING_OP_READ;
  entry.fd = fd;
  entry.off = offset;
  entry.addr = reinterpret_cast<uint64_t>(to);
  entry.len = bytes;
  entry.user_data = tag;
  sq_array_[slot] = slot;
  sq_tail_->store(tail + 1, std::memory_order_release);
  ++unsubmitted_;
  ++in_flight_;
}

bool Ring::completed() const {
  return cq_tail_->load(std::memory_order_acquire) != cq_head_->load(std::memory_order_relaxed);
}

bool Ring::submit_and_wait(unsigned wait) {
  const detail::RingEnter enter = detail::ring_enter.load(std::memory_order_relaxed);
  for (;;) {
    const long done = enter(fd_, unsubmitted_, wait, wait ? IORING_ENTER_GETEVENTS : 0u);
    error_ = done < 0 ? errno : EAGAIN;
    unsubmitted_ = sq_tail_->load(std::memory_order_relaxed) - sq_head_->load(std::memory_order_acquire);
    if (done >= 0 && unsubmitted_ == 0) return true;
    if (done > 0 || error_ == EINTR) continue;
    // Short of memory for requests: completions free some.
    if ((error_ != EAGAIN && error_ != EBUSY) || in_flight_ == unsubmitted_) return false;
    if (completed()) return true;
    if (enter(fd_, 0, 1, IORING_ENTER_GETEVENTS) < 0 && errno != EINTR) return false;
  }
}

bool Ring::pop(Completion& out) {
  if (!completed()) return false;
  const uint32_t head = cq_head_->load(std::memory_order_relaxed);
  const auto& c = static_cast<const io_uring_cqe*>(completions_)[head & cq_mask_];
  out = {c.user_data, c.res};
  cq_head_->store(head + 1, std::memory_order_release);
  --in_flight_;
  return true;
}

// Reads end without anyone entering the ring, as long as this thread makes system calls: on the way back from
// one the kernel does what is left to do for them.
void Ring::wait_outside() {
  pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
  ::poll(&ready, 1, 1);
}

bool Ring::drain(Completion& out) {
  if (unsubmitted_) {
    // Only io_uring_enter makes the kernel look at the tail, so what it has not taken can be withdrawn.
    const uint32_t tail = sq_tail_->load(std::memory_order_relaxed) - 1;
    sq_tail_->store(tail, std::memory_order_release);
    out = {static_cast<const io_uring_sqe*>(entries_)[tail & sq_mask_].user_data, -ECANCELED};
    --unsubmitted_;
    --in_flight_;
    return true;
  }
  while (in_flight_ && !completed()) wait_outside();
  return pop(out);
}

#else  // built without the kernel's header

std::unique_ptr<Ring> Ring::create(unsigned, std::string* why) {
  *why = "gz was built without io_uring";
  return nullptr;
}
Ring::~Ring() = default;
void Ring::push_read(int, void*, uint32_t, uint64_t, uint64_t) {}
std::atomic<detail::RingEnter> detail::ring_enter{nullptr};
bool Ring::submit_and_wait(unsigned) {
  return false;
}
bool Ring::pop(Completion&) {
  return false;
}
bool Ring::drain(Completion&) {
  return false;
}

#endif

}  // namespace gz
