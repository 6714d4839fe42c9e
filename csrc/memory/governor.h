// One governor a process for all that gz holds in memory: row caches, the pool of output buffers, batches
// made ahead, buffers of reads. It looks at the container's memory some times a second, more often the less
// is free, decides (memory/policy.h) and has its clients give back or grow.
//
// It looks in a thread of its own, so that it also sees what a script takes while gz is not called. The
// thread starts with the first large buffer or client; a forked child starts its own. It holds no lock
// that gz's calls wait for while clients act.
//
// GZ_SYSTEM_ROOT: a folder that stands in for / when limits and use are read, for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace gz {

// Something whose memory can be given back at once and that can do with more: a row cache; a copy of a file.
class MemoryClient {
 public:
  struct Need {
    uint64_t size = 0;       // what it may fill
    uint64_t pinned = 0;     // of that, what the kernel cannot take back by itself
    uint64_t most = 0;       // it never wants more
    bool fresh = false;      // it was never given anything
    bool asked_for = false;  // the user named `most`; processes that cache the same file divide it
    uint64_t unit = 1;       // it grows and shrinks by multiples of this
    bool full = false;       // it would profit from more
    uint64_t hits = 0;       // counter: reads it has saved
    uint64_t file = 0;       // a hash of what it belongs to, never 0
    bool active = false;     // used, or made, since the last look
  };
  virtual ~MemoryClient() = default;
  virtual Need need() = 0;
  virtual void resize(uint64_t bytes, const std::string& why) = 0;  // to at most so many
};

struct MemoryStats {
  uint64_t limit, free;     // of the machine, or of the container
  uint64_t script_peak;     // what everything but row caches and batches ahead took at most lately
  uint64_t reserve, pages;  // kept free; kept for files in the page cache
  uint64_t caches, pool, ahead, in_use;  // held: row caches, kept buffers, batches ahead; buffers in use
  unsigned processes;                    // that share it
  std::string change;                    // the last one, and why; empty if there was none
  double changed_ago;                    // in seconds
};

namespace governor {

// Has large buffers of the pool wake it; called once, when the engine is loaded.
void begin();
// Starts the thread where there is none yet. Cheap.
void wake();

// Adds a client, until the last reference is dropped, and gives it what it may have at once.
void add(const std::shared_ptr<MemoryClient>& client);

// How much of a file the page cache should hold: all of it; all, but of rows that are read again elsewhere,
// the most read first, so that it can lose some; as much as is left.
enum class Hold { kWhole, kHotRows, kPartly };

// Has the page cache hold a file so, for as long as this lives.
class PagesWanted {
 public:
  PagesWanted(uint64_t device, uint64_t inode, uint64_t bytes, Hold hold);
  ~PagesWanted();
  PagesWanted(const PagesWanted&) = delete;
  PagesWanted& operator=(const PagesWanted&) = delete;

 private:
  uint64_t device_, inode_;
  Hold hold_;
};

// Batches made ahead: by how many bytes what is wanted, begun and there has changed.
void change_ahead(int64_t wanted, int64_t begun, int64_t there);
// Whether a batch may be begun ahead. `bytes`: of one like it, 0 when that is not known yet. `known`: whether
// the script has already shown what it does with one.
bool room_ahead(uint64_t bytes, bool known);

// What the script's peaks, the reserve, batches ahead and the files that are to be held leave to other pages
// of files.
uint64_t beside_held();

// What the buffers of reads in flight may take, for each of `threads`.
uint64_t read_buffers(unsigned threads);

// Looks and decides now, in this thread.
void look();
MemoryStats stats();

// What is free, and the most there could be, read now.
uint64_t free_memory();
uint64_t memory_limit();

}  // namespace governor
}  // namespace gz
