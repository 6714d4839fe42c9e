#include "read/residency.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "base/system.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr uint64_t kStep = 4 << 20;
// A load starts when this share of the file has been fetched piecemeal: by then random reads have cost about
// as much as reading the rest in order will.
constexpr uint64_t kLoadAfter = 64;
constexpr uint64_t kLeastUsed = 64 << 20;  // bytes, before pages that were used are dropped
constexpr int kMostLoads = 3;  // what is evicted again and again, or finds no room, does not fit after all

// mincore tells the truth only to those who may write the file; to others it says that all is there.
bool can_tell(const Mapping& m) {
  struct stat st;
  if (::fstat(m.fd(), &st) != 0) return false;
  return ::geteuid() == 0 || st.st_uid == ::geteuid() || ::access(m.path().c_str(), W_OK) == 0;
}

}  // namespace

struct Residency::Load {
  std::atomic<uint64_t> until{0};
  std::atomic<bool> stop{false};
  std::atomic<int> times{0};
  std::atomic<pid_t> pid{0};  // of the process whose thread is loading; 0: none
};

Residency::Residency(std::shared_ptr<Mapping> mapping, bool by_page)
    : mapping_(std::move(mapping)),
      by_page_(by_page),
      can_tell_(can_tell(*mapping_)),
      load_(std::make_shared<Load>()) {}

Residency::~Residency() {
  load_->stop = true;
  delete map_.load();
}

// No lock: a thread may be in here while another forks.
PageMap& Residency::map() const {
  PageMap* there = map_.load(std::memory_order_acquire);
  if (there) return *there;
  auto made = std::make_unique<PageMap>(*mapping_);
  if (map_.compare_exchange_strong(there, made.get(), std::memory_order_acq_rel)) there = made.release();
  return *there;
}

void Residency::allow_loading(bool allowed, governor::Hold hold) {
  may_load_.store(allowed, std::memory_order_relaxed);
  std::shared_ptr<governor::PagesWanted> wanted;
  struct stat st;
  if ((allowed || by_page_) && ::fstat(mapping_->fd(), &st) == 0)
    wanted = std::make_shared<governor::PagesWanted>(st.st_dev, st.st_ino, mapping_->size(),
                                                     allowed ? hold : governor::Hold::kPartly);
  std::lock_guard lock(fork_mutex());
  std::swap(wanted_, wanted);
}

void Residency::claim_no_pages() {
  by_page_ = false;
  allow_loading(false);
}

void Residency::drop_used() {
  const uint64_t bytes = unclaimed_.load(std::memory_order_relaxed);
  if (by_page_ || may_load() || bytes < kLeastUsed || bytes < governor::beside_held()) return;
  if (unclaimed_.exchange(0, std::memory_order_relaxed) == 0) return;  // another thread does it
  mapping_->drop_pages();
  map().forget();
}

uint64_t Residency::loaded() const {
  // Once a load has ended its pages may be evicted; whoever asks then has just found some missing.
  return load_->pid.load() ? load_->until.load(std::memory_order_acquire) : 0;
}

bool Residency::loading() const {
  return load_->pid.load() == ::getpid();
}

bool Residency::was_loaded() const {
  return load_->times.load() > 0;
}

bool Residency::resident(uint64_t offset) const {
  unsigned char page = 0;
  if (::mincore(mapping_->data() + offset / kPage * kPage, 1, &page) != 0 || (page & 1)) return true;
  // Thought to be there, and gone: others will be, too.
  if (PageMap* there = map_.load(std::memory_order_acquire); there && there->believed(offset / kPage))
    there->forget();
  return false;
}

void Residency::fetched(uint64_t bytes) {
  const uint64_t total = fetched_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (may_load() && total >= mapping_->size() / kLoadAfter) start_loading();
}

void Residency::start_loading() {
  // The process that is loading may be the parent, whose thread a forked child does not have.
  pid_t owner = load_->pid.load();
  if (owner == ::getpid() || !load_->pid.compare_exchange_strong(owner, ::getpid())) return;
  fetched_.store(0, std::memory_order_relaxed);
  load_->until.store(0, std::memory_order_relaxed);
  if (++load_->times > kMostLoads) allow_loading(false);
  if (governor::free_memory() < mapping_->size()) return load_->pid.store(0);
  try {
    Buffer scratch(kStep);  // here: no one would catch what the thread throws
    std::thread([load = load_, mapping = mapping_, scratch = std::move(scratch)] {
      for (uint64_t at = 0; at < mapping->size() && !load->stop; at += kStep) {
        const uint64_t bytes = std::min(kStep, mapping->size() - at);
        if (::pread(mapping->fd(), scratch.data(), bytes, static_cast<off_t>(at)) <= 0) break;
        system::map_resident(mapping->data() + at, bytes);
        load->until.store(at + bytes, std::memory_order_release);
      }
      load->pid.store(0);  // should it be evicted, it may be loaded again
    }).detach();
  } catch (const std::exception&) {  // no memory, or no thread: it goes without
    load_->pid.store(0);
  }
}

void Residency::fetch_pages(PooledArray<RowRequest>& pages) {
  if (pages.size() == 0) return;
  {
    std::lock_guard lock(fork_mutex());
    if (!through_) through_ = std::make_unique<ReadFile>(mapping_, ReadFile::Caching::kThrough);
  }
  const uint64_t before = counts_.bytes;
  read_rows(*through_, 0, kPage, pages, nullptr, counts_);
  for (const RowRequest& page : pages) map().brought_in(page.row);
  const uint64_t bytes = counts_.bytes - before;
  unclaimed_.fetch_add(bytes, std::memory_order_relaxed);
  fetched(bytes);
}

}  // namespace gz
