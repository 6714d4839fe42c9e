#include "csv/csv_source.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/error.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr size_t kPiecesPerThread = 4;
// Of pieces whose rows are not kept. All threads wait for the last piece of a wave: the more, the less often.
constexpr size_t kMorePieces = 32;
constexpr size_t kReadBytes = size_t{128} << 10;
constexpr size_t kMargin = 256;

const char* after_newline(const char* p, const char* end) {
  const void* found = std::memchr(p, '\n', static_cast<size_t>(end - p));
  return found ? static_cast<const char*>(found) + 1 : nullptr;
}

const char* after_last_newline(const char* p, const char* end) {
  const void* found = ::memrchr(p, '\n', static_cast<size_t>(end - p));
  return found ? static_cast<const char*>(found) + 1 : nullptr;
}

void check_fields(const CsvFormat& f) {
  const auto check = [&](size_t field) {
    if (field >= f.num_fields)
      throw std::invalid_argument("there is no field " + std::to_string(field) + ": lines have " +
                                  std::to_string(f.num_fields) + ", counted from 0");
  };
  for (size_t field : f.keys) check(field);
  for (const CsvValue& v : f.values) check(v.field);
  for (size_t field : f.texts) check(field);
}

}  // namespace

// One of the spare scratches while a thread works; a new one where all are in use.
class CsvSource::Lease {
 public:
  explicit Lease(CsvSource& source) : source_(source) {
    {
      std::lock_guard lock(source_.spare_mutex_);
      if (!source_.spare_.empty()) {
        scratch_ = std::move(source_.spare_.back());
        source_.spare_.pop_back();
        return;
      }
    }
    scratch_ = std::make_unique<Scratch>();
  }
  ~Lease() {
    std::lock_guard lock(source_.spare_mutex_);
    try {
      source_.spare_.push_back(std::move(scratch_));
    } catch (const std::bad_alloc&) {
      // It goes back to the system now.
    }
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Scratch* operator->() const { return scratch_.get(); }

 private:
  CsvSource& source_;
  std::unique_ptr<Scratch> scratch_;
};

CsvSource::CsvSource(std::string name, CsvFormat format, uint64_t lines_before, size_t piece_bytes)
    : name_(std::move(name)),
      format_(std::move(format)),
      piece_bytes_(std::max<size_t>(piece_bytes, 1)),
      lines_(lines_before) {
  check_fields(format_);
}

void CsvSource::open_file(int fd, uint64_t offset) {
  file_ = std::make_unique<OutFile>(name_, fd);
  size_ = file_->length();
  position_ = start_ = offset;
}

size_t CsvSource::file_pieces(size_t per_thread) const {
  if (position_ >= size_) return 0;
  const uint64_t left = (size_ - position_ + piece_bytes_ - 1) / piece_bytes_;
  return std::min<uint64_t>(left, per_thread * static_cast<size_t>(num_threads()));
}

// The lines that start in piece i, read and parsed a little at a time, so that text and rows of one read stay
// in the processor's cache. One byte before the piece is read too, to see whether a line starts right at its
// beginning.
void CsvSource::parse_file(size_t i, Buffer& text, CsvRows& rows) const {
  rows.clear(format_);
  const uint64_t begin = position_ + i * piece_bytes_;
  const uint64_t end = std::min(size_, begin + piece_bytes_);
  const bool first = begin == start_;
  uint64_t from = first ? begin : begin - 1;  // where in the file the text starts
  size_t have = 0;                            // bytes of text
  bool in_line = !first;                      // what comes up to the next newline is the piece before's
  text.reserve(kReadBytes + kCsvPadding);
  while (from + have < size_) {
    const size_t room = text.capacity() - kCsvPadding;
    // Up to the end of the piece and a little more, for its last line; where that is longer, further.
    const uint64_t at = from + have, until = at < end + kMargin ? end + kMargin : size_;
    const size_t more = std::min<uint64_t>(room - have, std::min(until, size_) - at);
    file_->read_at(at, text.data() + have, more);
    have += more;
    const char* const data = text.data();
    const char* start = data;
    if (in_line) {
      start = after_newline(data, data + have);
      if (!start && from + have < end) {
        from += have;
        have = 0;
        continue;
      }
      if (!start || from + static_cast<uint64_t>(start - data) >= end) return;  // no line starts here
      in_line = false;
    }
    const char* stop = from + have >= end ? after_newline(data + (end - 1 - from), data + have) : nullptr;
    const bool done = stop || from + have == size_;
    if (!stop) stop = done ? data + have : after_last_newline(start, data + have);
    if (stop == data + have) std::memset(text.data() + have, 0, kCsvPadding);
    if (stop) parse_csv(start, stop, format_, rows);
    if (done || rows.bad) return;
    // What is left is the beginning of a line; where that fills the text, it needs more room.
    const size_t used = static_cast<size_t>((stop ? stop : start) - data);
    have -= used;
    from += used;
    if (have == room) {
      Buffer larger(2 * room + kCsvPadding);
      std::memcpy(larger.data(), data, have);
      text = std::move(larger);
    } else {
      std::memmove(text.data(), data + used, have);
    }
  }
}

CsvSource::Parse CsvSource::cut_text(const char* data, size_t bytes,
                                     std::vector<std::pair<const char*, const char*>>& cuts) const {
  const char* const end = data + bytes;
  for (const char* p = data; p < end;) {
    const size_t left = static_cast<size_t>(end - p);
    const char* stop = left <= piece_bytes_ ? end : after_newline(p + piece_bytes_ - 1, end);
    if (!stop) stop = end;
    cuts.emplace_back(p, stop);
    p = stop;
  }
  return [this, &cuts](size_t i, Buffer& text, CsvRows& rows) {
    const size_t n = static_cast<size_t>(cuts[i].second - cuts[i].first);
    text.reserve(n + kCsvPadding);
    std::memcpy(text.data(), cuts[i].first, n);
    std::memset(text.data() + n, 0, kCsvPadding);
    rows.clear(format_);
    parse_csv(text.data(), text.data() + n, format_, rows);
  };
}

void CsvSource::account(const CsvRows& rows) {
  if (rows.skipped && skipped_ == 0)
    first_skipped_ = name_ + ", line " + std::to_string(lines_ + rows.first_skipped_line + 1) + ": " +
                     rows.first_skipped_message;
  if (rows.bad)
    throw InputError(name_ + ", line " + std::to_string(lines_ + rows.bad_line + 1) + ": " +
                     rows.bad_message);
  skipped_ += rows.skipped;
  lines_ += rows.lines;
}

void CsvSource::to_builder(Builder& builder, size_t pieces, const Parse& parse) {
  std::vector<CsvRows> rows(pieces);
  std::vector<Builder::Prepared> made(pieces);
  const auto batch = [](const CsvRows& r) {
    return EdgeBatch{.count = r.count,
                     .wide = r.wide,
                     .src = r.keys[0].data(),
                     .dst = r.keys[1].data(),
                     .payload = r.payload.data()};
  };
  // Edge ids depend on how many edges came before, so they have to wait for all pieces to be parsed.
  const bool at_once = !builder.needs_ids();
  parallel_for(pieces, 1, [&](size_t i, size_t end) {
    const Lease lease(*this);
    CsvRows& scratch = lease->rows;
    for (; i < end; ++i) {
      parse(i, lease->text, at_once ? scratch : rows[i]);
      if (!at_once) continue;
      if (!scratch.bad) made[i] = builder.prepare(batch(scratch), 0);
      rows[i].count = scratch.count;
      rows[i].lines = scratch.lines;
      rows[i].skipped = scratch.skipped;
      rows[i].bad = scratch.bad;
      rows[i].bad_line = scratch.bad_line;
      rows[i].bad_message = scratch.bad_message;
      rows[i].first_skipped_line = scratch.first_skipped_line;
      rows[i].first_skipped_message = scratch.first_skipped_message;
    }
  });
  for (const CsvRows& r : rows) account(r);
  if (!at_once) {
    std::vector<uint64_t> first(pieces, builder.num_input_edges());
    for (size_t i = 1; i < pieces; ++i) first[i] = first[i - 1] + rows[i - 1].count;
    parallel_for(pieces, 1, [&](size_t i, size_t end) {
      for (; i < end; ++i) made[i] = builder.prepare(batch(rows[i]), first[i]);
    });
  }
  for (auto& m : made) builder.accept(std::move(m));
}

void CsvSource::to_rows(std::vector<CsvRows>& rows, size_t pieces, const Parse& parse) {
  rows.clear();
  rows.resize(pieces);
  parallel_for(pieces, 1, [&](size_t i, size_t end) {
    const Lease lease(*this);
    for (; i < end; ++i) parse(i, lease->text, rows[i]);
  });
  for (const CsvRows& r : rows) account(r);
}

bool CsvSource::file_to(Builder& builder) {
  const auto threads = static_cast<size_t>(num_threads());
  const size_t more = builder.needs_ids() ? kPiecesPerThread : kMorePieces / threads;
  const size_t pieces = file_pieces(std::max(kPiecesPerThread, more));
  to_builder(builder, pieces, [this](size_t i, Buffer& t, CsvRows& r) { parse_file(i, t, r); });
  position_ += pieces * piece_bytes_;
  return position_ < size_;
}

bool CsvSource::file_to(std::vector<CsvRows>& rows) {
  const size_t pieces = file_pieces(kPiecesPerThread);
  to_rows(rows, pieces, [this](size_t i, Buffer& t, CsvRows& r) { parse_file(i, t, r); });
  position_ += pieces * piece_bytes_;
  return position_ < size_;
}

void CsvSource::text_to(Builder& builder, const char* data, size_t bytes) {
  std::vector<std::pair<const char*, const char*>> cuts;
  const Parse parse = cut_text(data, bytes, cuts);
  to_builder(builder, cuts.size(), parse);
}

void CsvSource::text_to(std::vector<CsvRows>& rows, const char* data, size_t bytes) {
  std::vector<std::pair<const char*, const char*>> cuts;
  const Parse parse = cut_text(data, bytes, cuts);
  to_rows(rows, cuts.size(), parse);
}

}  // namespace gz
