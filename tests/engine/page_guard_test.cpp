// Files whose pages cannot be read, without Python, for the sanitizers: every read inside guarded() ends in
// the file's bytes or in IoError, on any number of threads and across a fork; every other fault goes where it
// would have gone without us.
#include "file/page_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/threads.h"
#include "checks.h"
#include "file/mapping.h"

namespace {

using namespace gz;

constexpr size_t kPages = 1200;  // of which every other one takes more room than a page has
constexpr size_t kBytes = kPages * kPage;

struct TestFile {
  std::string path;
  std::vector<char> bytes = std::vector<char>(kBytes);

  explicit TestFile(const char* name) : path("/var/tmp/gz_page_guard_" + std::to_string(getpid()) + name) {
    for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<char>(mix64(i / 8) | 1);
    write();
  }
  ~TestFile() { unlink(path.c_str()); }
  void write() const {
    std::FILE* f = std::fopen(path.c_str(), "w");
    CHECK(f && std::fwrite(bytes.data(), 1, kBytes, f) == kBytes && std::fclose(f) == 0);
  }
  void cut(size_t bytes_left) const { CHECK(truncate(path.c_str(), static_cast<off_t>(bytes_left)) == 0); }
};

char read_byte(const Mapping& m, size_t at) {
  return reinterpret_cast<volatile const char*>(m.data())[at];
}

// One byte a page, on all threads.
std::vector<char> read_all(const Mapping& m) {
  std::vector<char> seen(kPages);
  parallel_for(kPages, 5, [&](size_t i, size_t end) {
    for (; i < end; ++i) seen[i] = read_byte(m, i * kPage + i);
  });
  return seen;
}

bool right(const std::vector<char>& seen, const TestFile& file) {
  for (size_t i = 0; i < kPages; ++i)
    if (seen[i] != file.bytes[i * kPage + i]) return false;
  return true;
}

// Empty, or what the IoError says.
std::string error_of(const std::function<void()>& fn) {
  try {
    guarded(fn);
  } catch (const IoError& e) {
    CHECK(e.code() == EIO);
    return e.path() + ": " + e.what();
  }
  return "";
}

void test_a_file_cut_short_is_an_error_until_it_is_whole_again() {
  const TestFile file("cut");
  const auto m = Mapping::open(file.path);
  CHECK(guarded([&] { return right(read_all(*m), file); }));
  file.cut(100 * kPage);
  for (int turn = 0; turn < 3; ++turn) {
    const std::string error = error_of([&] { read_all(*m); });
    CHECK(error.starts_with(file.path + ": cannot read at byte "));
    CHECK(error.find("shorter") != std::string::npos);
    // What is still there can be read.
    CHECK(guarded([&] { return read_byte(*m, 99 * kPage); }) == file.bytes[99 * kPage]);
  }
  file.write();
  CHECK(guarded([&] { return right(read_all(*m), file); }));
}

void test_the_disk_is_the_reason_for_whatever_zeros_led_to() {
  const TestFile file("why");
  const auto m = Mapping::open(file.path);
  file.cut(0);
  CHECK(!error_of([&] {
           if (read_byte(*m, 5) == 0) throw FormatError(file.path, "a rule is broken");
         }).empty());
  bool kept = false;
  file.write();
  try {
    guarded([&] { throw FormatError(file.path, "a rule is broken"); });
  } catch (const FormatError&) {
    kept = true;
  }
  CHECK(kept);
}

void test_pages_fail_one_by_one() {
  const TestFile file("pages");
  const auto m = Mapping::open(file.path);
  const auto mine = m->writable_copy();
  reinterpret_cast<char*>(mine->data())[7 * kPage] = 'w';
  for (const Mapping* map : {m.get(), mine.get()})
    for (size_t step : {1u, 2u, 5u, 40u}) {
      size_t hidden = 0;
      const std::string error = error_of([&] {
        for (size_t page = 0; page < kPages; page += step)
          if (page != 7) hidden += detail::hide_page(map->data() + page * kPage + 3);
        if (hidden) CHECK(read_byte(*map, 0) == 0);
      });
      CHECK(error.find(" at byte ") != std::string::npos);
      CHECK(hidden >= kPages / step - 1);
      const auto seen = guarded([&] { return read_all(*map); });
      CHECK(right(seen, file));
    }
  CHECK(read_byte(*mine, 7 * kPage) == 'w');  // private to the process: the file cannot give it back
}

void test_no_thread_takes_zeros_for_data() {
  const TestFile whole("whole"), failing("failing");
  const auto good = Mapping::open(whole.path), bad = Mapping::open(failing.path);
  std::atomic<int> read{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int turn = 0; turn < 200; ++turn) {
        const Mapping& m = t < 2 ? *bad : *good;
        const bool fails = t == 0 && turn % 8 == 0;
        try {
          const auto seen = guarded([&] {
            if (fails) detail::hide_page(bad->data() + static_cast<size_t>(turn) % kPages * kPage);
            return read_all(m);
          });
          CHECK(!fails && right(seen, t < 2 ? failing : whole));
          ++read;
        } catch (const IoError& e) {
          CHECK(e.path() == failing.path);
          ++refused;
        }
      }
    });
  for (auto& t : threads) t.join();
  CHECK(read > 0 && refused > 0);
  CHECK(right(guarded([&] { return read_all(*bad); }), failing));
}

