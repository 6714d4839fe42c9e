// The text of one field stored as a number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "csv/csv.h"

namespace gz {

enum class NumberText { kOk, kNotANumber, kTooLarge };

// The integer `s` is, exactly; no sign but '-', no point, no blanks.
NumberText parse_integer(std::string_view s, int64_t& out);

// Stores at row + value.offset. Empty when it went well, else what is wrong, to be read after the value.
std::string store_value(std::string_view s, const CsvValue& value, char* row);

}  // namespace gz
