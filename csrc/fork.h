// One lock that a fork never leaves held in the child: it is taken around fork itself.
//
// For short critical sections that any thread may be in while another forks, as DataLoader does.
#pragma once

#include <mutex>

namespace gz {

std::mutex& fork_mutex();

}  // namespace gz