// Runs fn in a child; its exit code, or minus the signal that ended it.
int in_a_child(const std::function<void()>& fn) {
  const pid_t child = fork();
  if (child == 0) {
    fn();
    std::_Exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

void install(int flags, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action{};
  action.sa_sigaction = handler;
  action.sa_flags = flags | SA_SIGINFO;
  CHECK(sigaction(SIGBUS, &action, nullptr) == 0);
}

struct sigaction before{};
void as_if_alone(int) {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  sigaction(SIGBUS, &action, nullptr);
}

void test_a_forked_child_is_guarded() {
  const TestFile file("fork");
  const auto m = Mapping::open(file.path);
  CHECK(guarded([&] { return right(read_all(*m), file); }));
  CHECK(in_a_child([&] {
          file.cut(3 * kPage);
          CHECK(!error_of([&] { read_all(*m); }).empty());
        }) == 0);
  CHECK(!error_of([&] { read_all(*m); }).empty());
}

void test_other_faults_go_where_they_went_before() {
  const TestFile file("others");
  const auto m = Mapping::open(file.path);
  file.cut(0);
  const auto user_reads = [&] { read_byte(*m, 9); };
  const auto exits = [](int, siginfo_t* info, void*) { _exit(info->si_addr ? 42 : 43); };
  // A user's read outside of the engine: by default, by a handler from before, by one from after.
  CHECK(in_a_child([&] {
          as_if_alone(0);
          guarded([] {});
          user_reads();
        }) == -SIGBUS);
  CHECK(in_a_child([&] {
          install(0, exits);
          guarded([] {});
          user_reads();
        }) == 42);
  CHECK(in_a_child([&] {
          guarded([] {});
          install(0, exits);
          user_reads();
        }) == 42);
  // Ours come first even so, as long as the engine is entered after the other handler was put there.
  CHECK(in_a_child([&] {
          guarded([] {});
          install(0, exits);
          CHECK(!error_of(user_reads).empty());
          user_reads();
        }) == 42);
  // Another's mapping, inside of the engine.
  CHECK(in_a_child([&] {
          install(0, exits);
          guarded([&] {
            std::FILE* empty = std::tmpfile();
            const void* p = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fileno(empty), 0);
            (void)*static_cast<volatile const char*>(p);
          });
        }) == 42);
  // A signal that someone sends.
  CHECK(in_a_child([&] {
          as_if_alone(0);
          guarded([] { raise(SIGBUS); });
        }) == -SIGBUS);
}

void test_handlers_that_call_each_other_come_to_an_end() {
  const TestFile file("circle");
  const auto m = Mapping::open(file.path);
  file.cut(0);
  const auto start = [&] {
    as_if_alone(0);
    guarded([] {});
    sigaction(SIGBUS, nullptr, &before);  // ours
  };
  // As Python's faulthandler: puts back what it found, then raises the signal again.
  CHECK(in_a_child([&] {
          start();
          install(SA_NODEFER, [](int signal, siginfo_t*, void*) {
            sigaction(SIGBUS, &before, nullptr);
            raise(signal);
          });
          CHECK(!error_of([&] { read_byte(*m, 9); }).empty());
          read_byte(*m, 9);
        }) == -SIGBUS);
  // A library that calls what it found.
  CHECK(in_a_child([&] {
          start();
          install(0, [](int signal, siginfo_t* info, void* c) { before.sa_sigaction(signal, info, c); });
          CHECK(!error_of([&] { read_byte(*m, 9); }).empty());
          read_byte(*m, 9);
        }) == -SIGBUS);
}

}  // namespace

int main() {
  set_num_threads(4);
  test_other_faults_go_where_they_went_before();
  test_handlers_that_call_each_other_come_to_an_end();
  test_a_file_cut_short_is_an_error_until_it_is_whole_again();
  test_the_disk_is_the_reason_for_whatever_zeros_led_to();
  test_pages_fail_one_by_one();
  test_no_thread_takes_zeros_for_data();
  test_a_forked_child_is_guarded();
  std::puts("page_guard_test: all passed");
}
