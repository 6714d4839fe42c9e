#include "bindings.h"

namespace gz {

void bind_ingest(nb::module_&) {}

}  // namespace gz
